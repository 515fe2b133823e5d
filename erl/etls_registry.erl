%% @private
%% What any process may know without asking another one: public tables.
%%
%%   etls_sending   Ref => how to send; read by each etls:send/2, so it is kept small. A row is
%%                  there exactly while sending is allowed.
%%   etls_known     Ref => who the socket or listener is and what was learnt about it. A row is
%%                  there while the process may be asked.
%%   etls_link      the daemon of the moment and how to reach it.
%%   etls_lanes     Conn => who reads and who writes the link lane of the daemon's connection Conn.
%%
%% The rows are written by the processes they speak of; this process only removes what one that was
%% killed left behind, here and in the daemon. Rows are found by the socket's reference, since a pid
%% can come back.
-module(etls_registry).

-behaviour(gen_server).

-export([create_tables/0, start_link/0]).
-export([enter/3, update/2, status/2, leave/1, find/1, is_known/1]).
-export([allow_sending/2, refuse_sending/1, sending/1]).
-export([put_link/1, drop_link/0, link/0, was_linked/0]).
-export([put_lane/3, drop_lane/3, lane/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([status/0, sending/0, link/0]).

-define(SENDING, etls_sending).
-define(KNOWN, etls_known).
-define(LINK, etls_link).
-define(LANES, etls_lanes).

-type status() :: opening | open | listening.
-type sending() :: {
    Lane :: module(), etls_lane:lane(), HeaderBytes :: 0 | 1 | 2 | 4, CloseOnTimeout :: boolean()
}.
-type link() :: #{
    pid := pid(),
    module := module(),
    handle := term(),
    %% What the configuration says of lanes, and whether local ones are possible.
    lane := etls_lane:choice(),
    lane_address := term(),
    lane_reachable := boolean()
}.

-spec create_tables() -> ok.
create_tables() ->
    Options = [named_table, public, set, {read_concurrency, true}],
    ?SENDING = ets:new(?SENDING, [{write_concurrency, true} | Options]),
    ?KNOWN = ets:new(?KNOWN, [{write_concurrency, true} | Options]),
    ?LINK = ets:new(?LINK, Options),
    ?LANES = ets:new(?LANES, [{write_concurrency, true} | Options]),
    ok.

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% --- sockets and listeners -------------------------------------------------------------------

%% Makes the calling process known as Ref.
-spec enter(reference(), status(), map()) -> ok.
enter(Ref, Status, Facts) ->
    true = ets:insert(?KNOWN, {Ref, self(), Status, Facts}),
    gen_server:cast(?MODULE, {watch, Ref, self()}).

-spec update(reference(), map()) -> ok.
update(Ref, Facts) ->
    _ = ets:update_element(?KNOWN, Ref, {4, Facts}),
    ok.

-spec status(reference(), status()) -> ok.
status(Ref, Status) ->
    _ = ets:update_element(?KNOWN, Ref, {3, Status}),
    ok.

-spec leave(reference()) -> ok.
leave(Ref) ->
    ok = delete(?SENDING, Ref),
    delete(?KNOWN, Ref).

delete(Table, Key) ->
    try
        true = ets:delete(Table, Key),
        ok
    catch
        % The table went with etls_sup, which was killed: the caller goes, too.
        error:badarg -> ok
    end.

-spec find(reference()) -> {status(), map()} | unknown.
find(Ref) ->
    try ets:lookup(?KNOWN, Ref) of
        [{_, _, Status, Facts}] -> {Status, Facts};
        [] -> unknown
    catch
        % The application is not running.
        error:badarg -> unknown
    end.

-spec is_known(reference()) -> boolean().
is_known(Ref) ->
    try
        ets:member(?KNOWN, Ref)
    catch
        error:badarg -> false
    end.

%% --- sending ---------------------------------------------------------------------------------

-spec allow_sending(reference(), sending()) -> ok.
allow_sending(Ref, {Module, Lane, Header, CloseOnTimeout}) ->
    true = ets:insert(?SENDING, {Ref, Module, Lane, Header, CloseOnTimeout}),
    ok.

-spec refuse_sending(reference()) -> ok.
refuse_sending(Ref) ->
    true = ets:delete(?SENDING, Ref),
    ok.

-spec sending(reference()) -> sending() | refused.
sending(Ref) ->
    try ets:lookup(?SENDING, Ref) of
        [{_, Module, Lane, Header, CloseOnTimeout}] -> {Module, Lane, Header, CloseOnTimeout};
        [] -> refused
    catch
        error:badarg -> refused
    end.

%% --- the daemon ------------------------------------------------------------------------------

-spec put_link(link()) -> ok.
put_link(Link) ->
    true = ets:insert(?LINK, [{link, Link}, {was_linked, true}]),
    ok.

%% Has there been a daemon since the application's start?
-spec was_linked() -> boolean().
was_linked() -> ets:member(?LINK, was_linked).

-spec drop_link() -> ok.
drop_link() ->
    delete(?LINK, link).

-spec link() -> link() | none.
link() ->
    try ets:lookup(?LINK, link) of
        [{link, Link}] -> Link;
        [] -> none
    catch
        error:badarg -> none
    end.

%% --- link lanes ------------------------------------------------------------------------------

%% A new daemon numbers its connections anew: the row of an old one may be in the way, and its
%% processes may still be going.
-spec put_lane(Conn :: integer(), Socket :: pid(), Writer :: pid()) -> ok.
put_lane(Conn, Socket, Writer) ->
    true = ets:insert(?LANES, {Conn, Socket, Writer}),
    ok.

-spec drop_lane(Conn :: integer(), Socket :: pid(), Writer :: pid()) -> ok.
drop_lane(Conn, Socket, Writer) ->
    try
        true = ets:delete_object(?LANES, {Conn, Socket, Writer}),
        ok
    catch
        error:badarg -> ok
    end.

-spec lane(Conn :: integer()) -> {Socket :: pid(), Writer :: pid()} | none.
lane(Conn) ->
    case ets:lookup(?LANES, Conn) of
        [{_, Socket, Writer}] -> {Socket, Writer};
        [] -> none
    end.

%% --- the process -----------------------------------------------------------------------------

-spec init([]) -> {ok, #{reference() => reference()}}.
init([]) ->
    Watch = fun({Ref, Pid, _, _}, Watched) -> watch(Ref, Pid, Watched) end,
    {ok, ets:foldl(Watch, #{}, ?KNOWN)}.

-spec handle_call(term(), gen_server:from(), map()) -> {reply, {error, einval}, map()}.
handle_call(_Request, _From, Watched) ->
    {reply, {error, einval}, Watched}.

-spec handle_cast({watch, reference(), pid()}, map()) -> {noreply, map()}.
handle_cast({watch, Ref, Pid}, Watched) ->
    {noreply, watch(Ref, Pid, Watched)}.

-spec handle_info(term(), map()) -> {noreply, map()}.
handle_info({'DOWN', Monitor, process, _Pid, _Reason}, Watched0) ->
    case maps:take(Monitor, Watched0) of
        {Ref, Watched} ->
            ok = close_listener(find(Ref)),
            ok = leave(Ref),
            {noreply, Watched};
        error ->
            {noreply, Watched0}
    end;
handle_info(_Message, Watched) ->
    {noreply, Watched}.

%% A listener that was killed: nothing else tells the daemon, which would keep the port. (Of a
%% connection its lane tells.)
close_listener({listening, #{listener := Listener, daemon := Daemon}}) ->
    case link() of
        #{pid := Daemon} = Link ->
            Tag = erlang:unique_integer([positive]),
            _ = etls_daemon:request(Link, Tag, close, #{listener => Listener}),
            ok;
        _ ->
            ok
    end;
close_listener(_) ->
    ok.

watch(Ref, Pid, Watched) ->
    Watched#{monitor(process, Pid) => Ref}.
