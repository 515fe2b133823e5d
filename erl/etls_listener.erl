%% @private
%% One listener. It keeps as many accepts outstanding in the daemon as there are callers waiting,
%% because the daemon takes connections from the kernel only for those.
%%
%% An accept that is given up (its time ran out, its caller died) is cancelled; where its connection
%% was on the way already, the next caller gets that.
%%
%% The listener outlives the daemon: when a new one is there it listens again, on the same address
%% and port, for the callers that still wait.
-module(etls_listener).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").
-include("etls_internal.hrl").

-export([start_link/1, listen/4, call/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% How often to look for a new daemon, or for the old one's port to be free.
-define(RETRY, 20).

%% A daemon is restarted within tens of milliseconds; listening waits for it so long.
-define(DAEMON_WAIT, 5000).

%% After a restart the port can still be taken (by the dying daemon, or by somebody else).
-define(RELISTEN_WAIT, 10000).

-define(CLOSE_ANSWER, 5000).

-record(waiter, {
    from :: gen_server:from(),
    monitor :: reference(),
    timer :: reference() | infinity
}).

-record(state, {
    socket :: #etls_listener{},
    owner :: pid(),
    owner_monitor :: reference(),
    arguments :: map(),
    stream :: #stream{},
    linger :: {boolean(), non_neg_integer()},
    link = none :: none | etls_registry:link(),
    daemon_monitor = none :: none | reference(),
    %% The daemon's number for it; none while it has to listen (again).
    listener = none :: none | integer(),
    retry_until :: integer(),
    %% Who waits for the first answer to `listen'.
    opener = none :: none | gen_server:from(),
    requests = #{} :: #{
        etls_daemon:tag() => listen | accept | cancelled | {poll, gen_server:from()} | close | other
    },
    waiters = queue:new() :: queue:queue(#waiter{}),
    %% Connections that came for callers who had gone.
    ready = queue:new() :: queue:queue(#etls_socket{}),
    closer = none :: none | nobody | gen_server:from()
}).

-type request() ::
    listen
    | {accept, timeout()}
    | {setopts, etls_options:changes()}
    | {getopts, [atom()]}
    | {give, pid()}
    | close.

-spec start_link(map()) -> gen_server:start_ret().
start_link(Start) ->
    gen_server:start_link(?MODULE, Start, []).

%% Arguments are the protocol's. The calling process becomes the owner.
-spec listen(etls_face:face(), map(), #stream{}, {boolean(), non_neg_integer()}) ->
    {ok, #etls_listener{}} | {error, term()}.
listen(Face, Arguments, Stream, Linger) ->
    Ref = make_ref(),
    Start = #{
        ref => Ref,
        face => Face,
        owner => self(),
        arguments => Arguments,
        stream => Stream,
        linger => Linger
    },
    try supervisor:start_child(etls_listener_sup, [Start]) of
        {ok, Pid} when is_pid(Pid) ->
            Listener = #etls_listener{pid = Pid, ref = Ref, face = Face},
            case call(Listener, listen) of
                ok -> {ok, Listener};
                {error, Reason} -> {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    catch
        exit:_ -> {error, not_started}
    end.

-spec call(#etls_listener{}, request()) -> term().
call(#etls_listener{pid = Pid, ref = Ref}, Request) ->
    case etls_registry:is_known(Ref) of
        true ->
            try
                gen_server:call(Pid, {Ref, Request}, infinity)
            catch
                exit:_ -> {error, closed}
            end;
        false ->
            {error, closed}
    end.

-spec init(map()) -> {ok, #state{}}.
init(#{ref := Ref, face := Face, owner := Owner} = Start) ->
    process_flag(trap_exit, true),
    #{arguments := Arguments, stream := Stream, linger := Linger} = Start,
    ok = etls_registry:enter(Ref, listening, #{}),
    {ok, #state{
        socket = #etls_listener{pid = self(), ref = Ref, face = Face},
        owner = Owner,
        owner_monitor = monitor(process, Owner),
        arguments = Arguments,
        stream = Stream,
        linger = Linger,
        retry_until = now_ms() + ?DAEMON_WAIT
    }}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {reply, term(), #state{}} | {stop, normal, #state{}}.
handle_call({Ref, Request}, From, #state{socket = #etls_listener{ref = Ref}} = State) ->
    requested(Request, From, State);
handle_call(_Request, _From, State) ->
    {reply, {error, closed}, State}.

requested(_Request, _From, #state{closer = Closer} = State) when Closer =/= none ->
    {reply, {error, closed}, State};
requested(listen, From, State) ->
    noreply(try_listen(State#state{opener = From}));
requested({accept, Timeout}, {Pid, _} = From, #state{ready = Ready0} = State) ->
    case queue:out(Ready0) of
        {{value, Socket}, Ready} ->
            ok = etls_socket:adopt(Socket, Pid),
            {reply, {ok, Socket}, State#state{ready = Ready}};
        {empty, _} when Timeout =:= 0 ->
            poll(From, State);
        {empty, _} ->
            noreply(balance(wait(From, Timeout, State)))
    end;
requested({setopts, #{stream := Changes, tcp := Tcp}}, _From, #state{} = State) ->
    case set_tcp(Tcp, State) of
        ok ->
            Stream = lists:foldl(fun etls_socket:change_stream/2, State#state.stream, Changes),
            #state{arguments = #{tcp := Old} = Arguments, linger = Linger} = State,
            {reply, ok, State#state{
                stream = Stream,
                linger = maps:get(linger, Tcp, Linger),
                arguments = Arguments#{tcp := maps:merge(Old, Tcp)}
            }};
        {error, Reason} ->
            {reply, {error, Reason}, State}
    end;
requested({getopts, Names}, _From, #state{stream = Stream} = State) ->
    Values = [{Name, etls_socket:stream_option(Name, Stream)} || Name <- Names],
    {reply, {ok, Values}, State};
requested({give, Owner}, {Giver, _}, #state{owner = Giver} = State) ->
    case is_pid(Owner) andalso node(Owner) =:= node() andalso is_process_alive(Owner) of
        true ->
            true = demonitor(State#state.owner_monitor, [flush]),
            Monitor = monitor(process, Owner),
            {reply, ok, State#state{owner = Owner, owner_monitor = Monitor}};
        false ->
            {reply, {error, einval}, State}
    end;
requested({give, _Owner}, _From, State) ->
    {reply, {error, not_owner}, State};
requested(close, From, State) ->
    start_closing(State#state{closer = From}).

%% What is there already: the daemon is asked and told in one breath that nobody waits, so that one
%% of the two is answered at once. Those who wait come first, as in any accept.
poll(_From, #state{listener = none} = State) ->
    {reply, {error, timeout}, State};
poll(From, #state{listener = Listener} = State) ->
    case request({poll, From}, accept, #{listener => Listener}, State) of
        {ok, #state{requests = Requests} = Asked} ->
            [Tag] = [Tag || {Tag, {poll, Other}} <- maps:to_list(Requests), Other =:= From],
            Id = etls_protocol:id(self(), Tag),
            case request(other, cancel, #{request => Id}, Asked) of
                {ok, Cancelled} -> {noreply, Cancelled};
                {error, closed} -> {noreply, Asked}
            end;
        {error, closed} ->
            {reply, {error, timeout}, State}
    end.

refuse_polls(Result, #state{requests = Requests} = State) ->
    IsPoll = fun
        (_Tag, {poll, From}) ->
            gen_server:reply(From, Result),
            true;
        (_Tag, _What) ->
            false
    end,
    Polls = maps:filter(IsPoll, Requests),
    % A connection that still comes for one is the next caller's.
    Cancelled = maps:map(fun(_Tag, {poll, _}) -> cancelled end, Polls),
    State#state{requests = maps:merge(Requests, Cancelled)}.

wait({Pid, _} = From, Timeout, #state{waiters = Waiters} = State) ->
    Monitor = monitor(process, Pid),
    Timer =
        case Timeout of
            infinity -> infinity;
            _ -> erlang:start_timer(Timeout, self(), {accept, Monitor})
        end,
    Waiter = #waiter{from = From, monitor = Monitor, timer = Timer},
    State#state{waiters = queue:in(Waiter, Waiters)}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({etls_reply, Tag, Result}, #state{requests = Requests0} = State) ->
    case maps:take(Tag, Requests0) of
        {What, Requests} -> answered(What, Result, State#state{requests = Requests});
        error -> {noreply, State}
    end;
handle_info({timeout, Timer, {accept, Monitor}}, State) ->
    case take_waiter(Monitor, State) of
        {#waiter{timer = Timer} = Waiter, Left} ->
            answer(Waiter, {error, timeout}),
            noreply(balance(Left));
        _ ->
            {noreply, State}
    end;
handle_info(retry, #state{listener = none, closer = none} = State) ->
    noreply(try_listen(State));
handle_info({'DOWN', Monitor, process, _, _}, #state{owner_monitor = Monitor} = State) ->
    start_closing(State);
handle_info({'DOWN', Monitor, process, _, _}, #state{daemon_monitor = Monitor} = State) ->
    daemon_down(State);
handle_info({'DOWN', Monitor, process, _, _}, State) ->
    case take_waiter(Monitor, State) of
        {Waiter, Left} ->
            stop_waiting(Waiter),
            noreply(balance(Left));
        none ->
            {noreply, State}
    end;
handle_info(closed_at_last, State) ->
    {stop, normal, State};
handle_info(_Message, State) ->
    {noreply, State}.

noreply(#state{} = State) -> {noreply, State};
noreply({stop, State}) -> {stop, normal, State}.

%% --- listening, and listening again ----------------------------------------------------------

try_listen(#state{stream = #stream{lane = Choice}} = State) ->
    case etls_registry:link() of
        none ->
            await_daemon(State);
        #{} = Link ->
            case etls_lane:module(Choice, Link) of
                {ok, _} -> ask_listen(Link, State);
                {error, unreachable} -> give_up({options, {lane, unreachable}}, State)
            end
    end.

ask_listen(#{pid := Daemon} = Link, #state{arguments = Arguments} = State0) ->
    State = State0#state{link = Link, daemon_monitor = monitor(process, Daemon)},
    case request(listen, listen, Arguments, State) of
        {ok, Asked} ->
            Asked;
        {error, closed} ->
            true = demonitor(State#state.daemon_monitor, [flush]),
            await_daemon(State0#state{link = none, daemon_monitor = none})
    end.

%% Who has listened before does so again however long the daemon stays away.
await_daemon(#state{opener = none} = State) ->
    _ = erlang:send_after(?RETRY, self(), retry),
    State#state{retry_until = now_ms() + ?RELISTEN_WAIT};
await_daemon(State) ->
    retry(econnaborted, State).

retry(Reason, #state{retry_until = Until} = State) ->
    case now_ms() < Until of
        true ->
            _ = erlang:send_after(?RETRY, self(), retry),
            State;
        false ->
            give_up(Reason, State)
    end.

%% Nothing will come to this listener any more.
give_up(Reason, #state{opener = none} = State) ->
    ok = etls_registry:leave(ref(State)),
    ?LOG_ERROR("etls: cannot listen again: ~0tp", [Reason], #{domain => [etls]}),
    {stop, refuse_waiters({error, Reason}, State)};
give_up(Reason, #state{opener = Opener} = State) ->
    ok = etls_registry:leave(ref(State)),
    gen_server:reply(Opener, {error, Reason}),
    {stop, State}.

daemon_down(#state{closer = Closer} = State) when Closer =/= none ->
    {stop, normal, State};
daemon_down(#state{opener = Opener} = State) when Opener =/= none ->
    noreply(give_up(econnaborted, State));
daemon_down(State0) ->
    State = refuse_polls({error, timeout}, State0),
    ok = clear_place(State#state.arguments),
    % Connections nobody has heard of yet died with it.
    Down = State#state{
        link = none,
        daemon_monitor = none,
        listener = none,
        requests = #{},
        ready = queue:new(),
        retry_until = now_ms() + ?RELISTEN_WAIT
    },
    noreply(try_listen(Down)).

answered(listen, {ok, #{listener := Listener}}, #state{closer = Closer} = State) when
    Closer =/= none
->
    ask_close(State#state{listener = Listener});
answered(listen, {error, _}, #state{closer = Closer} = State) when Closer =/= none ->
    {stop, normal, State};
answered(listen, {ok, #{listener := Listener, address := Address}}, State) ->
    #{pid := Daemon} = State#state.link,
    Facts = #{local => Address, listener => Listener, daemon => Daemon},
    ok = etls_registry:update(ref(State), Facts),
    State1 = State#state{listener = Listener, arguments = same_place(Address, State)},
    case State1 of
        #state{opener = none} ->
            noreply(balance(State1));
        #state{opener = Opener} ->
            gen_server:reply(Opener, ok),
            {noreply, State1#state{opener = none}}
    end;
answered(listen, {error, eaddrinuse}, #state{opener = none} = State) ->
    true = demonitor(State#state.daemon_monitor, [flush]),
    noreply(retry(eaddrinuse, State#state{link = none, daemon_monitor = none}));
answered(listen, {error, Reason}, State) ->
    noreply(give_up(Reason, State));
answered(What, {ok, #{conn := _} = Connection}, State) when What =:= accept; What =:= cancelled ->
    noreply(balance(arrived(Connection, State)));
answered(cancelled, {error, _}, State) ->
    {noreply, State};
answered({poll, {Pid, _} = From}, {ok, #{conn := _} = Connection}, State) ->
    case is_process_alive(Pid) of
        true ->
            gen_server:reply(From, take_over(Pid, Connection, State)),
            {noreply, State};
        false ->
            noreply(balance(arrived(Connection, State)))
    end;
answered({poll, From}, {error, Reason}, State) when Reason =:= cancelled; Reason =:= closed ->
    gen_server:reply(From, {error, timeout}),
    {noreply, State};
answered({poll, From}, {error, Reason}, State) ->
    gen_server:reply(From, {error, Reason}),
    {noreply, State};
answered(accept, {error, closed}, State) ->
    % Nobody here closed it: the daemon was told to end. Who waits goes on with the next one.
    {noreply, State};
answered(accept, {error, Reason}, #state{waiters = Waiters0} = State) ->
    case queue:out(Waiters0) of
        {{value, Waiter}, Waiters} ->
            answer(Waiter, {error, Reason}),
            noreply(balance(State#state{waiters = Waiters}));
        {empty, _} ->
            {noreply, State}
    end;
answered(close, _Result, State) ->
    {stop, normal, State};
answered(other, _Result, State) ->
    {noreply, State}.

%% Whoever connected before must find the listener again, so the port is now fixed; and connections
%% of the old daemon still hold it, so it must be reused.
same_place(Address, #state{arguments = #{tcp := Tcp} = Arguments}) ->
    Arguments#{address := Address, tcp := Tcp#{reuseaddr => true}}.

%% A daemon that was killed leaves the name of its local socket behind; it was ours.
clear_place(#{address := {local, <<First, _/binary>> = Path}}) when First =/= 0 ->
    _ = file:delete(Path),
    ok;
clear_place(_Arguments) ->
    ok.

%% --- accepting -------------------------------------------------------------------------------

arrived(Connection, #state{waiters = Waiters0, ready = Ready} = State) ->
    case queue:out(Waiters0) of
        {{value, #waiter{from = {Pid, _}} = Waiter}, Waiters} ->
            case is_process_alive(Pid) of
                true ->
                    answer(Waiter, take_over(Pid, Connection, State)),
                    State#state{waiters = Waiters};
                false ->
                    stop_waiting(Waiter),
                    arrived(Connection, State#state{waiters = Waiters})
            end;
        {empty, _} ->
            case take_over(self(), Connection, State) of
                {ok, Socket} -> State#state{ready = queue:in(Socket, Ready)};
                {error, _} -> State
            end
    end.

take_over(Owner, Connection, #state{link = Link, stream = Stream, linger = Linger} = State) ->
    #etls_listener{face = Face} = State#state.socket,
    etls_socket:accepted(Face, Owner, {Link, Connection}, Stream, Linger).

%% As many accepts in the daemon as callers here.
balance(#state{listener = none} = State) ->
    State;
balance(#state{requests = Requests, waiters = Waiters} = State) ->
    Accepts = [Tag || {Tag, accept} <- maps:to_list(Requests)],
    case queue:len(Waiters) - length(Accepts) of
        0 -> State;
        More when More > 0 -> ask_accept(State);
        _ -> cancel(lists:max(Accepts), State)
    end.

ask_accept(#state{listener = Listener} = State) ->
    case request(accept, accept, #{listener => Listener}, State) of
        {ok, Asked} -> balance(Asked);
        % The monitor will say so, too.
        {error, closed} -> State
    end.

cancel(Tag, #state{requests = Requests} = State) ->
    Cancelled = State#state{requests = Requests#{Tag := cancelled}},
    case request(other, cancel, #{request => etls_protocol:id(self(), Tag)}, Cancelled) of
        {ok, Asked} -> balance(Asked);
        {error, closed} -> Cancelled
    end.

take_waiter(Monitor, #state{waiters = Waiters} = State) ->
    Is = fun(#waiter{monitor = Other}) -> Other =:= Monitor end,
    case lists:partition(Is, queue:to_list(Waiters)) of
        {[Waiter], Others} -> {Waiter, State#state{waiters = queue:from_list(Others)}};
        {[], _} -> none
    end.

answer(#waiter{from = From} = Waiter, Result) ->
    stop_waiting(Waiter),
    gen_server:reply(From, Result).

stop_waiting(#waiter{monitor = Monitor, timer = Timer}) ->
    true = demonitor(Monitor, [flush]),
    Timer =:= infinity orelse erlang:cancel_timer(Timer),
    ok.

refuse_waiters(Result, #state{waiters = Waiters} = State) ->
    lists:foreach(fun(Waiter) -> answer(Waiter, Result) end, queue:to_list(Waiters)),
    refuse_polls(Result, State#state{waiters = queue:new()}).

%% --- closing ---------------------------------------------------------------------------------

%% Answers when the daemon has closed, so that the port is free by then.
start_closing(State0) ->
    ok = etls_registry:leave(ref(State0)),
    State1 = refuse_waiters({error, closed}, State0),
    State =
        case State1#state.closer of
            none -> State1#state{closer = nobody};
            _ -> State1
        end,
    _ = erlang:send_after(?CLOSE_ANSWER, self(), closed_at_last),
    case lists:member(listen, maps:values(State#state.requests)) of
        % What its answer brings has to be closed.
        true -> {noreply, State};
        false -> ask_close(State)
    end.

ask_close(#state{listener = none} = State) ->
    {stop, normal, State};
ask_close(#state{listener = Listener} = State) ->
    case request(close, close, #{listener => Listener}, State) of
        {ok, Asked} -> {noreply, Asked};
        {error, closed} -> {stop, normal, State}
    end.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{listener = Listener, closer = Closer} = State0) ->
    ok = etls_registry:leave(ref(State0)),
    State = refuse_waiters({error, closed}, State0),
    case Closer of
        none when Listener =/= none ->
            % The application stops.
            _ = request(close, close, #{listener => Listener}, State),
            ok;
        {_, _} ->
            gen_server:reply(Closer, ok);
        _ ->
            ok
    end.

%% --- helpers ---------------------------------------------------------------------------------

set_tcp(Tcp, _State) when map_size(Tcp) =:= 0 -> ok;
set_tcp(_Tcp, #state{listener = none}) -> {error, econnaborted};
set_tcp(Tcp, #state{listener = Listener, link = #{pid := Daemon}}) ->
    % Rare, and the daemon answers it without waiting for anybody.
    case etls_daemon:ask(Daemon, set_options, #{listener => Listener, tcp => Tcp}) of
        ok -> ok;
        {error, Reason} -> {error, Reason}
    end.

request(_What, _Command, _Arguments, #state{link = none}) ->
    {error, closed};
request(What, Command, Arguments, #state{link = Link, requests = Requests} = State) ->
    Tag = erlang:unique_integer([positive, monotonic]),
    case etls_daemon:request(Link, Tag, Command, Arguments) of
        ok -> {ok, State#state{requests = Requests#{Tag => What}}};
        {error, closed} -> {error, closed}
    end.

now_ms() -> erlang:monotonic_time(millisecond).

ref(#state{socket = #etls_listener{ref = Ref}}) -> Ref.
