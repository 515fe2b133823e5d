%% The originals' benchmark: several connections in one VM, each carrying a few large messages
%% from a sending process to a process that reads each with one passive recv(Socket, Size).
%%
%% etls stands beside OTP's ssl as it comes, and beside ssl with the larger `buffer' that its
%% users find out about; all three with the same TLS version and cipher suite. scripts/bench
%% calls main/0, scripts/demo calls bulk/3. etls_bench_messages has the small messages and
%% the handshakes, etls_bench_links compares etls with itself.
-module(etls_bench).

-export([main/0, bulk/3, medians/1, daemon_pid/0]).
%% The peers and their cost, for the other loads.
-export([listen/2, connect/3, accept/2, sockname/2, recv/3, send/3, close/2, name/1]).
-export([cpu_seconds/0, minus/2]).
-export_type([peer/0, load/0, figures/0]).

-type peer() :: etls | ssl | ssl_buffer.
-type load() :: #{
    connections := pos_integer(),
    messages := pos_integer(),
    %% bytes of one message
    size := pos_integer(),
    version := 'tlsv1.2' | 'tlsv1.3',
    certfile := file:filename(),
    keyfile := file:filename()
}.
-type figures() :: #{
    %% 10^6 bytes per second, from the first send to the last byte read
    mb_per_s := float(),
    %% CPU seconds per 10^9 bytes; the daemon's share is 0.0 for ssl
    vm_cpu := float(),
    daemon_cpu := float(),
    suite := string()
}.

-define(PORT_BUFFER, 262144).
%% No run of a sane size takes longer; a stuck one must not hang a script.
-define(STUCK, 900_000).

%%% ---------------------------------------------------------------- command line

-spec main() -> no_return().
main() ->
    %% A connection that fails tells why by its exit.
    process_flag(trap_exit, true),
    try
        {Parts, Load, Runs, Peers} = arguments(init:get_plain_arguments(), #{}),
        ok = start(Peers),
        lists:foreach(fun(Part) -> part(Part, Load, Runs, Peers) end, Parts),
        halt(0)
    catch
        throw:{usage, Text} ->
            io:format(standard_error, "bench: ~s~n", [Text]),
            halt(2);
        Class:Reason:Stack ->
            io:format(standard_error, "bench: ~p: ~p~n~p~n", [Class, Reason, Stack]),
            halt(1)
    end.

part(peers, Load, Runs, Peers) ->
    io:format("~s, ~b runs of each, interleaved~n", [describe(Load), Runs]),
    Figures = [{Peer, run(Peer, Load, Run)} || Run <- lists:seq(1, Runs), Peer <- Peers],
    report(Peers, Figures);
part(requests, Load, Runs, Peers) ->
    etls_bench_messages:requests(Load, Runs, Peers);
part(handshakes, Load, Runs, Peers) ->
    etls_bench_messages:handshakes(Load, Runs, Peers);
part(combinations, Load, Runs, _Peers) ->
    etls_bench_links:combinations(Load, Runs);
part(stuck, Load, Runs, _Peers) ->
    etls_bench_links:stuck(Load, Runs).

arguments(["--combinations" | Rest], Set) -> arguments(Rest, Set#{parts => [combinations]});
arguments(["--requests" | Rest], Set) -> arguments(Rest, Set#{parts => [requests]});
arguments(["--handshakes" | Rest], Set) -> arguments(Rest, Set#{parts => [handshakes]});
arguments(["--stuck" | Rest], Set) -> arguments(Rest, Set#{parts => [stuck]});
arguments(["--size", MB | Rest], Set) -> arguments(Rest, Set#{size => number(MB) * 1_000_000});
arguments(["--full" | Rest], Set) -> arguments(Rest, Set#{size => 100_000_000});
arguments(["--runs", N | Rest], Set) -> arguments(Rest, Set#{runs => number(N)});
arguments(["--connections", N | Rest], Set) -> arguments(Rest, Set#{connections => number(N)});
arguments(["--messages", N | Rest], Set) -> arguments(Rest, Set#{messages => number(N)});
arguments(["--tls12" | Rest], Set) -> arguments(Rest, Set#{version => 'tlsv1.2'});
arguments(["--peers", Names | Rest], Set) ->
    arguments(Rest, Set#{peers => [peer(Name) || Name <- string:lexemes(Names, ",")]});
arguments(["--certs", Dir | Rest], Set) ->
    Cert = filename:join(Dir, "ecdsa.pem"),
    Key = filename:join(Dir, "ecdsa.key"),
    arguments(Rest, Set#{certfile => Cert, keyfile => Key});
arguments([], Set) ->
    Defaults = #{
        connections => 10, messages => 10, size => 10_000_000, version => 'tlsv1.3',
        runs => 3, peers => [etls, ssl, ssl_buffer],
        parts => [peers, requests, handshakes, combinations]
    },
    All = maps:merge(Defaults, Set),
    #{parts := Parts, runs := Runs, peers := Peers} = All,
    {Parts, maps:without([parts, runs, peers], All), Runs, Peers};
arguments([Word | _], _Set) ->
    throw({usage, ["unknown or incomplete: ", Word]}).

number(Text) ->
    case string:to_integer(Text) of
        {N, ""} when N > 0 -> N;
        _ -> throw({usage, ["not a positive number: ", Text]})
    end.

peer("etls") -> etls;
peer("ssl") -> ssl;
peer("ssl_buffer") -> ssl_buffer;
peer(Other) -> throw({usage, ["peers are etls, ssl, ssl_buffer; not ", Other]}).

start(Peers) ->
    Applications = lists:usort([module(Peer) || Peer <- Peers]) ++ [ssl],
    lists:foreach(fun(App) -> {ok, _} = application:ensure_all_started(App) end, Applications).

run(Peer, Load, Run) ->
    io:format("  run ~b  ~-20s", [Run, name(Peer)]),
    Figures = #{mb_per_s := Speed} = bulk(Peer, Load, fun dots/2),
    io:format(" ~.1f MB/s~n", [Speed]),
    Figures.

%% Ten dots a run, whatever the number of messages.
dots(Done, All) ->
    case (Done * 10) div All > ((Done - 1) * 10) div All of
        true -> io:put_chars(".");
        false -> ok
    end.

describe(#{connections := C, messages := M, size := Size, version := Version}) ->
    io_lib:format("~b connections x ~b messages x ~.1f MB, ~s", [C, M, Size / 1.0e6, Version]).

report(Peers, Figures) ->
    Medians = [{Peer, medians([F || {P, F} <- Figures, P =:= Peer])} || Peer <- Peers],
    io:format("~nmedians~n~-20s ~9s ~9s ~14s ~14s  ~s~n", [
        "", "MB/s", "x ssl", "VM CPU-s/GB", "etlsd", "suite"
    ]),
    lists:foreach(fun({Peer, Median}) -> report_line(Peer, Median, Medians) end, Medians).

report_line(Peer, #{mb_per_s := Speed, vm_cpu := Vm, daemon_cpu := Daemon, suite := Suite}, All) ->
    Ratio =
        case proplists:get_value(ssl, All) of
            #{mb_per_s := Base} -> io_lib:format("~.2f", [Speed / Base]);
            undefined -> "-"
        end,
    io:format("~-20s ~9.1f ~9s ~14.2f ~14.2f  ~s~n", [
        name(Peer), Speed, Ratio, Vm, Daemon, Suite
    ]).

-spec medians([figures(), ...]) -> figures().
medians([#{suite := Suite} | _] = Figures) ->
    Median = fun(Key) ->
        Sorted = lists:sort([maps:get(Key, F) || F <- Figures]),
        lists:nth((length(Sorted) + 1) div 2, Sorted)
    end,
    #{
        mb_per_s => Median(mb_per_s), vm_cpu => Median(vm_cpu),
        daemon_cpu => Median(daemon_cpu), suite => Suite
    }.

-spec name(peer()) -> string().
name(etls) -> "etls";
name(ssl) -> "ssl";
name(ssl_buffer) -> "ssl {buffer,262144}".

%%% ---------------------------------------------------------------- one run

%% Runs the load once. Progress(Done, All) is called as each message has been read. Fails where a
%% byte came out different from how it went in. The caller traps exits.
-spec bulk(peer(), load(), fun((pos_integer(), pos_integer()) -> term())) -> figures().
bulk(Peer, #{connections := Connections, messages := Messages, size := Size} = Load, Progress) ->
    Payload = binary:copy(crypto:strong_rand_bytes(1000), Size div 1000 + 1),
    Message = binary:part(Payload, 0, Size),
    {ok, Listener} = listen(Peer, Load),
    {ok, {_, Port}} = sockname(Peer, Listener),
    Self = self(),
    Pairs = [pair(Peer, Load, Listener, Port, Message, Self) || _ <- lists:seq(1, Connections)],
    Suite = lists:last([wait(Receiver, ready) || {Receiver, _} <- Pairs]),
    [wait(Sender, ready) || {_, Sender} <- Pairs],
    Before = cpu_seconds(),
    From = erlang:monotonic_time(microsecond),
    [Sender ! go || {_, Sender} <- Pairs],
    All = Connections * Messages,
    [got(Done, All, Progress) || Done <- lists:seq(1, All)],
    Seconds = (erlang:monotonic_time(microsecond) - From) / 1.0e6,
    {VmCpu, DaemonCpu} = minus(cpu_seconds(), Before),
    [Receiver ! check || {Receiver, _} <- Pairs],
    [wait(Process, same) || {Process, _} <- Pairs],
    [wait(Sender, sent) || {_, Sender} <- Pairs],
    close(Peer, Listener),
    Bytes = All * Size,
    #{
        mb_per_s => Bytes / Seconds / 1.0e6, suite => Suite,
        vm_cpu => VmCpu * 1.0e9 / Bytes, daemon_cpu => DaemonCpu * 1.0e9 / Bytes
    }.

got(Done, All, Progress) ->
    receive
        got -> Progress(Done, All);
        {'EXIT', _, Reason} when Reason =/= normal -> error(Reason)
    after ?STUCK -> error({stuck_after, Done})
    end.

wait(Process, What) ->
    receive
        {Process, What, Value} -> Value;
        {'EXIT', _, Reason} when Reason =/= normal -> error(Reason)
    after ?STUCK -> error({stuck, What})
    end.

pair(Peer, Load, Listener, Port, Message, Report) ->
    Receiver = spawn_link(fun() -> receiver(Peer, Load, Listener, Message, Report) end),
    Sender = spawn_link(fun() -> sender(Peer, Load, Port, Message, Report) end),
    {Receiver, Sender}.

receiver(Peer, #{messages := Messages, size := Size}, Listener, Message, Report) ->
    {ok, Socket} = accept(Peer, Listener),
    Report ! {self(), ready, suite(Peer, Socket)},
    Last = receive_all(Peer, Socket, Size, Messages, Report),
    receive
        check -> ok
    end,
    case Last of
        Message -> Report ! {self(), same, ok};
        _ -> exit(received_other_bytes)
    end,
    close(Peer, Socket).

receive_all(Peer, Socket, Size, Left, Report) ->
    {ok, Data} = recv(Peer, Socket, Size),
    Report ! got,
    case Left of
        1 -> Data;
        _ -> receive_all(Peer, Socket, Size, Left - 1, Report)
    end.

sender(Peer, #{messages := Messages} = Load, Port, Message, Report) ->
    {ok, Socket} = connect(Peer, Load, Port),
    Report ! {self(), ready, ok},
    receive
        go -> ok
    end,
    [ok = send(Peer, Socket, Message) || _ <- lists:seq(1, Messages)],
    Report ! {self(), sent, ok},
    close(Peer, Socket).

%%% ---------------------------------------------------------------- the two libraries

-spec listen(peer(), load()) -> {ok, term()} | {error, term()}.
listen(Peer, #{certfile := Cert, keyfile := Key} = Load) ->
    Files = [{certfile, Cert}, {keyfile, Key}],
    (module(Peer)):listen(0, Files ++ [{backlog, 64}] ++ options(Peer, Load)).

-spec connect(peer(), load(), inet:port_number()) -> {ok, term()} | {error, term()}.
connect(Peer, Load, Port) ->
    (module(Peer)):connect("127.0.0.1", Port, [{verify, verify_none} | options(Peer, Load)], 10000).

-spec accept(peer(), term()) -> {ok, term()} | {error, term()}.
accept(etls, Listener) ->
    {ok, Socket} = etls:accept(Listener),
    ok = etls:handshake(Socket),
    {ok, Socket};
accept(_Ssl, Listener) ->
    {ok, Socket} = ssl:transport_accept(Listener),
    ssl:handshake(Socket).

options(Peer, #{version := Version}) ->
    [{active, false}, {versions, [Version]}, ciphers(Peer, Version) | buffer(Peer)] ++
        case Peer of
            etls -> [];
            _ -> [binary]
        end.

buffer(ssl_buffer) -> [{buffer, ?PORT_BUFFER}];
buffer(_) -> [].

%% The same suite for everyone, each library with its own spelling.
ciphers(etls, 'tlsv1.2') -> {ciphers, "ECDHE-ECDSA-AES128-GCM-SHA256"};
ciphers(_, 'tlsv1.2') -> {ciphers, ["ECDHE-ECDSA-AES128-GCM-SHA256"]};
ciphers(_, 'tlsv1.3') -> {ciphers, ["TLS_AES_128_GCM_SHA256"]}.

suite(Peer, Socket) ->
    {ok, Information} = (module(Peer)):connection_information(Socket),
    ssl:suite_to_str(proplists:get_value(selected_cipher_suite, Information)).

-spec sockname(peer(), term()) -> {ok, {inet:ip_address(), inet:port_number()}}.
sockname(Peer, Listener) -> (module(Peer)):sockname(Listener).
-spec recv(peer(), term(), non_neg_integer()) -> {ok, binary()} | {error, term()}.
recv(Peer, Socket, Size) -> (module(Peer)):recv(Socket, Size, infinity).
-spec send(peer(), term(), iodata()) -> ok | {error, term()}.
send(Peer, Socket, Data) -> (module(Peer)):send(Socket, Data).
-spec close(peer(), term()) -> ok | {error, term()}.
close(Peer, Socket) -> (module(Peer)):close(Socket).

module(etls) -> etls;
module(ssl) -> ssl;
module(ssl_buffer) -> ssl.

%%% ---------------------------------------------------------------- CPU time

%% The VM's, and its daemon's, since each started.
-spec cpu_seconds() -> {Vm :: float(), Daemon :: float()}.
cpu_seconds() ->
    Daemon =
        case daemon_pid() of
            {ok, Pid} -> process_cpu(Pid);
            error -> 0.0
        end,
    {process_cpu(list_to_integer(os:getpid())), Daemon}.

-spec minus({float(), float()}, {float(), float()}) -> {float(), float()}.
minus({A, B}, {C, D}) -> {A - C, B - D}.

process_cpu(Pid) ->
    {ok, {_Name, [_State, _Parent | Fields]}} = process_stat(Pid),
    %% utime and stime: the 14th and 15th of proc(5), in ticks of 1/100 s on every Linux.
    Ticks = [list_to_integer(lists:nth(N, Fields)) || N <- [10, 11]],
    lists:sum(Ticks) / 100.

%% The operating system's process id of this VM's etlsd.
-spec daemon_pid() -> {ok, pos_integer()} | error.
daemon_pid() ->
    {ok, Names} = file:list_dir("/proc"),
    Self = os:getpid(),
    Daemons = [
        Pid
     || Name <- Names, {Pid, ""} <- [string:to_integer(Name)], is_integer(Pid),
        {ok, {"etlsd", [_State, Parent | _]}} <- [process_stat(Pid)],
        is_child(Parent, Self)
    ],
    case Daemons of
        [Pid | _] -> {ok, Pid};
        [] -> error
    end.

%% Ports are children of erl_child_setup, which is the VM's.
is_child(Self, Self) ->
    true;
is_child(Parent, Self) ->
    case process_stat(list_to_integer(Parent)) of
        {ok, {_, [_State, Self | _]}} -> true;
        _ -> false
    end.

process_stat(Pid) ->
    case file:read_file(["/proc/", integer_to_list(Pid), "/stat"]) of
        {ok, Text} ->
            %% The name, in parentheses, may hold blanks and parentheses of its own.
            [Head, Tail] = string:split(binary_to_list(Text), ")", trailing),
            [_, Name] = string:split(Head, "("),
            {ok, {Name, string:lexemes(Tail, " \n")}};
        {error, _} ->
            error
    end.
