%% @private
%% etls_sup ─┬─ etls_registry       watches the sockets named in the tables
%%           ├─ etls_daemon         etlsd and the link to it
%%           ├─ etls_lane_sup ────── etls_lane_writer, one per link lane
%%           ├─ etls_socket_sup ──── etls_socket, one per connection
%%           └─ etls_listener_sup ── etls_listener, one per listener
%%
%% The tables are created here, so that they outlive each of the processes that use them. The order
%% matters when stopping: sockets and listeners close first, while there is a daemon to close them.
-module(etls_sup).

-behaviour(supervisor).

-export([start_link/0]).
-export([init/1]).

%% A daemon that is shot again and again is started again and again: only one that dies faster than
%% this (it cannot start at all) takes the application down.
-define(RESTARTS, 20).
-define(RESTARTS_WITHIN_S, 10).

-define(STOP_TIME, 5000).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, top).

-spec init(top | {each, module()}) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(top) ->
    ok = etls_registry:create_tables(),
    Flags = #{
        strategy => one_for_one,
        intensity => ?RESTARTS,
        period => ?RESTARTS_WITHIN_S
    },
    Children = [
        worker(etls_registry),
        worker(etls_daemon),
        pool(etls_lane_sup, etls_lane_writer),
        pool(etls_socket_sup, etls_socket),
        pool(etls_listener_sup, etls_listener)
    ],
    {ok, {Flags, Children}};
init({each, Module}) ->
    Flags = #{strategy => simple_one_for_one, intensity => 0, period => 1},
    Child = #{
        id => Module,
        start => {Module, start_link, []},
        restart => temporary,
        shutdown => ?STOP_TIME
    },
    {ok, {Flags, [Child]}}.

worker(Module) ->
    #{id => Module, start => {Module, start_link, []}, shutdown => ?STOP_TIME}.

pool(Name, Module) ->
    #{
        id => Name,
        start => {supervisor, start_link, [{local, Name}, ?MODULE, {each, Module}]},
        type => supervisor
    }.
