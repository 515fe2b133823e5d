%% When one of the two processes dies: the daemon's death is an error for every connection, told
%% once, and a short break for listeners; the VM's death is the daemon's end.
-module(etls_crash_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").
-include("../../erl/etls_internal.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2]).
-export([every_owner_hears_once_of_the_daemons_death/1,
         a_new_connection_works_within_a_second/1,
         a_listener_comes_back_on_its_port/1, a_blocked_accept_continues/1,
         a_listener_closed_before_it_listens_is_closed/1, a_killed_listener_frees_its_port/1,
         blocked_calls_return_when_the_daemon_dies/1, data_already_read_outlives_the_daemon/1,
         data_on_the_lane_outlives_the_daemon/1,
         a_dead_daemons_connections_are_not_the_new_ones/1,
         owners_hear_of_the_supervisors_death/1,
         a_daemon_that_dies_again_and_again_comes_back/1,
         a_terminated_daemon_comes_back/1, a_daemon_that_hangs_hangs_no_caller/1,
         the_daemon_goes_with_the_vm/1,
         stopping_the_application_stops_the_daemon/1,
         stopping_the_application_ends_connections_properly/1]).

-import(etls_test_lib, [pair/1, pair/3, ssl_pair/3, listen/1, listen/2, port/1, credentials/1,
                        accept_in_background/2, accepted/1, in_process/1, result/1, result/2,
                        no_messages/0, daemon_os_pid/0, eventually/1, eventually/2]).

-define(LOCAL, {127, 0, 0, 1}).
-define(BOUND, 5000).

suite() -> [{timetrap, {seconds, 60}}].

all() -> etls_test_lib:all().

groups() ->
    etls_test_lib:combined(etls_test_lib:cases(?MODULE)).

init_per_suite(Config) -> etls_test_lib:prepare(Config).
end_per_suite(_Config) -> ok.
init_per_group(Name, Config) -> etls_test_lib:enter(Name, Config).
end_per_group(_Name, Config) -> etls_test_lib:leave(Config).

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

%% Stopped, it neither answers nor dies.
a_daemon_that_hangs_hangs_no_caller(Config) ->
    {Client, _} = pair(Config),
    %% Not Client's other end: whose close would close Client as soon as the daemon goes on.
    {Closed, _} = pair(Config),
    Pid = daemon_os_pid(),
    "" = os:cmd("kill -STOP " ++ Pid),
    Calls = [in_process(Call) || Call <- [
        fun() -> etls:setopts(Client, [{nodelay, false}]) end,
        fun() -> etls:connect(?LOCAL, 1, [], 100) end,
        fun() -> etls:recv(Client, 1, 100) end,
        fun() -> etls:close(Closed) end
    ]],
    Results = [result(Call, 10000) || Call <- Calls],
    "" = os:cmd("kill -CONT " ++ Pid),
    ?assertEqual([{error, timeout}, {error, timeout}, {error, timeout}, ok], Results),
    % It was late, not gone.
    ?assertEqual(ok, etls:setopts(Client, [{nodelay, true}])),
    ok = etls:close(Client).

data_already_read_outlives_the_daemon(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Server, <<"0123456789">>),
    ?assertEqual({ok, <<"0">>}, etls:recv(Client, 1, ?BOUND)),
    ok = kill_daemon(),
    ?assertEqual({ok, <<"123456789">>}, etls:recv(Client, 9, ?BOUND)),
    ?assertEqual({error, econnaborted}, etls:recv(Client, 0, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)).

%% More than is read ahead is left on the lane, for as long as nobody reads it.
data_on_the_lane_outlives_the_daemon(Config) ->
    {Client, Server} = pair(Config),
    {Sender, _, _} = Sending = in_process(fun() -> send_until_error(Server) end),
    %% The sender stands still, and so does what was read ahead: all between them is full.
    eventually(fun() ->
                       {status, Status} = process_info(Sender, status),
                       ?assert(lists:member(Status, [waiting, suspended])),
                       Now = held(Client),
                       ?assert(Now > 2000000),
                       ?assertEqual(put(held, Now), Now)
               end),
    ok = kill_daemon(),
    {error, _} = result(Sending),
    %% Longer than an end is waited for.
    receive after 6000 -> ok end,
    Held = held(Client),
    {Received, Reason} = receive_all(Client, 0),
    ?assertEqual(econnaborted, Reason),
    %% A link lane's window is in this process, and counted, as soon as it is in the VM.
    case ?config(lane, Config) of
        local -> ?assert(Received > Held);
        link -> ?assert(Received >= Held)
    end.

held(#etls_socket{pid = Pid}) ->
    {status, _, _, [_, _, _, _, Shown]} = sys:get_status(Pid),
    [{_State, #{received := Bytes}}] = [Data || {data, [{"State", Data}]} <- Shown],
    Bytes.

receive_all(Socket, Sum) ->
    case etls:recv(Socket, 0, ?BOUND) of
        {ok, Data} -> receive_all(Socket, Sum + byte_size(Data));
        {error, Reason} -> {Sum, Reason}
    end.

%% The daemons count from 1, each of them.
a_dead_daemons_connections_are_not_the_new_ones(Config) ->
    {Client, Server} = pair(Config),
    {Listener, Port} = listen(Config),
    ok = etls:send(Server, <<"unread">>),
    ok = etls:send(Client, <<"unread">>),
    ?assertEqual({ok, <<"u">>}, etls:recv(Client, 1, ?BOUND)),
    ?assertEqual({ok, <<"u">>}, etls:recv(Server, 1, ?BOUND)),
    ok = kill_daemon(),
    Accepting = accept_in_background(Listener, self()),
    _ = connect_when_back(Port),
    _ = accepted(Accepting),
    _ = [pair(Config) || _ <- [1, 2, 3]],
    [begin
         ?assertEqual({error, econnaborted}, etls:getstat(Socket)),
         ?assertEqual({error, econnaborted}, etls:getopts(Socket, [nodelay])),
         ?assertEqual({error, econnaborted}, etls:setopts(Socket, [{nodelay, false}])),
         %% What is the VM's is there still.
         ?assertEqual({ok, [{active, false}]}, etls:getopts(Socket, [active])),
         ?assertEqual({ok, <<"nread">>}, etls:recv(Socket, 0, ?BOUND))
     end || Socket <- [Client, Server]],
    ?assertMatch({ok, [{reuseaddr, true}]}, etls:getopts(Listener, [reuseaddr])).

%% The daemon's answer is held back, so that it finds nobody who wants it.
a_listener_closed_before_it_listens_is_closed(Config) ->
    #{listeners := Before} = etls_test_lib:stats(),
    [begin
         Old = listeners(),
         ok = sys:suspend(etls_daemon),
         Owner = in_process(fun() -> etls:listen(0, credentials(Config)) end),
         Pid = eventually(fun() -> [New] = listeners() -- Old, New end),
         Listener = eventually(fun() -> asked_to_listen(sys:get_state(Pid)) end),
         Ended = End(Owner, Listener),
         eventually(fun() -> ?assertEqual({error, closed}, etls:sockname(Listener)) end),
         ok = sys:resume(etls_daemon),
         ok = Ended(),
         eventually(fun() -> ?assertMatch(#{listeners := Before}, etls_test_lib:stats()) end),
         ?assertEqual(Old, listeners())
     end || End <- [fun owner_dies/2, fun somebody_closes/2]].

listeners() ->
    [Pid || {_, Pid, _, _} <- supervisor:which_children(etls_listener_sup)].

asked_to_listen(State) ->
    [#etls_listener{} = Listener] =
        [Element || #etls_listener{} = Element <- tuple_to_list(State)],
    [_] = [Map || Map <- tuple_to_list(State), is_map(Map), maps:values(Map) =:= [listen]],
    Listener.

owner_dies({Owner, _, _}, _Listener) ->
    true = exit(Owner, kill),
    fun() -> receive {'DOWN', _, process, Owner, killed} -> ok end end.

somebody_closes(Owner, Listener) ->
    Closing = in_process(fun() -> etls:close(Listener) end),
    fun() ->
            ?assertEqual(ok, result(Closing)),
            ?assertEqual({error, closed}, result(Owner)),
            ok
    end.

a_killed_listener_frees_its_port(Config) ->
    {#etls_listener{pid = Pid} = Listener, Port} = listen(Config),
    Waiting = in_process(fun() -> etls:accept(Listener) end),
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 1}, etls_test_lib:stats()) end),
    true = exit(Pid, kill),
    ?assertEqual({error, closed}, result(Waiting)),
    ?assertEqual({error, closed}, etls:accept(Listener)),
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 0}, etls_test_lib:stats()) end),
    {ok, Again} = eventually(fun() -> {ok, _} = etls:listen(Port, credentials(Config)) end),
    ok = etls:close(Again).

owners_hear_of_the_supervisors_death(Config) ->
    {Client, Server} = pair(Config),
    {Listener, _} = listen(Config),
    ok = etls:setopts(Client, [{active, true}]),
    Receiving = in_process(fun() -> etls:recv(Server, 0) end),
    Accepting = in_process(fun() -> etls:accept(Listener) end),
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 1}, etls_test_lib:stats()) end),
    Daemon = daemon_os_pid(),
    true = exit(whereis(etls_sup), kill),
    receive {etls_closed, Client} -> ok after ?BOUND -> error(timeout) end,
    ?assertEqual({error, closed}, result(Receiving)),
    ?assertEqual({error, closed}, result(Accepting)),
    ?assertEqual({error, closed}, etls:send(Client, <<"x">>)),
    eventually(fun() -> ?assert(is_gone(Daemon)) end),
    %% Until the application controller has noticed, a start is "already started".
    eventually(fun() -> ?assertNot(etls_test_lib:is_running()) end),
    ok = etls:start(),
    _ = pair(Config),
    no_messages().

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
    %% Who waits for a connection goes on waiting: the listener is not closed.
    Accepting = accept_in_background(Listener, self()),
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 1}, etls_test_lib:stats()) end),
    "" = os:cmd("kill -TERM " ++ Pid),
    ?assertMatch({error, _}, etls:recv(Client, 0, ?BOUND)),
    eventually(fun() -> ?assert(is_gone(Pid)) end),
    _ = connect_when_back(Port),
    _ = accepted(Accepting).

the_daemon_goes_with_the_vm(Config) ->
    Paths = lists:append([["-pa", Path] || Path <- code:get_path(), Path =/= "."]),
    Code = "ok = etls:start(), "
           "{ok, L} = etls:listen(0, [{certfile, \"" ++ etls_test_lib:file(Config, "ecdsa-both.pem")
           ++ "\"}]), {ok, {_, P}} = etls:sockname(L), "
           "io:format(\"vm ~s port ~b daemon ~s.~n\", "
           "[os:getpid(), P, etls_test_lib:daemon_os_pid()]), receive after infinity -> ok end.",
    Vm = etls_test_peer:start(["erl", "-noinput" | etls_test_lib:vm_flags(Config)]
                              ++ Paths ++ ["-eval", Code],
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
