%% A daemon that is a node, started by hand as an operator would; and VMs beside this one to use it.
%% Both end with the process that started them.
-module(etls_test_daemon).

-export([start/1, start/2, again/1, flags/2, kill/1, is_up/1, log/1, os_pid/1, etlsd/0,
         cookie_file/1]).
-export([vm/2, vm/3, at/2, at/3, kill_vm/1]).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-import(etls_test_lib, [eventually/1, eventually/2]).

-define(BOUND, 10000).

%% Returns when it can be reached. A new name each, so that nobody takes it for another.
start(Config) ->
    start(Config, []).

start(Config, Flags) ->
    Name = etls_test_node:name("d"),
    Log = filename:join(?config(priv_dir, Config), Name ++ ".log"),
    Command = [etlsd() | flags(Config, Name)] ++ Flags,
    again(#{node => list_to_atom(Name), log => Log, command => Command}).

%% The same once more, after it has ended.
again(#{node := Node, log := Log, command := Command} = Daemon) ->
    Peer = etls_test_peer:start(Command, #{output => drop, log => Log}),
    eventually(fun() -> ?assertEqual({pong, log(Daemon)}, {net_adm:ping(Node), log(Daemon)}) end),
    Daemon#{peer => Peer}.

flags(Config, Name) ->
    ["--cnode", Name, "--cookie-file", cookie_file(Config), "--log-level", "info"].

%% With this VM's cookie in it.
cookie_file(Config) ->
    File = filename:join(?config(priv_dir, Config), "cookie"),
    ok = file:write_file(File, atom_to_list(erlang:get_cookie())),
    ok = file:change_mode(File, 8#600),
    File.

%% Returns when it is gone.
kill(#{node := Node, peer := Peer}) ->
    true = monitor_node(Node, true),
    ok = etls_test_peer:stop(Peer),
    receive {nodedown, Node} -> ok after ?BOUND -> error(still_there) end.

is_up(#{node := Node}) ->
    net_adm:ping(Node) =:= pong.

os_pid(#{peer := Peer}) ->
    etls_test_peer:os_pid(Peer).

%% All that it has said on stderr.
log(#{log := Log}) ->
    case file:read_file(Log) of
        {ok, Text} -> Text;
        {error, enoent} -> <<>>
    end.

etlsd() ->
    case os:getenv("ETLSD", "") of
        "" -> filename:join(code:priv_dir(etls), "etlsd");
        Path -> Path
    end.

%% --- other VMs -------------------------------------------------------------------------------

%% A VM whose application uses Daemon, started.
vm(Config, Daemon) ->
    vm(Config, Daemon, []).

vm(Config, #{node := Daemon}, Flags) ->
    Name = etls_test_node:name("vm"),
    Node = list_to_atom(Name),
    Paths = lists:append([["-pa", Path] || Path <- code:get_path(), Path =/= "."]),
    Peer = etls_test_peer:start(
             ["erl", "-noinput", "-sname", Name, "-setcookie", atom_to_list(erlang:get_cookie()),
              "-etls", "link", lists:flatten(io_lib:format("~w", [{cnode, Daemon}]))]
             ++ Flags ++ Paths,
             #{output => drop, log => filename:join(?config(priv_dir, Config), Name ++ ".log")}),
    eventually(fun() -> pong = net_adm:ping(Node) end, 20000),
    ok = erpc:call(Node, etls, start, [], 20000),
    #{node => Node, peer => Peer}.

%% What Fun returns in a process of Vm, which lives on, and with it what it owns, until it is told
%% `done' or Vm ends.
at(Vm, Fun) ->
    at(Vm, Fun, 2 * ?BOUND).

at(#{node := Node}, Fun, Timeout) ->
    Self = self(),
    Ref = make_ref(),
    {Pid, Monitor} = spawn_monitor(Node, fun() ->
                                                 Self ! {Ref, Fun()},
                                                 receive done -> ok end
                                         end),
    receive
        {Ref, Result} ->
            true = demonitor(Monitor, [flush]),
            {Pid, Result};
        {'DOWN', Monitor, process, Pid, Reason} -> error({process_failed, Reason})
    after Timeout -> error({no_answer, Node})
    end.

kill_vm(#{node := Node, peer := Peer}) ->
    true = monitor_node(Node, true),
    ok = etls_test_peer:stop(Peer),
    receive {nodedown, Node} -> ok after ?BOUND -> error(still_there) end.
