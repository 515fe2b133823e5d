%% What scripts/demo shows, in one VM: a server on etls, and clients of three kinds against it.
%%
%% The server does what a user's would: it accepts, serves each connection in its own process, and
%% speaks the protocol that ALPN settled: HTTP for curl, lines for the rest.
-module(etls_demo).

-export([main/0]).

-define(LINES, <<"lines">>).
-define(HTTP, <<"http/1.1">>).

-record(demo, {
    port :: inet:port_number(),
    ca :: file:filename(),
    cert :: file:filename(),
    key :: file:filename(),
    size :: pos_integer()
}).

%% Arguments: the directory that scripts/certs filled, and the size of one message in MB.
-spec main() -> no_return().
main() ->
    process_flag(trap_exit, true),
    [Dir, MB] = init:get_plain_arguments(),
    %% The crash below is reported at length, as it should be; here it would bury the demo.
    logger:set_primary_config(level, critical),
    [Ca, Cert, Key] = [filename:join(Dir, Name) || Name <- ["ca.pem", "ecdsa.pem", "ecdsa.key"]],
    Demo = #demo{
        port = server(Cert, Key), ca = Ca, cert = Cert, key = Key, size = list_to_integer(MB)
    },
    Steps = [
        {"an etls client: certificate checked, SNI, ALPN; it sends a line", fun etls_client/1},
        {"openssl s_client", fun s_client/1},
        {"curl, over HTTPS", fun curl/1},
        {"kill -9 of the daemon: the VM hears of it, and goes on", fun crash/1},
        {"bulk: 10 connections x 10 messages x " ++ MB ++ " MB, beside OTP's ssl", fun bulk/1}
    ],
    Failed = [Title || {Title, Step} <- Steps, not shown(Title, Step, Demo)],
    application:stop(etls),
    case Failed of
        [] -> halt(0);
        _ -> halt(1)
    end.

shown(Title, Step, Demo) ->
    io:format("~n==> ~s~n", [Title]),
    try
        Step(Demo),
        true
    catch
        Class:Reason:Stack ->
            io:format("    FAILED: ~p: ~tp~n    ~tp~n", [Class, Reason, Stack]),
            false
    end.

%%% ---------------------------------------------------------------- the server

server(Cert, Key) ->
    io:format("~n==> an etls server~n"),
    ok = etls:start(),
    {ok, Listener} = etls:listen(0, [
        {certfile, Cert}, {keyfile, Key}, {alpn_preferred_protocols, [?HTTP, ?LINES]}
    ]),
    {ok, {Address, Port}} = etls:sockname(Listener),
    spawn(fun() -> serve(Listener) end),
    {ok, Daemon} = etls_bench:daemon_pid(),
    tell("listening on ~s:~b; TLS is done by process ~b, the VM is process ~s", [
        inet:ntoa(Address), Port, Daemon, os:getpid()
    ]),
    Port.

serve(Listener) ->
    {ok, Socket} = etls:accept(Listener),
    spawn(fun() -> serve(Listener) end),
    case etls:handshake(Socket, 5000) of
        ok -> talk(etls:negotiated_protocol(Socket), Socket);
        {error, Reason} -> tell("server: ~ts", [etls:format_error(Reason)])
    end.

talk({ok, ?HTTP}, Socket) ->
    ok = etls:setopts(Socket, [{packet, http_bin}]),
    {ok, {http_request, 'GET', {abs_path, Path}, _Version}} = etls:recv(Socket, 0, 5000),
    ok = skip_headers(Socket),
    Body = ["You asked etls for ", Path, ".\n"],
    ok = etls:send(Socket, [
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: ",
        integer_to_list(iolist_size(Body)), "\r\n\r\n", Body
    ]),
    etls:close(Socket);
talk(_Other, Socket) ->
    ok = etls:setopts(Socket, [{packet, line}]),
    answer(Socket).

skip_headers(Socket) ->
    case etls:recv(Socket, 0, 5000) of
        {ok, http_eoh} -> ok;
        {ok, _Header} -> skip_headers(Socket)
    end.

answer(Socket) ->
    ok = etls:setopts(Socket, [{active, once}]),
    receive
        {etls, Socket, <<"bye\n">>} ->
            ok = etls:send(Socket, "bye\n"),
            etls:close(Socket);
        {etls, Socket, Line} ->
            ok = etls:send(Socket, ["you said: ", Line]),
            answer(Socket);
        {etls_closed, Socket} ->
            ok;
        {etls_error, Socket, Reason} ->
            tell("server: ~ts", [etls:format_error(Reason)])
    end.

%%% ---------------------------------------------------------------- the clients

etls_client(Demo) ->
    Socket = connect(Demo),
    {ok, Information} = etls:connection_information(Socket),
    {ok, Alpn} = etls:negotiated_protocol(Socket),
    {ok, Peer} = etls:peercert(Socket),
    tell("version      ~s", [proplists:get_value(protocol, Information)]),
    Suite = proplists:get_value(selected_cipher_suite, Information),
    tell("cipher       ~s", [ssl:suite_to_str(Suite)]),
    tell("SNI          ~s", [proplists:get_value(sni_hostname, Information)]),
    tell("ALPN         ~s", [Alpn]),
    tell("certificate  ~b bytes of DER, trusted and for this host", [byte_size(Peer)]),
    <<"you said: hello\n">> = say(Socket, "hello\n"),
    tell("echo         you said: hello", []),
    ok = etls:close(Socket).

connect(#demo{port = Port, ca = Ca}) ->
    {ok, Socket} = etls:connect("localhost", Port, options(Ca), 5000),
    Socket.

options(Ca) ->
    [
        {verify, verify_peer},
        {cacertfile, Ca},
        {alpn_advertised_protocols, [?LINES]},
        {packet, line}
    ].

say(Socket, Line) ->
    ok = etls:send(Socket, Line),
    {ok, Answer} = etls:recv(Socket, 0, 5000),
    Answer.

s_client(#demo{port = Port, ca = Ca}) ->
    Output = command(
        "printf 'hello\\nbye\\n' | timeout 10 openssl s_client -connect 127.0.0.1:~b"
        " -servername localhost -verify_hostname localhost -verify_return_error -CAfile ~ts"
        " -alpn lines -brief -ign_eof",
        [Port, Ca]
    ),
    show(Output, ["Protocol version", "Ciphersuite", "Verification", "you said"]),
    match(Output, "Verification: OK"),
    match(Output, "you said: hello").

curl(#demo{port = Port, ca = Ca}) ->
    Output = command(
        "timeout 10 curl --silent --show-error --fail --verbose --cacert ~ts"
        " https://localhost:~b/greeting",
        [Ca, Port]
    ),
    show(Output, ["SSL connection using", "ALPN", "subjectAltName", "HTTP/1.1 200", "You asked"]),
    match(Output, "You asked etls for /greeting").

command(Format, Arguments) ->
    Command = io_lib:format(Format, Arguments),
    os:cmd(lists:flatten([Command, " 2>&1"])).

%% The lines that hold one of the words: the rest of what such tools say is of no interest here.
show(Output, Words) ->
    Lines = re:split(Output, "\r?\n", [{return, list}, unicode]),
    Wanted = [Line || Line <- Lines, lists:any(fun(Word) -> holds(Line, Word) end, Words)],
    lists:foreach(fun(Line) -> tell("~ts", [string:trim(Line)]) end, Wanted).

match(Output, Text) ->
    case holds(Output, Text) of
        true -> ok;
        false -> error({not_said, Text, Output})
    end.

holds(Text, Part) -> string:find(Text, Part) =/= nomatch.

%%% ---------------------------------------------------------------- the crash

crash(Demo) ->
    Socket = connect(Demo),
    ok = etls:setopts(Socket, [{active, once}]),
    {ok, Daemon} = etls_bench:daemon_pid(),
    From = erlang:monotonic_time(millisecond),
    os:cmd("kill -9 " ++ integer_to_list(Daemon)),
    receive
        {etls_error, Socket, Reason} -> tell("the open socket: {etls_error, _, ~p}", [Reason])
    after 5000 -> error(not_told)
    end,
    Again = connect_again(Demo, From),
    tell("after ~b ms: same port, new daemon, new connection", [
        erlang:monotonic_time(millisecond) - From
    ]),
    <<"you said: still here\n">> = say(Again, "still here\n"),
    ok = etls:close(Again).

%% The new daemon takes some milliseconds; a second is promised.
connect_again(#demo{port = Port, ca = Ca} = Demo, From) ->
    case etls:connect("localhost", Port, options(Ca), 1000) of
        {ok, Socket} ->
            Socket;
        {error, Reason} ->
            case erlang:monotonic_time(millisecond) - From > 5000 of
                true -> error(Reason);
                false -> timer:sleep(5), connect_again(Demo, From)
            end
    end.

%%% ---------------------------------------------------------------- bulk

bulk(#demo{cert = Cert, key = Key, size = MB}) ->
    {ok, _} = application:ensure_all_started(ssl),
    Load = #{
        connections => 10, messages => 10, size => MB * 1_000_000, version => 'tlsv1.3',
        certfile => Cert, keyfile => Key
    },
    Speeds = [{Peer, measure(Name, Peer, Load)} || {Peer, Name} <- peers()],
    tell("etls is at ~.1f x ssl as it comes, and at ~.1f x ssl with a larger buffer", [
        proplists:get_value(etls, Speeds) / proplists:get_value(Other, Speeds)
     || Other <- [ssl, ssl_buffer]
    ]).

peers() ->
    [{etls, "etls"}, {ssl, "ssl as it comes"}, {ssl_buffer, "ssl {buffer,262144}"}].

measure(Name, Peer, Load) ->
    io:format("    ~-20s ", [Name]),
    Figures = etls_bench:bulk(Peer, Load, fun progress/2),
    #{mb_per_s := Speed, vm_cpu := Vm, daemon_cpu := Daemon, suite := Suite} = Figures,
    io:format(" ~6b MB/s, CPU-s/GB: VM ~.2f, daemon ~.2f  (~s)~n", [
        round(Speed), Vm, Daemon, Suite
    ]),
    Speed.

progress(Done, _All) when Done rem 5 =:= 0 -> io:put_chars(".");
progress(_Done, _All) -> ok.

tell(Format, Arguments) -> io:format("    " ++ Format ++ "~n", Arguments).
