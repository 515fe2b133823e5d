%% A daemon that is an Erlang node, started by hand: who may reach it, what an operator may ask, and
%% how it serves several VMs that come and go.
-module(etls_cnode_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([a_cookie_file_is_for_its_owner_alone/1, the_cookie_may_come_from_the_environment/1,
         without_a_cookie_it_does_not_start/1, a_bad_name_is_one_line_and_status_2/1,
         a_wrong_cookie_is_refused/1, the_end_of_input_ends_it_where_asked/1,
         garbage_on_its_port_disturbs_nobody/1, a_new_epmd_learns_of_it/1,
         it_does_without_epmd/1]).
-export([it_is_pinged/1, an_operator_asks/1, an_operator_sets_the_log_level/1,
         an_operator_reloads_credentials/1, an_operators_nonsense_is_answered/1]).
-export([each_vm_sees_its_own_sockets/1, a_second_hello_ends_the_session_before/1,
         an_owners_death_ends_its_session/1, a_vm_comes_back_to_the_same_daemon/1,
         a_daemon_comes_back_to_the_same_vm/1, an_application_comes_back/1,
         a_killed_link_process_begins_a_new_session/1, a_lost_connection_is_made_again/1,
         a_daemon_that_is_not_there_is_a_start_error/1]).
-export([a_vm_that_stops_reading_is_dropped/1, an_idle_link_lives/1, a_busy_link_lives/1]).
-export([other_hosts_get_link_lanes/1, a_lane_that_cannot_be_reached_is_refused/1]).

-import(etls_test_lib, [listen/1, listen/2, port/1, accept_in_background/2, accepted/1, pair/1,
                        credentials/1, in_process/1, result/1, result/2, operator/2, file/2,
                        no_messages/0, eventually/1, eventually/2]).
-import(etls_test_daemon, [at/2, at/3]).

-define(LOCAL, {127, 0, 0, 1}).
-define(BOUND, 10000).
-define(MB, 1000000).

suite() -> [{timetrap, {seconds, 60}}].

all() ->
    [a_cookie_file_is_for_its_owner_alone, the_cookie_may_come_from_the_environment,
     without_a_cookie_it_does_not_start, a_bad_name_is_one_line_and_status_2,
     a_wrong_cookie_is_refused, the_end_of_input_ends_it_where_asked,
     garbage_on_its_port_disturbs_nobody, a_new_epmd_learns_of_it, it_does_without_epmd,
     it_is_pinged, an_operator_asks, an_operator_sets_the_log_level,
     an_operator_reloads_credentials, an_operators_nonsense_is_answered,
     each_vm_sees_its_own_sockets, a_second_hello_ends_the_session_before,
     an_owners_death_ends_its_session, a_vm_comes_back_to_the_same_daemon,
     a_daemon_comes_back_to_the_same_vm, an_application_comes_back,
     a_killed_link_process_begins_a_new_session, a_lost_connection_is_made_again,
     a_daemon_that_is_not_there_is_a_start_error,
     a_vm_that_stops_reading_is_dropped, an_idle_link_lives, a_busy_link_lives,
     a_lane_that_cannot_be_reached_is_refused]
        ++ [other_hosts_get_link_lanes || etls_test_hosts:are_possible()].

init_per_suite(Config) ->
    _ = application:unload(etls),
    ok = etls_test_node:start(),
    etls_test_lib:prepare(Config).

end_per_suite(Config) ->
    etls_test_lib:leave(Config).

init_per_testcase(Case, Config) ->
    %% Who expects a tick each second must get one from everybody, this VM too.
    _ = net_kernel:set_net_ticktime(case is_about_time(Case) of true -> 4; false -> 60 end, 0),
    Config.

is_about_time(Case) ->
    lists:member(Case, [a_vm_that_stops_reading_is_dropped, an_idle_link_lives, a_busy_link_lives]).

end_per_testcase(_Case, _Config) ->
    _ = etls:stop(),
    _ = application:unload(etls),
    ok.

%%% Who may reach it

a_cookie_file_is_for_its_owner_alone(Config) ->
    File = etls_test_daemon:cookie_file(Config),
    _ = etls_test_daemon:start(Config),
    ok = file:change_mode(File, 8#644),
    {Status, Said} = run(["--cnode", etls_test_node:name("d"), "--cookie-file", File]),
    ?assert(lists:member(Status, [2, 3]), {Status, Said}),
    ?assertMatch({match, _}, re:run(Said, "cookie: .*owner")),
    ?assertEqual(1, length(string:lexemes(Said, "\n")), Said),
    {_, None} = run(["--cnode", etls_test_node:name("d"), "--cookie-file", "/nonexistent/cookie"]),
    ?assertMatch({match, _}, re:run(None, "/nonexistent/cookie")).

the_cookie_may_come_from_the_environment(Config) ->
    Name = etls_test_node:name("d"),
    Log = filename:join(?config(priv_dir, Config), Name ++ ".log"),
    Command = ["env", "ETLSD_COOKIE=" ++ atom_to_list(erlang:get_cookie()),
               etls_test_daemon:etlsd(), "--cnode", Name],
    _ = etls_test_daemon:again(#{node => list_to_atom(Name), log => Log, command => Command}),
    ok.

without_a_cookie_it_does_not_start(_Config) ->
    {Status, Said} = run(["--cnode", etls_test_node:name("d")]),
    ?assertEqual({2, Said}, {Status, Said}),
    ?assertMatch({match, _}, re:run(Said, "cookie", [caseless])).

a_bad_name_is_one_line_and_status_2(Config) ->
    Cookie = etls_test_daemon:cookie_file(Config),
    [begin
         {Status, Said} = run(["--cnode", Name, "--cookie-file", Cookie]),
         ?assertMatch({_, 2, [_]}, {Name, Status, string:lexemes(Said, "\n")})
     end || Name <- ["", "nohost", "@", "name@", "@localhost", "a b@localhost", "a@b@localhost",
                     lists:duplicate(300, $x) ++ "@localhost"]].

a_wrong_cookie_is_refused(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    true = net_kernel:disconnect(Node),
    Right = erlang:get_cookie(),
    true = erlang:set_cookie(Node, wrong),
    try
        ?assertEqual(false, net_kernel:connect_node(Node)),
        ?assertEqual(pang, net_adm:ping(Node)),
        eventually(fun() -> ?assertMatch({match, _}, re:run(etls_test_daemon:log(Daemon), "cookie",
                                                            [caseless])) end)
    after
        erlang:set_cookie(Node, Right)
    end,
    ?assertEqual(pong, net_adm:ping(Node)).

%% By itself it does not mind: a daemon in the background has no input.
the_end_of_input_ends_it_where_asked(Config) ->
    Until = ["--until-eof"],
    Name = etls_test_node:name("d"),
    Quiet = quote([etls_test_daemon:etlsd() | etls_test_daemon:flags(Config, Name)]),
    ?assertEqual("0\n", os:cmd("timeout 5 " ++ Quiet ++ " --until-eof </dev/null 2>/dev/null; "
                               "echo $?")),
    Daemon = #{peer := Peer} = etls_test_daemon:start(Config, Until),
    ?assert(etls_test_daemon:is_up(Daemon)),
    %% This VM keeps the pipe; it ends with the process that holds it.
    OsPid = etls_test_daemon:os_pid(Daemon),
    ok = etls_test_peer:end_input(Peer),
    eventually(fun() -> ?assertNot(filelib:is_dir("/proc/" ++ OsPid)) end),
    Lasting = etls_test_daemon:again(
                #{node => list_to_atom(Name),
                  log => filename:join(?config(priv_dir, Config), Name ++ ".log"),
                  command => ["sh", "-c", "exec " ++ Quiet ++ " </dev/null"]}),
    ?assert(etls_test_daemon:is_up(Lasting)).

garbage_on_its_port_disturbs_nobody(Config) ->
    #{node := Node} = etls_test_daemon:start(Config),
    {Owner, {ok, _}} = session(Node),
    [Own, _Host] = string:split(atom_to_list(Node), "@"),
    {port, Port, _} = erl_epmd:port_please(Own, localhost),
    Sockets = [begin
                   {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, [binary, {active, false}]),
                   %% What it does not like it closes.
                   _ = gen_tcp:send(Tcp, Bytes),
                   {Bytes, Tcp}
               end || Bytes <- garbage()],
    [begin
         _ = gen_tcp:shutdown(Tcp, write),
         ?assertMatch({_, {error, _}}, {Bytes, last(gen_tcp:recv(Tcp, 0, ?BOUND), Tcp)})
     end || {Bytes, Tcp} <- Sockets],
    %% One that says nothing, for as long as it likes.
    {ok, Silent} = gen_tcp:connect(?LOCAL, Port, [binary, {active, false}]),
    ?assertMatch({ok, #{listeners := 0}}, ask(Owner, Node, stats, #{})),
    ?assertEqual(pong, net_adm:ping(Node)),
    ?assertEqual([node()], maps:get(nodes, operator(Node, info))),
    ok = gen_tcp:close(Silent).

garbage() ->
    %% Handshakes as they begin, then nonsense; a challenge that nobody can have answered.
    Name = <<$N, 16#000000010d07df7fbd:64, 1:32, 12:16, "me@localhost">>,
    [<<"GET / HTTP/1.1\r\n\r\n">>, <<"quit\r\n">>, <<0, 0>>, <<255, 255>>,
     <<65535:16, 0:(65535 * 8)>>, <<3:16, "abc">>, <<1:16, "n">>, <<7:16, $n, 5:16, 0:32>>,
     <<(byte_size(Name)):16, Name/binary>>,
     <<(byte_size(Name)):16, Name/binary, 21:16, $r, 0:32, 0:128>>,
     crypto:strong_rand_bytes(1000)].

last({ok, _}, Tcp) -> last(gen_tcp:recv(Tcp, 0, ?BOUND), Tcp);
last(Error, _Tcp) -> Error.

%% Its own: the machine's is other people's as well.
a_new_epmd_learns_of_it(Config) ->
    EpmdPort = integer_to_list(etls_test_peer:free_port()),
    Epmd = fun() -> etls_test_peer:start(["epmd", "-port", EpmdPort],
                                         #{output => drop, log => "/dev/null"}) end,
    First = Epmd(),
    Name = etls_test_node:name("d"),
    [Own, _Host] = string:split(Name, "@"),
    Log = filename:join(?config(priv_dir, Config), Name ++ ".log"),
    Names = fun() -> os:cmd("epmd -port " ++ EpmdPort ++ " -names") end,
    Registered = fun() -> string:find(Names(), Own) end,
    eventually(fun() -> ?assertNotEqual(nomatch, string:find(Names(), "up and running")) end),
    Daemon = etls_test_peer:start(["env", "ERL_EPMD_PORT=" ++ EpmdPort, etls_test_daemon:etlsd()
                                   | etls_test_daemon:flags(Config, Name)],
                                  #{output => drop, log => Log}),
    eventually(fun() -> ?assertNotEqual(nomatch, Registered()) end),
    ok = etls_test_peer:stop(First),
    eventually(fun() -> ?assertEqual(nomatch, Registered()) end),
    Second = Epmd(),
    eventually(fun() -> ?assertNotEqual(nomatch, Registered()) end, 30000),
    ok = etls_test_peer:stop(Daemon),
    ok = etls_test_peer:stop(Second).

it_does_without_epmd(Config) ->
    Port = integer_to_list(etls_test_peer:free_port()),
    Name = etls_test_node:name("d"),
    Log = filename:join(?config(priv_dir, Config), Name ++ ".log"),
    Cookie = atom_to_list(erlang:get_cookie()),
    _ = etls_test_peer:start([etls_test_daemon:etlsd() | etls_test_daemon:flags(Config, Name)]
                             ++ ["--no-epmd", "--dist-port", Port],
                             #{output => drop, log => Log}),
    Code = lists:flatten(
             io_lib:format("F = fun F(0) -> pang; F(N) -> case net_adm:ping('~s') of pong -> pong; "
                           "_ -> receive after 50 -> F(N - 1) end end end, "
                           "io:format(\"~~s~~n\", [F(200)]), halt(0).", [Name])),
    %% Not listening itself: -erl_epmd_port is where it would, and that is the daemon's.
    Said = os:cmd(quote(["timeout", "20", "erl", "-noinput", "-sname", etls_test_node:name("vm"),
                         "-dist_listen", "false", "-setcookie", Cookie, "-start_epmd", "false",
                         "-erl_epmd_port", Port, "-eval", Code])
                  ++ " 2>&1"),
    ?assertNotEqual(nomatch, string:find(Said, "pong"), Said).

%%% What an operator may ask

it_is_pinged(Config) ->
    #{node := Node} = etls_test_daemon:start(Config),
    ?assertEqual(pong, net_adm:ping(Node)).

an_operator_asks(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    OsPid = list_to_integer(etls_test_daemon:os_pid(Daemon)),
    Version = etls_protocol:version(),
    Node0 = node(),
    ?assertMatch(#{protocol := Version, version := <<_, _/binary>>,
                   openssl := <<"OpenSSL", _/binary>>, threads := _, os_pid := OsPid, uptime := _,
                   nodes := [Node0], connections := 0, listeners := 0, accepted := 0,
                   connected := 0, handshakes := 0, handshake_failures := 0, contexts := _},
                 operator(Node, info)),
    ?assertEqual([], operator(Node, connections)),
    ok = use(Daemon),
    {Client, Server} = pair(Config),
    ?assertMatch(#{connections := 2, listeners := 0, accepted := 1, connected := 1,
                   handshakes := 2, handshake_failures := 0}, operator(Node, info)),
    {ok, ClientAddress} = etls:sockname(Client),
    {ok, ServerAddress} = etls:sockname(Server),
    Told = operator(Node, connections),
    ?assertEqual(lists:sort([{ClientAddress, ServerAddress}, {ServerAddress, ClientAddress}]),
                 lists:sort([{Local, Peer}
                             || #{local := Local, peer := Peer, node := N, conn := Number} <- Told,
                                N =:= node(), is_integer(Number)])),
    ok = etls:close(Client),
    ok = etls:close(Server),
    %% Totals stay, also those of a VM that has gone.
    ok = etls:stop(),
    eventually(fun() -> ?assertMatch(#{connections := 0, handshakes := 2},
                                     operator(Node, info)) end).

an_operator_sets_the_log_level(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    ?assertEqual(ok, operator(Node, {log_level, debug})),
    ok = use(Daemon),
    _ = pair(Config),
    ?assertEqual(ok, operator(Node, {log_level, error})),
    ?assertEqual({error, unknown_request}, operator(Node, {log_level, loud})).

an_operator_reloads_credentials(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    ok = use(Daemon),
    Cert = file(Config, "reloaded.pem"),
    Key = file(Config, "reloaded.key"),
    Write = fun(Name) ->
                    {ok, _} = file:copy(file(Config, Name ++ ".pem"), Cert),
                    {ok, _} = file:copy(file(Config, Name ++ ".key"), Key)
            end,
    Write("ecdsa"),
    {Listener, Port} = listen(Config, [{certfile, Cert}, {keyfile, Key}]),
    Shown = fun() ->
                    Accepting = accept_in_background(Listener, self()),
                    {ok, Client} = etls:connect(?LOCAL, Port, [], ?BOUND),
                    {ok, Der} = etls:peercert(Client),
                    _ = accepted(Accepting),
                    Der
            end,
    ?assertEqual(etls_test_lib:der(Config, "ecdsa.pem"), Shown()),
    Write("rsa"),
    ?assertEqual(etls_test_lib:der(Config, "ecdsa.pem"), Shown()),
    ?assertEqual(ok, operator(Node, reload)),
    ?assertEqual(etls_test_lib:der(Config, "rsa.pem"), Shown()),
    ok = file:delete(Cert),
    ?assertMatch({error, _}, operator(Node, reload)),
    %% What it has it keeps.
    ?assertEqual(etls_test_lib:der(Config, "rsa.pem"), Shown()).

an_operators_nonsense_is_answered(Config) ->
    #{node := Node} = etls_test_daemon:start(Config),
    [?assertEqual({Question, {error, unknown_request}}, {Question, operator(Node, Question)})
     || Question <- [help, <<"info">>, {info, 1}, [], 17, "info", #{info => 1}, {log_level}]],
    %% Some have nobody to answer, or another registered name: nothing becomes of them.
    [{etlsd, Node} ! Term || Term <- [info, {info}, {self()}, {self(), info, more}, <<>>, 1, [],
                                      fun() -> ok end, make_ref(), 1.5, 1 bsl 4000, {data, 1, <<>>},
                                      lists:duplicate(100000, 0)]],
    {nobody, Node} ! {self(), info},
    ?assertMatch(#{os_pid := _}, operator(Node, info)),
    no_messages().

%%% VMs that come and go

each_vm_sees_its_own_sockets(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    ok = use(Daemon),
    Other = #{node := OtherNode} = etls_test_daemon:vm(Config, Daemon),
    {Listener, Port} = listen(Config),
    Accepting = accept_in_background(Listener, self()),
    {_, {ok, Client}} = at(Other, fun() -> etls:connect(?LOCAL, Port, [], ?BOUND) end),
    Server = accepted(Accepting),
    ok = etls:send(Server, <<"hello">>),
    ?assertEqual({ok, <<"hello">>}, erpc:call(OtherNode, etls, recv, [Client, 5, ?BOUND])),
    #{nodes := Nodes} = operator(Node, info),
    ?assertEqual(lists:sort([node(), OtherNode]), lists:sort(Nodes)),
    ?assertMatch(#{connections := 1, listeners := 1}, etls_test_lib:stats()),
    ?assertMatch(#{connections := 1, listeners := 0},
                 erpc:call(OtherNode, etls_test_lib, stats, [])),
    [OtherNumber] = [Number || #{node := N, conn := Number} <- operator(Node, connections),
                               N =:= OtherNode],
    [Number] = [Number || #{node := N, conn := Number} <- operator(Node, connections),
                          N =:= node()],
    %% No number of another's names anything here, unless it is one of ours by chance.
    [?assertEqual({Wanted, {error, closed}}, {Wanted, etls_daemon:call(info, #{conn => Wanted})})
     || Wanted <- [OtherNumber | lists:seq(1, 20)] -- [Number]],
    [?assertEqual({Command, {error, closed}},
                  {Command, etls_daemon:call(Command, #{conn => Wanted})})
     || Command <- [attach, info], Wanted <- [OtherNumber] -- [Number]],
    %% As is a stop: the other goes on.
    ok = etls:stop(),
    ?assertEqual({error, closed}, erpc:call(OtherNode, etls, recv, [Client, 0, ?BOUND])),
    ?assertMatch(#{connections := _}, erpc:call(OtherNode, etls_test_lib, stats, [])),
    ok = etls_test_daemon:kill_vm(Other).

%% Without the application: as the wire has it.
a_second_hello_ends_the_session_before(Config) ->
    #{node := Node} = etls_test_daemon:start(Config),
    {First, Number} = session_with_listener(Node, Config),
    ?assertMatch(#{listeners := 1}, operator(Node, info)),
    {Second, {ok, #{pid := Pid}}} = session(Node),
    ?assert(is_pid(Pid)),
    eventually(fun() -> ?assertMatch(#{listeners := 0}, operator(Node, info)) end),
    ?assertEqual({error, closed}, ask(Second, Node, accept, #{listener => Number})),
    First ! done,
    Second ! done.

an_owners_death_ends_its_session(Config) ->
    #{node := Node} = etls_test_daemon:start(Config),
    {Owner, _Number} = session_with_listener(Node, Config),
    ?assertMatch(#{listeners := 1}, operator(Node, info)),
    true = exit(Owner, kill),
    eventually(fun() -> ?assertMatch(#{listeners := 0}, operator(Node, info)) end).

session_with_listener(Node, Config) ->
    {Owner, {ok, _}} = session(Node),
    Tls = #{certfile => list_to_binary(file(Config, "ecdsa-both.pem"))},
    {ok, #{listener := Number}} =
        ask(Owner, Node, listen, #{address => {?LOCAL, 0}, family => inet, tcp => #{}, tls => Tls}),
    {Owner, Number}.

%% {Owner, Reply}: a process that says hello, links to the daemon as it should, and hands on the
%% answers to what it is asked to ask.
session(Node) ->
    Test = self(),
    Owner = spawn(fun() ->
                          Reply = request(Node, hello, #{protocol => etls_protocol:version()}),
                          case Reply of
                              {ok, #{pid := Pid}} -> true = link(Pid);
                              _ -> ok
                          end,
                          Test ! {self(), Reply},
                          own(Node)
                  end),
    receive {Owner, Reply} -> {Owner, Reply} after ?BOUND -> error({no_hello, Node}) end.

own(Node) ->
    receive
        {ask, From, Command, Arguments} ->
            From ! {self(), request(Node, Command, Arguments)},
            own(Node);
        done -> ok
    end.

ask(Owner, _Node, Command, Arguments) ->
    Owner ! {ask, self(), Command, Arguments},
    receive {Owner, Reply} -> Reply after ?BOUND -> error({no_answer, Command}) end.

request(Node, Command, Arguments) ->
    Id = erlang:unique_integer([positive]),
    {etlsd, Node} ! {request, Id, Command, Arguments},
    receive {reply, Id, Reply} -> Reply after ?BOUND -> error({no_reply, Command}) end.

a_vm_comes_back_to_the_same_daemon(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    #{os_pid := OsPid} = operator(Node, info),
    Port = etls_test_peer:free_port(),
    Options = [{reuseaddr, true}, {ip, ?LOCAL} | credentials(Config)],
    Serve = fun() ->
                    {ok, Listener} = etls:listen(Port, Options),
                    spawn(fun() -> serve(Listener) end),
                    Listener
            end,
    First = etls_test_daemon:vm(Config, Daemon),
    {_, _} = at(First, Serve),
    Peer = ssl_connect(Port),
    ok = ssl:send(Peer, <<"ping">>),
    ?assertEqual({ok, <<"ping">>}, ssl:recv(Peer, 4, ?BOUND)),
    ok = etls_test_daemon:kill_vm(First),
    ?assertMatch({error, _}, ssl:recv(Peer, 0, ?BOUND)),
    eventually(fun() -> ?assertMatch(#{connections := 0, listeners := 0},
                                     operator(Node, info)) end),
    Second = etls_test_daemon:vm(Config, Daemon),
    {_, _} = at(Second, Serve),
    Again = ssl_connect(Port),
    ok = ssl:send(Again, <<"ping">>),
    ?assertEqual({ok, <<"ping">>}, ssl:recv(Again, 4, ?BOUND)),
    ?assertMatch(#{os_pid := OsPid}, operator(Node, info)),
    ok = ssl:close(Again),
    ok = etls_test_daemon:kill_vm(Second).

ssl_connect(Port) ->
    {ok, Socket} = ssl:connect(?LOCAL, Port, [binary, {active, false}, {verify, verify_none}],
                               ?BOUND),
    Socket.

%% Echoes, one connection after the other, until the listener is closed.
serve(Listener) ->
    case etls:accept(Listener) of
        {ok, Socket} ->
            ok = etls:handshake(Socket, ?BOUND),
            echo(Socket),
            serve(Listener);
        {error, closed} -> ok
    end.

echo(Socket) ->
    case etls:recv(Socket, 0) of
        {ok, Data} -> ok = etls:send(Socket, Data), echo(Socket);
        {error, _} -> etls:close(Socket)
    end.

%% Away for longer than a listener waits for its port.
a_daemon_comes_back_to_the_same_vm(Config) ->
    Daemon = etls_test_daemon:start(Config),
    ok = use(Daemon),
    {Listener, Port} = listen(Config, [{ip, ?LOCAL}]),
    Pairs = [pair(Config) || _ <- lists:seq(1, 10)],
    [ok = etls:setopts(Client, [{active, true}]) || {Client, _} <- Pairs],
    Test = self(),
    Waiting = in_process(fun() ->
                                 {ok, Socket} = etls:accept(Listener),
                                 ok = etls:handshake(Socket, ?BOUND),
                                 ok = etls:controlling_process(Socket, Test),
                                 Socket
                         end),
    Impatient = in_process(fun() -> etls:accept(Listener, 1000) end),
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 2}, etls_test_lib:stats()) end),
    ok = etls_test_daemon:kill(Daemon),
    [receive {etls_error, Client, econnaborted} -> ok
     after ?BOUND -> error({not_told, process_info(self(), messages)})
     end || {Client, _} <- Pairs],
    [?assertEqual({error, econnaborted}, etls:recv(Server, 0, ?BOUND)) || {_, Server} <- Pairs],
    ?assertEqual({error, timeout}, result(Impatient)),
    ?assertMatch({error, _}, result(in_process(fun() -> etls:connect(?LOCAL, Port, [], 12000) end),
                                    20000)),
    ?assert(etls_test_lib:is_running()),
    no_messages(),
    _ = etls_test_daemon:again(Daemon),
    {ok, Client} = eventually(fun() -> {ok, _} = etls:connect(?LOCAL, Port, [], 1000) end, 20000),
    Server = result(Waiting),
    ok = etls:send(Client, <<"back">>),
    ?assertEqual({ok, <<"back">>}, etls:recv(Server, 4, ?BOUND)),
    no_messages().

an_application_comes_back(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    ok = use(Daemon),
    #{os_pid := OsPid} = operator(Node, info),
    {Client, _} = pair(Config),
    ok = etls:stop(),
    ?assertEqual({error, closed}, etls:recv(Client, 0, 100)),
    eventually(fun() -> ?assertMatch(#{connections := 0, os_pid := OsPid},
                                     operator(Node, info)) end),
    ok = etls:start(),
    _ = pair(Config),
    ?assertMatch(#{connections := 2, os_pid := OsPid}, operator(Node, info)),
    ?assertEqual(integer_to_list(OsPid), etls_test_lib:daemon_os_pid()).

a_killed_link_process_begins_a_new_session(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    ok = use(Daemon),
    {Client, Server} = pair(Config),
    {Listener, Port} = listen(Config),
    true = exit(whereis(etls_daemon), kill),
    [?assertEqual({error, econnaborted}, etls:recv(Socket, 0, ?BOUND))
     || Socket <- [Client, Server]],
    Accepting = accept_in_background(Listener, self()),
    {ok, New} = eventually(fun() -> {ok, _} = etls:connect(?LOCAL, Port, [], ?BOUND) end),
    _ = accepted(Accepting),
    ok = etls:send(New, <<"x">>),
    eventually(fun() -> ?assertMatch(#{connections := 2, listeners := 1},
                                     operator(Node, info)) end).

%% Between the two nodes, both of which go on.
a_lost_connection_is_made_again(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config),
    ok = use(Daemon),
    {Client, _Server} = pair(Config),
    {Listener, Port} = listen(Config),
    ok = etls:setopts(Client, [{active, true}]),
    Waiting = in_process(fun() -> etls:accept(Listener) end),
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 1}, etls_test_lib:stats()) end),
    true = erlang:disconnect_node(Node),
    receive {etls_error, Client, econnaborted} -> ok after ?BOUND -> error(not_told) end,
    %% Whoever answers now is the new session.
    eventually(fun() -> ?assertMatch(#{accepts_waiting := 1}, etls_test_lib:stats()) end),
    {ok, New} = gen_tcp:connect(?LOCAL, Port, [{active, false}]),
    ?assertMatch({ok, _}, result(Waiting)),
    eventually(fun() -> ?assertMatch(#{connections := 0, listeners := 1},
                                     operator(Node, info)) end),
    ok = gen_tcp:close(New),
    no_messages().

a_daemon_that_is_not_there_is_a_start_error(Config) ->
    Nobody = list_to_atom(etls_test_node:name("nobody")),
    ok = use_later(Nobody),
    ?assertNotEqual(nomatch, string:find(io_lib:format("~p", [etls:start()]), "cannot_connect")),
    ?assertNot(etls_test_lib:is_running()),
    _ = Config,
    ok.

%% --- what keeps a link alive -----------------------------------------------------------------

%% Its distribution socket is full, or silent: four seconds are its patience here.
a_vm_that_stops_reading_is_dropped(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config, ["--net-ticktime", "4"]),
    Vm = #{node := VmNode, peer := Peer} =
        etls_test_daemon:vm(Config, Daemon, ["-kernel", "net_ticktime", "4"]),
    {_, Port} = at(Vm, fun() ->
                               {ok, Listener} = etls:listen(0, credentials(Config)),
                               spawn(fun() -> serve(Listener) end),
                               port(Listener)
                       end),
    Ssl = ssl_connect(Port),
    "" = os:cmd("kill -STOP " ++ etls_test_peer:os_pid(Peer)),
    ?assertMatch({error, _}, ssl:recv(Ssl, 0, 20000)),
    eventually(fun() ->
                       Info = operator(Node, info),
                       ?assertMatch(#{connections := 0, listeners := 0}, Info),
                       ?assertNot(lists:member(VmNode, maps:get(nodes, Info)))
               end, 20000),
    ?assertNotEqual(nomatch, string:find(etls_test_daemon:log(Daemon), atom_to_list(VmNode))),
    ok = etls_test_peer:stop(Peer).

%% Real time is the subject here.
an_idle_link_lives(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config, ["--net-ticktime", "4"]),
    Vm = #{peer := _} = etls_test_daemon:vm(Config, Daemon, ["-kernel", "net_ticktime", "4"]),
    {_, {Client, Server}} = at(Vm, fun() -> pair(Config) end),
    Before = operator(Node, info),
    receive after 9000 -> ok end,
    {_, Told} = at(Vm, fun() ->
                               ok = etls:send(Client, <<"still here">>),
                               etls:recv(Server, 10, ?BOUND)
                       end),
    ?assertEqual({ok, <<"still here">>}, Told),
    ?assertEqual(maps:get(handshakes, Before), maps:get(handshakes, operator(Node, info))),
    ok = etls_test_daemon:kill_vm(Vm).

%% And neither do ticks get lost among data.
a_busy_link_lives(Config) ->
    Daemon = #{node := Node} = etls_test_daemon:start(Config, ["--net-ticktime", "4"]),
    Vm = etls_test_daemon:vm(Config, Daemon, ["-kernel", "net_ticktime", "4",
                                            "-etls", "lane", "link"]),
    Total = 500 * ?MB,
    {_, Told} = at(Vm, fun() ->
                               {Client, Server} = pair(Config),
                               Sending = in_process(fun() -> send_all(Client, Total) end),
                               {receive_all(Server, Total), result(Sending, 60000),
                                etls:getopts(Client, [lane])}
                       end, 60000),
    ?assertEqual({ok, ok, {ok, [{lane, link}]}}, Told),
    ?assertMatch(#{connections := _}, operator(Node, info)),
    ok = etls_test_daemon:kill_vm(Vm).

send_all(Socket, Left) ->
    send_all(Socket, Left, binary:copy(<<"0123456789abcdef">>, 65536)).

send_all(_Socket, Left, _Block) when Left =< 0 -> ok;
send_all(Socket, Left, Block) ->
    ok = etls:send(Socket, binary:part(Block, 0, min(Left, byte_size(Block)))),
    send_all(Socket, Left - byte_size(Block), Block).

receive_all(_Socket, 0) -> ok;
receive_all(Socket, Left) ->
    {ok, Data} = etls:recv(Socket, 0, ?BOUND),
    receive_all(Socket, Left - byte_size(Data)).

%%% Hosts

%% Two network namespaces, each with temporary files of its own: nothing but TCP joins them.
other_hosts_get_link_lanes(Config) ->
    Said = etls_test_hosts:with_two(fun(Here, There) -> between(Here, There, Config) end),
    ?assertNotEqual(nomatch, string:find(Said, "lane link, refused unreachable, echoed"), Said).

between(Here, There, Config) ->
    Port = integer_to_list(etls_test_peer:free_port()),
    Daemon = "etlsd@" ++ etls_test_hosts:address(Here),
    Log = filename:join(?config(priv_dir, Config), "other_host.log"),
    Peer = etls_test_peer:start(
             etls_test_hosts:on(Here, [etls_test_daemon:etlsd()
                                       | etls_test_daemon:flags(Config, Daemon)]
                                ++ ["--no-epmd", "--dist-port", Port,
                                    "--listen-address", etls_test_hosts:address(Here)]),
             #{output => drop, log => Log}),
    Paths = lists:append([["-pa", Path] || Path <- code:get_path(), Path =/= "."]),
    Said = os:cmd(quote(etls_test_hosts:on(
                          There,
                          ["timeout", "50", "erl", "-noinput",
                           "-name", "vm@" ++ etls_test_hosts:address(There),
                           "-setcookie", atom_to_list(erlang:get_cookie()),
                           "-start_epmd", "false", "-erl_epmd_port", Port,
                           "-etls", "link", "{cnode,'" ++ Daemon ++ "'}"] ++ Paths
                          ++ ["-eval", at_another_host(Daemon, Config)]))
                  ++ " 2>&1"),
    ok = etls_test_peer:stop(Peer),
    Said.

%% What the VM does, with which only its output connects this one.
at_another_host(Daemon, Config) ->
    Credentials = io_lib:format("~w", [credentials(Config)]),
    lists:flatten(
      ["F = fun F() -> case net_adm:ping('", Daemon, "') of pong -> ok; "
       "_ -> receive after 50 -> F() end end end, F(), ok = etls:start(), "
       "{ok, L} = etls:listen(0, ", Credentials, "), {ok, {_, P}} = etls:sockname(L), "
       "spawn(fun() -> {ok, S} = etls:accept(L), ok = etls:handshake(S), "
       "{ok, D} = etls:recv(S, 5), ok = etls:send(S, D), receive after infinity -> ok end end), "
       "{ok, C} = etls:connect(\"127.0.0.1\", P, [], 10000), "
       "{ok, [{lane, Lane}]} = etls:getopts(C, [lane]), ok = etls:send(C, <<\"12345\">>), "
       "{ok, <<\"12345\">>} = etls:recv(C, 5, 10000), "
       "{error, {options, {lane, Why}}} = etls:connect(\"127.0.0.1\", P, [{lane, local}], 10000), "
       "{error, {options, {lane, Why}}} = etls:listen(0, [{lane, local} | ", Credentials, "]), "
       "io:format(\"lane ~s, refused ~s, echoed~n\", [Lane, Why]), halt(0)."]).

%% As on another host, where a path of that name means nothing: a daemon whose directory is gone.
a_lane_that_cannot_be_reached_is_refused(Config) ->
    Temporary = filename:join("/tmp", "etls-cnode-" ++ os:getpid()),
    ok = file:make_dir(Temporary),
    Name = etls_test_node:name("d"),
    Log = filename:join(?config(priv_dir, Config), Name ++ ".log"),
    Daemon = #{node => list_to_atom(Name), log => Log,
               command => ["env", "-u", "XDG_RUNTIME_DIR", "TMPDIR=" ++ Temporary,
                           etls_test_daemon:etlsd() | etls_test_daemon:flags(Config, Name)]},
    try
        #{node := Node} = etls_test_daemon:again(Daemon),
        Hidden = Temporary ++ "-hidden",
        ok = file:rename(Temporary, Hidden),
        ok = use(#{node => Node}),
        {Client, _} = pair(Config),
        ?assertEqual({ok, [{lane, link}]}, etls:getopts(Client, [lane])),
        Refused = {error, {options, {lane, unreachable}}},
        {_, Port} = listen(Config),
        ?assertEqual(Refused, etls:connect(?LOCAL, Port, [{lane, local}], ?BOUND)),
        ?assertEqual(Refused, etls:listen(0, [{lane, local} | credentials(Config)])),
        ok = etls:stop(),
        ok = application:set_env(etls, lane, local),
        Said = io_lib:format("~p", [etls:start()]),
        ?assertNotEqual(nomatch, string:find(Said, "lane_unreachable"), Said),
        ok = file:rename(Hidden, Temporary)
    after
        file:del_dir_r(Temporary),
        file:del_dir_r(Temporary ++ "-hidden")
    end.

%%% ------------------------------------------------------------------------------------------

%% This VM's application uses Daemon.
use(#{node := Node}) ->
    ok = use_later(Node),
    etls:start().

use_later(Node) ->
    _ = application:load(etls),
    application:set_env(etls, link, {cnode, Node}).

%% {Status, Said}: without a cookie in the environment, for five seconds at most (status 124).
run(Flags) ->
    Command = quote(["timeout", "5", "env", "-u", "ETLSD_COOKIE", etls_test_daemon:etlsd()
                     | Flags]),
    Output = os:cmd(Command ++ " 2>&1 </dev/null; echo \"=$?\""),
    [Said, Status] = string:split(Output, "=", trailing),
    {list_to_integer(string:trim(Status)), Said}.

quote(Words) ->
    lists:flatten(lists:join(" ", ["'" ++ string:replace(Word, "'", "'\\''", all) ++ "'"
                                    || Word <- Words])).
