%% The other implementations at the other end: OpenSSL's and GnuTLS's programs and OTP's ssl, in
%% both roles, both versions, with both kinds of certificate. The peer echoes; what comes back must
%% be what was sent, by hash, while sending and receiving at once.
-module(etls_interop_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([a_server_echoes_every_size/1, a_client_echoes_every_size/1, nothing_is_left_behind/1]).

-import(etls_test_lib, [listen/2, ssl_listen/2, credentials/2, versions/1, accept_in_background/2,
                        accepted/1, in_process/1, result/2]).

-define(LOCAL, {127, 0, 0, 1}).
-define(BOUND, 10000).
-define(BULK_BOUND, 60000).
-define(SIZES, [0, 1, 16383, 16384, 16385]).
-define(BLOCK, 65536).

suite() -> [{timetrap, {minutes, 3}}].

all() -> etls_test_lib:all().

groups() ->
    Cases = [a_server_echoes_every_size, a_client_echoes_every_size],
    etls_test_lib:combined([{group, openssl}, {group, gnutls}, {group, otp},
                            nothing_is_left_behind])
        ++ [{Peer, [],
             [{group, join([Peer, Version])} || Version <- ['tlsv1.2', 'tlsv1.3']]}
            || Peer <- [openssl, gnutls, otp]]
        ++ [{join([Peer, Version]), [],
             [{group, join([Peer, Version, Key])} || Key <- [ecdsa, rsa]]}
            || Peer <- [openssl, gnutls, otp], Version <- ['tlsv1.2', 'tlsv1.3']]
        ++ [{join([Peer, Version, Key]), [], Cases}
            || Peer <- [openssl, gnutls, otp], Version <- ['tlsv1.2', 'tlsv1.3'],
               Key <- [ecdsa, rsa]].

join(Names) ->
    list_to_atom(lists:flatten(lists:join(" ", [atom_to_list(Name) || Name <- Names]))).

init_per_suite(Config) -> etls_test_lib:prepare(Config).
end_per_suite(_Config) -> ok.

init_per_group(Group, Config) ->
    case etls_test_lib:is_combination(Group) of
        true -> [{bulk, bulk(Group)} | etls_test_lib:enter(Group, Config)];
        false -> about(Group, Config)
    end.

%% What goes wrong with much of it shows with less of it, but for the peers' own limits.
bulk(port_local) -> 100000000;
bulk(_) -> 10000000.

about(Group, Config) ->
    case [list_to_atom(Name) || Name <- string:split(atom_to_list(Group), " ", all)] of
        [gnutls] -> [{peer, gnutls}, {preload, buffered_stdout(Config)} | Config];
        [Peer] -> [{peer, Peer} | Config];
        [_, Version] -> [{version, Version} | Config];
        [_, _, Key] -> [{key, atom_to_list(Key)} | Config]
    end.

end_per_group(Group, Config) ->
    case etls_test_lib:is_combination(Group) of
        true -> etls_test_lib:leave(Config);
        false -> ok
    end.

init_per_testcase(Case, Config) ->
    ok = etls_test_lib:watch(Case),
    Config.

end_per_testcase(_Case, _Config) -> ok.

%% The peer is the server.
a_server_echoes_every_size(Config) ->
    Peer = start_server(?config(peer, Config), Config),
    [begin
         Socket = connect(element(2, Peer), Config),
         exchange(Socket, Size)
     end || Size <- sizes(Config)],
    stop_peer(Peer).

%% The peer is the client.
a_client_echoes_every_size(Config) ->
    {Listener, Port} = listen(Config, credentials(Config, ?config(key, Config))),
    [begin
         Accepting = accept_in_background(Listener, self()),
         Peer = start_client(?config(peer, Config), Port, Config),
         exchange(accepted(Accepting), Size),
         stop_peer(Peer)
     end || Size <- sizes(Config)],
    ok = etls:close(Listener).

sizes(Config) -> ?SIZES ++ [?config(bulk, Config)].

nothing_is_left_behind(_Config) ->
    etls_test_lib:nothing_left_behind().

%% Sends Size bytes, reads as many back at the same time, compares, and ends in the orderly way.
exchange(Socket, Size) ->
    {ok, Information} = etls:connection_information(Socket),
    ?assert(lists:keymember(protocol, 1, Information)),
    Sending = in_process(fun() -> send(Socket, Size) end),
    Received = receive_hash(Socket, Size),
    ?assertEqual({Size, result(Sending, ?BULK_BOUND)}, {Size, Received}),
    ok = etls:shutdown(Socket, write),
    ?assertEqual({Size, {error, closed}}, {Size, etls:recv(Socket, 0, ?BOUND)}),
    ok = etls:close(Socket).

send(Socket, Size) ->
    crypto:hash_final(send(Socket, Size, 0, seed(), crypto:hash_init(sha256))).

send(_Socket, 0, _Number, _Seed, Hash) ->
    Hash;
send(Socket, Left, Number, Seed, Hash) ->
    Block = block(Number, min(Left, ?BLOCK), Seed),
    ok = etls:send(Socket, Block),
    send(Socket, Left - byte_size(Block), Number + 1, Seed, crypto:hash_update(Hash, Block)).

%% Lines, because gnutls-serv's echo answers lines and ends strings at zero bytes; each block
%% differs from every other, so that none can be lost, doubled or moved unseen.
block(Number, Size, Seed) ->
    Start = Number * 7919 rem ?BLOCK,
    Body = binary:part(Seed, Start, Size),
    Head = iolist_to_binary(io_lib:format("~10..0b", [Number])),
    Last = max(Size - 1, 0),
    case Size > byte_size(Head) of
        true -> <<Head/binary, (binary:part(Body, 0, Last - byte_size(Head)))/binary, "\n">>;
        false -> binary:copy(<<"\n">>, Size)
    end.

seed() ->
    Line = fun() -> [binary:encode_hex(crypto:strong_rand_bytes(500)), "\n"] end,
    iolist_to_binary([Line() || _ <- lists:seq(1, 2 * ?BLOCK div 1001 + 1)]).

receive_hash(Socket, Size) ->
    receive_hash(Socket, Size, crypto:hash_init(sha256)).

receive_hash(_Socket, 0, Hash) ->
    crypto:hash_final(Hash);
receive_hash(Socket, Left, Hash) ->
    case etls:recv(Socket, 0, ?BOUND) of
        {ok, Data} when byte_size(Data) =< Left ->
            receive_hash(Socket, Left - byte_size(Data), crypto:hash_update(Hash, Data));
        Other ->
            error({Left, "bytes missing", Other})
    end.

%% The programs cannot be asked when they listen, so this asks the port until it is taken.
connect(Port, Config) ->
    connect(Port, Config, erlang:monotonic_time(millisecond) + ?BOUND).

connect(Port, Config, Deadline) ->
    case etls:connect(?LOCAL, Port, versions(Config), ?BOUND) of
        {ok, Socket} ->
            Socket;
        {error, econnrefused} ->
            ?assert(erlang:monotonic_time(millisecond) < Deadline),
            receive after 10 -> ok end,
            connect(Port, Config, Deadline)
    end.

%% {Peer, Port}
start_server(openssl, Config) ->
    Port = etls_test_peer:free_port(),
    {program(["openssl", "s_server", "-quiet", "-accept", "127.0.0.1:" ++ integer_to_list(Port),
              "-cert", certificate(Config), "-key", key(Config), openssl_version(Config)],
             echo, log(Config)), Port};
start_server(gnutls, Config) ->
    Port = etls_test_peer:free_port(),
    {program(["gnutls-serv", "--echo", "--crlf", "--quiet", "--disable-client-cert",
              "--port", integer_to_list(Port), "--x509certfile", certificate(Config),
              "--x509keyfile", key(Config), "--priority", gnutls_version(Config)],
             drop, "/dev/null"), Port};
start_server(otp, Config) ->
    {Listener, Port} = ssl_listen(Config, credentials(Config, ?config(key, Config))),
    {in_process(fun() -> ssl_echo_server(Listener) end), Port}.

start_client(openssl, Port, Config) ->
    {program(["openssl", "s_client", "-quiet", "-connect", "127.0.0.1:" ++ integer_to_list(Port),
              openssl_version(Config)], echo, log(Config)), Port};
start_client(gnutls, Port, Config) ->
    {program(["env", "LD_PRELOAD=" ++ ?config(preload, Config),
              "gnutls-cli", "--no-ca-verification", "--logfile=" ++ log(Config),
              "--priority", gnutls_version(Config), "--port", integer_to_list(Port), "127.0.0.1"],
             echo, log(Config)), Port};
start_client(otp, Port, Config) ->
    {in_process(fun() ->
                        {ok, Socket} = ssl:connect(?LOCAL, Port, [binary, {active, false},
                                                                  {verify, verify_none}
                                                                  | versions(Config)], ?BOUND),
                        ssl_echo(Socket)
                end), Port}.

%% Compiled here: see the source for why.
buffered_stdout(Config) ->
    Source = etls_test_lib:project_file("tests/interop/buffered_stdout.c"),
    Library = filename:join(?config(priv_dir, Config), "buffered_stdout.so"),
    "" = os:cmd("cc -shared -fPIC -o " ++ Library ++ " " ++ Source),
    Library.

ssl_echo_server(Listener) ->
    {ok, Hello} = ssl:transport_accept(Listener),
    {ok, Socket} = ssl:handshake(Hello, ?BOUND),
    ok = ssl_echo(Socket),
    ssl_echo_server(Listener).

%% Reads and writes in two processes: an echo that only does one at a time would stand still once
%% both directions are full.
ssl_echo(Socket) ->
    Writer = spawn_link(fun() -> ssl_writer(Socket) end),
    ssl_reader(Socket, Writer),
    Monitor = monitor(process, Writer),
    Writer ! done,
    receive {'DOWN', Monitor, process, Writer, _} -> ssl:close(Socket) end.

ssl_reader(Socket, Writer) ->
    case ssl:recv(Socket, 0, ?BULK_BOUND) of
        {ok, Data} -> Writer ! {write, Data}, ssl_reader(Socket, Writer);
        {error, closed} -> ok
    end.

ssl_writer(Socket) ->
    receive
        {write, Data} -> ok = ssl:send(Socket, Data), ssl_writer(Socket);
        done -> ok
    end.

stop_peer({Program, _}) when is_pid(Program) ->
    etls_test_peer:stop(Program);
stop_peer({{Process, Monitor, _}, _}) ->
    exit(Process, kill),
    receive {'DOWN', Monitor, process, Process, _} -> ok end.

%% gnutls-serv logs all it is sent: nobody wants to keep that.
program(Command, Output, Log) ->
    etls_test_peer:start(Command, #{output => Output, log => Log}).

log(Config) -> filename:join(?config(priv_dir, Config), "peers.log").

certificate(Config) -> etls_test_lib:file(Config, ?config(key, Config) ++ ".pem").
key(Config) -> etls_test_lib:file(Config, ?config(key, Config) ++ ".key").

openssl_version(Config) ->
    case ?config(version, Config) of
        'tlsv1.2' -> "-tls1_2";
        'tlsv1.3' -> "-tls1_3"
    end.

gnutls_version(Config) ->
    case ?config(version, Config) of
        'tlsv1.2' -> "NORMAL:-VERS-ALL:+VERS-TLS1.2";
        'tlsv1.3' -> "NORMAL:-VERS-ALL:+VERS-TLS1.3"
    end.
