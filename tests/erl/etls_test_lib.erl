%% What the suites share: certificates, connected pairs, and checks that nothing is left behind.
-module(etls_test_lib).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([cases/1, start/1, stop/1, is_running/0]).
-export([prepare/1, all/0, combined/1, is_combination/1, enter/2, configure/2, leave/1,
         vm_flags/1]).
-export([project_file/1, file/2, read/2, der/2, credentials/1, credentials/2, versions/1]).
-export([pair/1, pair/2, pair/3, listen/1, listen/2, port/1, accept_in_background/2,
         accept_in_background/3, accepted/1]).
-export([ssl_pair/3, ssl_listen/2]).
-export([memory/0, growth/1]).
-export([watch/1, nothing_left_behind/0, stats/0, usage/0, assert_back_to/1, daemon_os_pid/0,
         operator/2]).
-export([eventually/1, eventually/2]).
-export([no_messages/0, no_messages/1, flush/0, in_process/1, result/1, result/2]).

-define(BOUND, 10000).
-define(MB, 1048576).

%% A suite's cases, but for the last one, which is about the others.
cases(Suite) ->
    [Name || {Name, 1} <- Suite:module_info(exports),
             not lists:member(Name, [init_per_suite, end_per_suite, module_info,
                                     nothing_is_left_behind])].

%% What the group init of a suite without combinations does, in one.
start(Config) ->
    started(prepare(Config)).

%% Makes the certificates in the suite's private directory, and readies OTP's ssl as a peer.
prepare(Config) ->
    {ok, _} = application:ensure_all_started(ssl),
    ok = logger:set_application_level(ssl, none),
    Dir = filename:join(?config(priv_dir, Config), "certs"),
    make_certs(Dir),
    [{certs, Dir} | Config].

started(Config) ->
    ok = etls:start(),
    _ = persistent_term:erase(?MODULE),
    %% What is made on first use (threads, the resolver, ...) is not a leak of the first test.
    _ = result(in_process(fun() -> warm_up(Config) end)),
    Config.

%% --- the four combinations of link and lane --------------------------------------------------

-define(COMBINATIONS, [port_local, port_link, cnode_local, cnode_link]).

%% For a suite's all/0. ETLS_TEST_GROUPS="port_local cnode_link" narrows them.
all() -> [{group, Name} || Name <- wanted()].

%% For groups/0: the same tests in each combination.
combined(Tests) -> [{Name, [], Tests} || Name <- ?COMBINATIONS].

wanted() ->
    case os:getenv("ETLS_TEST_GROUPS", "") of
        "" ->
            ?COMBINATIONS;
        Text ->
            Named = [list_to_atom(Word) || Word <- string:lexemes(Text, " ,")],
            [] = Named -- ?COMBINATIONS,
            Named
    end.

is_combination(Name) -> lists:member(Name, ?COMBINATIONS).

%% Restarts the application as the group wants it; a link to a C-node needs a VM that is a node.
enter(Name, Config) ->
    started(configure(Name, Config)).

%% The same, but for starting it.
configure(Name, Config) ->
    ok = leave(Config),
    {Link, Lane} = combination(Name),
    ok = be_distributed(Link),
    _ = application:load(etls),
    ok = application:set_env(etls, link, Link),
    ok = application:set_env(etls, lane, Lane),
    [{link, Link}, {lane, Lane} | Config].

combination(port_local) -> {port, local};
combination(port_link) -> {port, link};
combination(cnode_local) -> {{cnode, spawn}, local};
combination(cnode_link) -> {{cnode, spawn}, link}.

%% Undoes what enter/2 did, also where that failed half way.
leave(_Config) ->
    _ = etls:stop(),
    %% Its environment goes along.
    _ = application:unload(etls),
    etls_test_node:stop().

be_distributed(port) -> ok;
be_distributed({cnode, _}) -> etls_test_node:start().

%% Flags that make another VM's application as this group's.
vm_flags(Config) ->
    Node = case ?config(link, Config) of
               port -> [];
               {cnode, _} -> ["-sname", etls_test_node:name("other"), "-setcookie",
                              atom_to_list(erlang:get_cookie())]
           end,
    Node ++ ["-etls", "link", text(?config(link, Config)),
             "-etls", "lane", text(?config(lane, Config))].

text(Term) -> lists:flatten(io_lib:format("~w", [Term])).

warm_up(Config) ->
    {_, _} = pair(Config),
    {error, _} = etls:connect("localhost", etls_test_peer:free_port(), [], ?BOUND),
    {error, _} = ssl:connect("localhost", etls_test_peer:free_port(), [], ?BOUND).

stop(_Config) ->
    ok = etls:stop().

is_running() ->
    lists:keymember(etls, 1, application:which_applications()).

make_certs(Dir) ->
    Port = open_port({spawn_executable, project_file("scripts/certs")},
                     [{args, [Dir]}, exit_status, binary, stderr_to_stdout]),
    made(Port, []).

made(Port, Output) ->
    receive
        {Port, {data, Data}} -> made(Port, [Output, Data]);
        {Port, {exit_status, 0}} -> ok;
        {Port, {exit_status, _}} -> error({certs, iolist_to_binary(Output)})
    after 60000 -> error(certs_timeout)
    end.

%% Common Test runs suites somewhere under _build: the project is upwards of it.
project_file(Name) ->
    find_up(filename:absname(""), Name).

find_up(Dir, Name) ->
    Path = filename:join(Dir, Name),
    case {filelib:is_regular(Path), filename:dirname(Dir)} of
        {true, _} -> Path;
        {false, Dir} -> error({not_found, Name});
        {false, Parent} -> find_up(Parent, Name)
    end.

file(Config, Name) ->
    filename:join(?config(certs, Config), Name).

read(Config, Name) ->
    {ok, Pem} = file:read_file(file(Config, Name)),
    Pem.

der(Config, Name) ->
    [{'Certificate', Der, not_encrypted} | _] = public_key:pem_decode(read(Config, Name)),
    Der.

credentials(Config) ->
    credentials(Config, "ecdsa").

credentials(Config, Name) ->
    [{certfile, file(Config, Name ++ ".pem")}, {keyfile, file(Config, Name ++ ".key")}].

%% The version a group runs under, as options; the library's default outside such groups.
versions(Config) ->
    case proplists:get_value(version, Config) of
        undefined -> [];
        Version -> [{versions, [Version]}]
    end.

listen(Config) ->
    listen(Config, []).

listen(Config, Options) ->
    Given = case proplists:is_defined(certfile, Options) of
                true -> [];
                false -> credentials(Config)
            end,
    {ok, Listener} = etls:listen(0, Options ++ Given ++ versions(Config)),
    {Listener, port(Listener)}.

port(Listener) ->
    {ok, {_, Port}} = etls:sockname(Listener),
    Port.

%% {Client, Server}, both owned by the caller and open.
pair(Config) ->
    pair(Config, [], []).

pair(Config, ClientOptions) ->
    pair(Config, [], ClientOptions).

pair(Config, ServerOptions, ClientOptions) ->
    {Listener, Port} = listen(Config, ServerOptions),
    Accepting = accept_in_background(Listener, self()),
    {ok, Client} = etls:connect({127, 0, 0, 1}, Port, ClientOptions ++ versions(Config), ?BOUND),
    Server = accepted(Accepting),
    ok = etls:close(Listener),
    {Client, Server}.

%% Accepts and handshakes in another process, which then gives the socket to Owner.
accept_in_background(Listener, Owner) ->
    accept_in_background(Listener, Owner, fun(_) -> ok end).

accept_in_background(Listener, Owner, Then) ->
    in_process(fun() ->
                       {ok, Socket} = etls:accept(Listener, ?BOUND),
                       ok = etls:handshake(Socket, ?BOUND),
                       Then(Socket),
                       ok = etls:controlling_process(Socket, Owner),
                       Socket
               end).

accepted(Accepting) ->
    result(Accepting).

%% {Etls, Ssl}: the etls end has the given role, the other end is OTP's ssl, passive and binary.
ssl_pair(client, Config, Options) ->
    {Listener, Port} = ssl_listen(Config, []),
    Owner = self(),
    Accepting = in_process(fun() ->
                                   {ok, Hello} = ssl:transport_accept(Listener, ?BOUND),
                                   {ok, Socket} = ssl:handshake(Hello, ?BOUND),
                                   ok = ssl:controlling_process(Socket, Owner),
                                   Socket
                           end),
    {ok, Etls} = etls:connect({127, 0, 0, 1}, Port, Options ++ versions(Config), ?BOUND),
    Ssl = result(Accepting),
    ok = ssl:close(Listener),
    {Etls, Ssl};
ssl_pair(server, Config, Options) ->
    {Listener, Port} = listen(Config, Options),
    Accepting = accept_in_background(Listener, self()),
    {ok, Ssl} = ssl:connect({127, 0, 0, 1}, Port,
                            [binary, {active, false}, {verify, verify_none} | versions(Config)],
                            ?BOUND),
    Etls = accepted(Accepting),
    ok = etls:close(Listener),
    {Etls, Ssl}.

ssl_listen(Config, Options) ->
    Given = case proplists:is_defined(certfile, Options) of
                true -> [];
                false -> credentials(Config)
            end,
    {ok, Listener} = ssl:listen(0, [binary, {active, false}, {reuseaddr, true},
                                    {ip, {127, 0, 0, 1}}]
                                   ++ Options ++ Given ++ versions(Config)),
    {ok, {_, Port}} = ssl:sockname(Listener),
    {Listener, Port}.

%% The daemon's own counters.
stats() ->
    {ok, Stats} = etls_daemon:call(stats, #{}, 5000),
    Stats.

%% What a finished test must give back: the daemon's connections, listeners, waiting accepts and
%% open files, and the VM's processes and ports that are the application's.
usage() ->
    #{connections := Connections, listeners := Listeners, accepts_waiting := Accepts} = stats(),
    {ok, Fds} = file:list_dir("/proc/" ++ daemon_os_pid() ++ "/fd"),
    Processes = [Pid || Pid <- processes(), is_etls(Pid)],
    Ports = [Port || Port <- erlang:ports(),
                     lists:member(element(2, erlang:port_info(Port, connected)), Processes)],
    #{connections => Connections, listeners => Listeners, accepts => Accepts,
      descriptors => length(Fds), processes => length(Processes), ports => length(Ports)}.

is_etls(Pid) ->
    case erlang:process_info(Pid, dictionary) of
        {dictionary, Dictionary} ->
            {Module, _, _} = proplists:get_value('$initial_call', Dictionary, {none, none, 0}),
            lists:prefix("etls_", atom_to_list(Module))
                andalso not lists:prefix("etls_test", atom_to_list(Module));
        undefined ->
            false
    end.

%% A test's sockets live as long as its process, which ends after end_per_testcase. So the test
%% before this one is looked at when this one starts, and the suite's last case tells the result.
watch(Case) ->
    Now = case persistent_term:get(?MODULE, none) of
              none -> usage();
              {Before, Usage, Left} ->
                  try assert_back_to(Usage), Usage
                  catch error:Reason ->
                          persistent_term:put(?MODULE, {Case, Usage, [{Before, Reason} | Left]}),
                          usage()
                  end
          end,
    Leaks = case persistent_term:get(?MODULE, none) of none -> []; {_, _, All} -> All end,
    persistent_term:put(?MODULE, {Case, Now, Leaks}).

nothing_left_behind() ->
    {_, _, Leaks} = persistent_term:get(?MODULE),
    ?assertEqual([], lists:reverse(Leaks)).

%% Nothing tells when the last trace is gone, so this asks until it is or the bound has passed.
assert_back_to(Before) ->
    eventually(fun() ->
                       Now = usage(),
                       Left = maps:filter(fun(Key, Value) -> Value > maps:get(Key, Before) end,
                                          Now),
                       ?assertEqual(#{}, Left)
               end).

eventually(Check) ->
    eventually(Check, ?BOUND).

eventually(Check, Bound) ->
    eventually_until(Check, erlang:monotonic_time(millisecond) + Bound).

eventually_until(Check, Deadline) ->
    try Check()
    catch Class:Reason:Stack ->
            case erlang:monotonic_time(millisecond) > Deadline of
                true -> erlang:raise(Class, Reason, Stack);
                false ->
                    receive after 5 -> ok end,
                    eventually_until(Check, Deadline)
            end
    end.

%% --- memory of both -------------------------------------------------------------------------

%% {VM, daemon}: bytes more than in Before.
growth({Vm, Daemon}) ->
    {VmNow, DaemonNow} = memory(),
    {VmNow - Vm, DaemonNow - Daemon}.

%% {VM, daemon}, in bytes. Garbage that nobody has looked at yet is not growth.
memory() ->
    _ = [garbage_collect(Pid) || Pid <- processes()],
    {erlang:memory(total), daemon_memory()}.

daemon_memory() ->
    {ok, Status} = file:read_file("/proc/" ++ daemon_os_pid() ++ "/status"),
    {match, [Kb]} = re:run(Status, "VmRSS:\\s+(\\d+) kB", [{capture, all_but_first, binary}]),
    binary_to_integer(Kb) * 1024.

%% As a string, for /proc and kill.
daemon_os_pid() ->
    Ports = [Port || Port <- erlang:ports(), is_daemon(erlang:port_info(Port, name))],
    case {Ports, application:get_env(etls, link, port)} of
        {[Port], _} ->
            {os_pid, Pid} = erlang:port_info(Port, os_pid),
            integer_to_list(Pid);
        {[], {cnode, Node}} when Node =/= spawn ->
            #{os_pid := Pid} = operator(Node, info),
            integer_to_list(Pid)
    end.

%% What a daemon that is a node answers an operator. In a process of its own, so that what comes too
%% late is not taken for the answer to another question.
operator(Node, Question) ->
    result(in_process(fun() ->
                              {etlsd, Node} ! {self(), Question},
                              receive
                                  {etlsd, error, Reason} -> {error, Reason};
                                  {etlsd, _Kind, Answer} -> Answer
                              after ?BOUND -> error({no_answer, Node, Question})
                              end
                      end), 2 * ?BOUND).

is_daemon({name, Name}) ->
    filename:basename(Name) =:= "etlsd" orelse Name =:= os:getenv("ETLSD");
is_daemon(undefined) ->
    false.

%% Messages already sent are in the mailbox or behind a call to the process that sends them; the
%% short wait is for those that wrongly come afterwards.
no_messages() ->
    no_messages(50).

no_messages(Wait) ->
    receive Message -> error({unexpected_message, Message})
    after Wait -> ok
    end.

flush() ->
    receive Message -> [Message | flush()]
    after 0 -> []
    end.

%% Runs Fun in a process of its own; result/1 waits for what it returns.
in_process(Fun) ->
    Tag = make_ref(),
    Parent = self(),
    {Pid, Monitor} = spawn_monitor(fun() -> Result = Fun(), Parent ! {Tag, Result} end),
    {Pid, Monitor, Tag}.

result(Running) ->
    result(Running, ?BOUND).

result({Pid, Monitor, Tag}, Timeout) ->
    receive
        {Tag, Result} ->
            demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, Pid, Reason} ->
            error({process_failed, Reason})
    after Timeout ->
            Where = erlang:process_info(Pid, current_stacktrace),
            exit(Pid, kill),
            error({no_result_within, Timeout, Where})
    end.
