%% etls beside itself: over both kinds of link, with both kinds of lane.
-module(etls_bench_links).

-export([combinations/2, stuck/2]).

%% 10^9 bytes, whatever the messages of the comparison with ssl are.
-define(GB_LOAD(Load), Load#{connections => 10, messages => 10, size => 10_000_000}).
-define(STUCK_LOAD(Load), Load#{connections => 63, messages => 4, size => 4_000_000}).

-spec combinations(etls_bench:load(), pos_integer()) -> ok.
combinations(Load, Runs) ->
    io:format("~n1 GB over each combination of link and lane, ~b runs of each, interleaved~n",
              [Runs]),
    Epmd = become_a_node(),
    All = [{port, local}, {port, link}, {{cnode, spawn}, local}, {{cnode, spawn}, link}],
    Figures = [{Each, run(Each, ?GB_LOAD(Load))} || _ <- lists:seq(1, Runs), Each <- All],
    io:format("~n~n~-20s ~9s ~14s ~14s~n", ["medians", "MB/s", "VM CPU-s/GB", "etlsd"]),
    lists:foreach(
        fun(Each) ->
            #{mb_per_s := Speed, vm_cpu := Vm, daemon_cpu := Daemon} =
                etls_bench:medians([F || {E, F} <- Figures, E =:= Each]),
            io:format("~-20s ~9.1f ~14.2f ~14.2f~n", [name(Each), Speed, Vm, Daemon])
        end,
        All
    ),
    be_a_node_no_more(Epmd).

%% What the other 63 connections lose by one that holds all it may of the link, and more to come.
-spec stuck(etls_bench:load(), pos_integer()) -> ok.
stuck(Load, Runs) ->
    io:format("~n63 connections on link lanes, ~b runs of each, interleaved~n", [Runs]),
    Kinds = [idle, stuck],
    Speeds = [{Kind, beside(Kind, ?STUCK_LOAD(Load))} || _ <- lists:seq(1, Runs), Kind <- Kinds],
    [Idle, Stuck] = [median([Speed || {K, Speed} <- Speeds, K =:= Kind]) || Kind <- Kinds],
    io:format("~nbeside an idle one: ~.1f MB/s; beside a stuck one: ~.1f MB/s; ratio ~.3f~n",
              [Idle, Stuck, Stuck / Idle]).

run(Combination, Load) ->
    ok = use(Combination),
    Figures = etls_bench:bulk(etls, Load, fun(_, _) -> ok end),
    io:put_chars("."),
    Figures.

use({Link, Lane}) ->
    ok = etls:stop(),
    ok = application:set_env(etls, link, Link),
    ok = application:set_env(etls, lane, Lane),
    etls:start().

name({port, Lane}) -> "port, " ++ atom_to_list(Lane);
name({{cnode, spawn}, Lane}) -> "C-node, " ++ atom_to_list(Lane).

%%% ---------------------------------------------------------------- a stuck reader

beside(Kind, #{certfile := Cert, keyfile := Key} = Load) ->
    ok = use({port, link}),
    {ok, Listener} = etls:listen(0, [{certfile, Cert}, {keyfile, Key}]),
    {ok, {_, Port}} = etls:sockname(Listener),
    Self = self(),
    Reader = spawn_link(fun() -> reader(Listener) end),
    Sender = spawn_link(fun() -> sender(Kind, Port, Self) end),
    receive {Sender, ready} -> ok end,
    #{mb_per_s := Speed} = etls_bench:bulk(etls, Load, fun(_, _) -> ok end),
    [begin
         true = unlink(Pid),
         true = exit(Pid, kill)
     end || Pid <- [Reader, Sender]],
    io:put_chars("."),
    Speed.

%% It accepts, and that is all.
reader(Listener) ->
    {ok, Socket} = etls:accept(Listener),
    ok = etls:handshake(Socket),
    receive after infinity -> ok end.

sender(idle, Port, Report) ->
    {ok, _} = etls:connect("127.0.0.1", Port, []),
    Report ! {self(), ready},
    receive after infinity -> ok end;
sender(stuck, Port, Report) ->
    {ok, Socket} = etls:connect("127.0.0.1", Port, [{send_timeout, 1000}]),
    ok = fill(Socket),
    %% And there is always more to come.
    ok = etls:setopts(Socket, [{send_timeout, infinity}]),
    Report ! {self(), ready},
    etls:send(Socket, <<0:8000000>>).

fill(Socket) ->
    case etls:send(Socket, <<0:2000000>>) of
        ok -> fill(Socket);
        {error, timeout} -> ok
    end.

median(Numbers) ->
    lists:nth((length(Numbers) + 1) div 2, lists:sort(Numbers)).

%%% ---------------------------------------------------------------- a node

%% `started': an epmd that was not there.
become_a_node() ->
    Epmd = case erl_epmd:names(localhost) of
               {ok, _} -> found;
               {error, _} ->
                   _ = os:cmd("epmd -daemon"),
                   ok = wait_for_epmd(500),
                   started
           end,
    {ok, _} = net_kernel:start([list_to_atom("etls_bench_" ++ os:getpid() ++ "@localhost"),
                                shortnames]),
    Epmd.

wait_for_epmd(0) -> error(no_epmd);
wait_for_epmd(Tries) ->
    case erl_epmd:names(localhost) of
        {ok, _} -> ok;
        {error, _} -> receive after 10 -> wait_for_epmd(Tries - 1) end
    end.

be_a_node_no_more(Epmd) ->
    ok = etls:stop(),
    ok = net_kernel:stop(),
    %% It refuses while others are registered.
    _ = [os:cmd("epmd -kill") || Epmd =:= started],
    ok.
