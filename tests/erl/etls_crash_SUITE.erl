%% When one of the two processes dies: the daemon's death is an error for every connection, told
%% once, and a short break for listeners; the VM's death is the daemon's end.
-module(etls_crash_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([every_owner_hears_once_of_the_daemons_death/1,
         a_new_connection_works_within_a_second/1,
         a_listener_comes_back_on_its_port/1, a_blocked_accept_continues/1,
         blocked_calls_return_when_the_daemon_dies/1, data_already_read_outlives_the_daemon/1,
         a_daemon_that_dies_again_and_again_comes_back/1,
         a_terminated_daemon_comes_back/1, the_daemon_goes_with_the_vm/1,
         stopping_the_application_stops_the_daemon/1,
         stopping_the_application_ends_connections_properly/1]).

-import(etls_test_lib, [pair/1, pair/3, ssl_pair/3, listen/1, listen/2, port/1, credentials/1,
                        accept_in_background/2, accepted/1, in_process/1, result/1, result/2,
                        no_messages/0, daemon_os_pid/0, eventually/1, eventually/2]).

-define(LOCAL, {127, 0, 0, 1}).
-define(BOUND, 5000).

suite() -> [{timetrap, {seconds, 60}}].

all() -> etls_test_lib:cases(?MODULE).

init_per_suite(Config) -> etls_test_lib:start(Config).
end_per_suite(Config) -> etls_test_lib:stop(Config).

%% 50 connections, both ends of each here: of each pair one end reads actively and one passively,
%% and both send all the time.
every_owner_hears_once_of_the_daemons_death(Config) ->
    {Listener, Port} = listen(Config),
    Test = self(),
    Pairs = [begin
                 Accepting = accept_in_background(Listener, Test),
                 {ok, Client} = etls:connect(?LOCAL, Port, [], ?BOUND),
                 {Client, accepted(Accepting)}
             end || _ <- lists:seq(1, 50)],
    Traffic = counters:new(1, []),
    Owners = [own(Socket, Mode, Traffic)
              || {Client, Server} <- Pairs,
                 {Socket, Mode} <- [{Client, active}, {Server, passive}]],
    Senders = [in_process(fun() -> send_until_error(Socket) end)
               || {Client, Server} <- Pairs, Socket <- [Client, Server]],
    eventually(fun() -> ?assert(counters:get(Traffic, 1) > 1000) end),
    ok = kill_daemon(),
    Told = lists:usort([result(Owner, 10000) || Owner <- Owners]),
    ?assertEqual([{told, econnaborted, []}], Told),
    Ends = lists:usort([result(Sender, 10000) || Sender <- Senders]),
    ?assertEqual([], Ends -- [{error, closed}, {error, econnaborted}]),
    no_messages(),
    eventually(fun() -> ?assertMatch(#{connections := 0}, etls_test_lib:stats()) end).

%% Gives the socket to a process that reads to the end and answers {told, Reason, Further}: what it
%% heard and whether more came after that.
own(Socket, Mode, Traffic) ->
    Owner = in_process(fun() ->
                               receive go -> ok end,
                               Reason = read_to_the_end(Socket, Mode, Traffic),
                               {told, Reason, further(Socket, Mode)}
                       end),
    ok = etls:controlling_process(Socket, element(1, Owner)),
    element(1, Owner) ! go,
    Owner.

read_to_the_end(Socket, active, Traffic) ->
    _ = etls:setopts(Socket, [{active, true}]),
    active_to_the_end(Socket, Traffic);
read_to_the_end(Socket, passive, Traffic) ->
    case etls:recv(Socket, 0) of
        {ok, _} ->
            ok = counters:add(Traffic, 1, 1),
            read_to_the_end(Socket, passive, Traffic);
        {error, Reason} ->
            Reason
    end.

active_to_the_end(Socket, Traffic) ->
    receive
        {etls, Socket, _} ->
            ok = counters:add(Traffic, 1, 1),
            active_to_the_end(Socket, Traffic);
        {etls_error, Socket, Reason} -> Reason;
        {etls_closed, Socket} -> closed
    end.

further(Socket, active) ->
    _ = etls:setopts(Socket, [{active, true}]),
    receive Message -> [Message] after 200 -> [] end;
further(Socket, passive) ->
    Again = etls:recv(Socket, 0, 200),
    receive Message -> [Message]
    after 0 -> [Again || Again =/= {error, closed}]
    end.

send_until_error(Socket) ->
    case etls:send(Socket, binary:copy(<<"x">>, 10000)) of
        ok -> send_until_error(Socket);
        Error -> Error
    end.

a_new_connection_works_within_a_second(Config) ->
    {Listener, Port} = listen(Config),
    ok = kill_daemon(),
    Killed = erlang:monotonic_time(millisecond),
    Accepting = accept_in_background(Listener, self()),
    Client = connect_when_back(Port),
    Server = accepted(Accepting),
    ok = etls:send(Client, <<"x">>),
    ?assertEqual({ok, <<"x">>}, etls:recv(Server, 1, ?BOUND)),
    Took = erlang:monotonic_time(millisecond) - Killed,
    ct:pal("a new connection ~b ms after the daemon's death", [Took]),
    ?assert(Took < 1000).

%% A call made while there is no daemon is an error; nothing tells when there is one again.
connect_when_back(Port) ->
    {ok, Client} = eventually(fun() -> {ok, _} = etls:connect(?LOCAL, Port, [], ?BOUND) end),
    Client.

a_listener_comes_back_on_its_port(Config) ->
    {Listener, Port} = listen(Config),
    {ok, Before} = etls:sockname(Listener),
    %% Its port is still held by the dead daemon's connections, one open and one closed by us.
    Pairs = [begin
                 Accepting = accept_in_background(Listener, self()),
                 {ok, Client} = etls:connect(?LOCAL, Port, [], ?BOUND),
                 {Client, accepted(Accepting)}
             end || _ <- [open, closed]],
    {_, ClosedHere} = lists:last(Pairs),
    ok = etls:close(ClosedHere),
    ok = kill_daemon(),
    Again = accept_in_background(Listener, self()),
    New = connect_when_back(Port),
    _ = accepted(Again),
    ?assertEqual({ok, Before}, etls:sockname(Listener)),
    ?assertEqual({ok, {?LOCAL, Port}}, etls:peername(New)),
    %% And it can still be closed.
    ok = etls:close(Listener),
    ?assertEqual({error, econnrefused}, etls:connect(?LOCAL, Port, [], ?BOUND)).

a_blocked_accept_continues(Config) ->
    {Listener, Port} = listen(Config),
    Waiting = [accept_in_background(Listener, self()) || _ <- lists:seq(1, 5)],
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 5}, etls_test_lib:stats()) end),
    ok = kill_daemon(),
    Clients = [connect_when_back(Port) || _ <- Waiting],
    Servers = [accepted(Accepting) || Accepting <- Waiting],
    [ok = etls:send(Client, <<"x">>) || Client <- Clients],
    [?assertEqual({ok, <<"x">>}, etls:recv(Server, 1, ?BOUND)) || Server <- Servers].

blocked_calls_return_when_the_daemon_dies(Config) ->
    {Listener, Port} = listen(Config),
    {Client, _Server} = pair(Config),
    {Full, _Unread} = pair(Config),
    {ok, Silent} = gen_tcp:listen(0, [{active, false}, {ip, ?LOCAL}]),
    {ok, SilentPort} = inet:port(Silent),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, []),
    Handshaking = in_process(fun() ->
                                     {ok, Socket} = etls:accept(Listener),
                                     etls:handshake(Socket)
                             end),
    Connecting = in_process(fun() -> etls:connect(?LOCAL, SilentPort, [], infinity) end),
    Receiving = in_process(fun() -> etls:recv(Client, 1) end),
    Sending = in_process(fun() -> send_until_error(Full) end),
    Timing = in_process(fun() -> etls:accept(Listener, 3000) end),
    {ok, _} = gen_tcp:accept(Silent, ?BOUND),
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 1}, etls_test_lib:stats()) end),
    ok = kill_daemon(),
    ?assertEqual({error, econnaborted}, result(Handshaking)),
    ?assertEqual({error, econnaborted}, result(Connecting)),
    ?assertEqual({error, econnaborted}, result(Receiving)),
    ?assertMatch({error, _}, result(Sending)),
    ?assertEqual({error, timeout}, result(Timing)),
    ?assertEqual(ok, etls:close(Client)),
    ?assertEqual(ok, etls:close(Full)),
    ok = gen_tcp:close(Tcp).

data_already_read_outlives_the_daemon(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Server, <<"0123456789">>),
    ?assertEqual({ok, <<"0">>}, etls:recv(Client, 1, ?BOUND)),
    ok = kill_daemon(),
    ?assertEqual({ok, <<"123456789">>}, etls:recv(Client, 9, ?BOUND)),
    ?assertEqual({error, econnaborted}, etls:recv(Client, 0, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)).

a_daemon_that_dies_again_and_again_comes_back(Config) ->
    {Listener, Port} = listen(Config),
    [begin
         ok = kill_daemon(),
         Accepting = accept_in_background(Listener, self()),
         _ = connect_when_back(Port),
         _ = accepted(Accepting)
     end || _ <- lists:seq(1, 5)].

a_terminated_daemon_comes_back(Config) ->
    {Listener, Port} = listen(Config),
    {Client, _Server} = pair(Config),
    Pid = daemon_os_pid(),
    "" = os:cmd("kill -TERM " ++ Pid),
    ?assertMatch({error, _}, etls:recv(Client, 0, ?BOUND)),
    eventually(fun() -> ?assert(is_gone(Pid)) end),
    Accepting = accept_in_background(Listener, self()),
    _ = connect_when_back(Port),
    _ = accepted(Accepting).

the_daemon_goes_with_the_vm(Config) ->
    Paths = lists:append([["-pa", Path] || Path <- code:get_path(), Path =/= "."]),
    Code = "ok = etls:start(), "
           "{ok, L} = etls:listen(0, [{certfile, \"" ++ etls_test_lib:file(Config, "ecdsa-both.pem")
           ++ "\"}]), {ok, {_, P}} = etls:sockname(L), "
           "io:format(\"vm ~s port ~b daemon ~s.~n\", "
           "[os:getpid(), P, etls_test_lib:daemon_os_pid()]), receive after infinity -> ok end.",
    Vm = etls_test_peer:start(["erl", "-noinput" | Paths] ++ ["-eval", Code],
                              #{output => tell,
                                log => filename:join(?config(priv_dir, Config), "vm.log")}),
    Said = etls_test_peer:expect(Vm, <<".\n">>, 20000),
    {match, [VmPid, Port, DaemonPid]} =
        re:run(Said, "vm (\\d+) port (\\d+) daemon (\\d+)", [{capture, all_but_first, list}]),
    %% Its listener is there, though nobody accepts.
    ?assertEqual({error, timeout}, etls:connect(?LOCAL, list_to_integer(Port), [], 200)),
    ?assertNot(is_gone(DaemonPid)),
    "" = os:cmd("kill -9 " ++ VmPid),
    eventually(fun() -> ?assert(is_gone(DaemonPid)) end, 1000),
    ok = etls_test_peer:stop(Vm).

stopping_the_application_stops_the_daemon(_Config) ->
    Pid = daemon_os_pid(),
    ok = etls:stop(),
    ?assert(is_gone(Pid)),
    ok = etls:start(),
    ?assertNot(is_gone(daemon_os_pid())).

stopping_the_application_ends_connections_properly(Config) ->
    {Client, Peer} = ssl_pair(client, Config, []),
    ok = etls:send(Client, <<"last words">>),
    ok = etls:stop(),
    ?assertEqual({ok, <<"last words">>}, ssl:recv(Peer, 10, ?BOUND)),
    ?assertEqual({error, closed}, ssl:recv(Peer, 0, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)),
    ok = etls:start().

kill_daemon() ->
    "" = os:cmd("kill -9 " ++ daemon_os_pid()),
    ok.

%% A zombie that nobody has waited for is as good as gone.
is_gone(Pid) ->
    case file:read_file("/proc/" ++ Pid ++ "/stat") of
        {ok, Stat} -> re:run(Stat, "\\) Z ") =/= nomatch;
        {error, _} -> true
    end.
