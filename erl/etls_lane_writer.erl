%% @private
%% The sending half of a link lane: a process, since sends come from any process and each must stay
%% in one piece, wait for credit, and be carried over even when its socket has gone.
%%
%%   attaching ──credit──► sending ──(close, the socket's end: all that waits goes out)──► gone
%%       └── no such connection, the daemon's hangup or its end: every send is {error, closed} ──┘
-module(etls_lane_writer).

-behaviour(gen_server).

-export([start_link/1, send/2, set/2, shutdown/1, close/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, format_status/1]).

%% In one data term at most: the protocol's.
-define(MOST, 65536).

%% Idle lanes give their heap back, as their sockets do.
-define(HIBERNATE_AFTER, 10000).

%% A send, and what is left of it.
-record(job, {
    from :: gen_server:from() | none,
    pieces :: [binary()],
    size :: non_neg_integer(),
    begun = false :: boolean(),
    timer = none :: reference() | none
}).

-record(state, {
    conn :: integer(),
    socket :: pid(),
    socket_monitor :: reference(),
    daemon_monitor :: reference(),
    module :: module(),
    handle :: term(),
    attach :: etls_daemon:tag(),
    %% Bytes that may go out now; none before the daemon's answer.
    credit = 0 :: non_neg_integer(),
    jobs = queue:new() :: queue:queue(#job{}),
    send_timeout :: timeout(),
    %% What follows the last job.
    ending = no :: no | eof | hangup,
    eof_said = false :: boolean()
}).

-spec start_link(map()) -> gen_server:start_ret().
start_link(Start) ->
    gen_server:start_link(?MODULE, Start, [{hibernate_after, ?HIBERNATE_AFTER}]).

%% Returns when the link has all of it.
-spec send(pid(), [binary()]) -> ok | {error, closed | timeout}.
send(Writer, Pieces) ->
    try
        gen_server:call(Writer, {send, Pieces}, infinity)
    catch
        exit:_ -> {error, closed}
    end.

-spec set(pid(), [etls_lane:option()]) -> ok.
set(Writer, Options) -> gen_server:cast(Writer, {set, Options}).

-spec shutdown(pid()) -> ok.
shutdown(Writer) -> gen_server:cast(Writer, {ending, eof}).

-spec close(pid()) -> ok.
close(Writer) -> gen_server:cast(Writer, {ending, hangup}).

-spec init(map()) -> {ok, #state{}} | {stop, normal}.
init(#{link := Link, conn := Conn, socket := Socket, options := Options}) ->
    % What is under way when the application stops goes out first.
    process_flag(trap_exit, true),
    #{pid := Daemon, module := Module, handle := Handle} = Link,
    Tag = erlang:unique_integer([positive]),
    ok = etls_registry:put_lane(Conn, Socket, self()),
    State = #state{
        conn = Conn,
        socket = Socket,
        socket_monitor = monitor(process, Socket),
        daemon_monitor = monitor(process, Daemon),
        module = Module,
        handle = Handle,
        attach = Tag,
        send_timeout = proplists:get_value(send_timeout, Options, infinity)
    },
    case etls_daemon:request(Link, Tag, attach, #{conn => Conn}) of
        ok -> {ok, State};
        {error, closed} ->
            % No terminate/2 after this.
            ok = etls_registry:drop_lane(Conn, Socket, self()),
            {stop, normal}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {stop, term(), #state{}} | {reply, term(), #state{}}.
handle_call({send, _Pieces}, _From, #state{ending = Ending} = State) when Ending =/= no ->
    {reply, {error, closed}, State};
handle_call({send, Pieces}, From, #state{jobs = Jobs, send_timeout = Timeout} = State) ->
    Job = #job{from = From, pieces = Pieces, size = iolist_size(Pieces)},
    case go_on(State#state{jobs = queue:in(Job, Jobs)}) of
        {noreply, Waiting} -> {noreply, watch(From, Timeout, Waiting)};
        Stop -> Stop
    end;
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

%% Only a send that waits needs its time watched.
watch(_From, infinity, State) ->
    State;
watch(From, Timeout, #state{jobs = Jobs} = State) ->
    case queue:peek_r(Jobs) of
        {value, #job{from = From} = Job} ->
            Timed = Job#job{timer = erlang:start_timer(Timeout, self(), {job, From})},
            State#state{jobs = queue:in(Timed, queue:drop_r(Jobs))};
        _ ->
            State
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_cast({set, Options}, #state{send_timeout = Timeout} = State) ->
    {noreply, State#state{send_timeout = proplists:get_value(send_timeout, Options, Timeout)}};
handle_cast({ending, hangup}, State) ->
    go_on(State#state{ending = hangup});
handle_cast({ending, eof}, #state{ending = no} = State) ->
    go_on(State#state{ending = eof});
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({etls_lane, _Conn, {credit, Bytes}}, #state{credit = Credit} = State) ->
    go_on(State#state{credit = Credit + Bytes});
handle_info({etls_lane, _Conn, hangup}, State) ->
    {stop, normal, State};
handle_info({etls_reply, Tag, Result}, #state{attach = Tag, credit = Credit} = State) ->
    case Result of
        {ok, #{credit := Bytes}} ->
            go_on(State#state{credit = Credit + Bytes});
        {error, _} ->
            % As if it had been there, and gone.
            State#state.socket ! {etls_lane, State#state.conn, hangup},
            {stop, normal, State}
    end;
handle_info({timeout, _Timer, {job, From}}, State) ->
    go_on(time_out(From, State));
handle_info({'DOWN', Monitor, process, _, _}, #state{socket_monitor = Monitor} = State) ->
    go_on(State#state{ending = hangup});
handle_info({'DOWN', Monitor, process, _, _}, #state{daemon_monitor = Monitor} = State) ->
    {stop, normal, State};
handle_info(_Message, State) ->
    {noreply, State}.

%% A send of which nothing went out is taken back; of another one the rest must follow, or what
%% comes next would be misread.
time_out(From, #state{jobs = Jobs0} = State) ->
    Jobs = queue:filter(
        fun
            (#job{from = Other} = Job) when Other =:= From ->
                gen_server:reply(From, {error, timeout}),
                case Job#job.begun of
                    true -> [Job#job{from = none, timer = none}];
                    false -> []
                end;
            (_) ->
                true
        end,
        Jobs0
    ),
    State#state{jobs = Jobs}.

%% Sends what the credit allows, and then what is to follow.
go_on(#state{jobs = Jobs0, credit = Credit} = State) ->
    case queue:out(Jobs0) of
        {{value, #job{size = 0} = Job}, Jobs} ->
            done(Job),
            go_on(State#state{jobs = Jobs});
        {{value, Job}, Jobs} when Credit > 0 ->
            #job{pieces = Pieces, size = Size} = Job,
            Most = lists:min([Size, Credit, ?MOST]),
            {Portion, Rest} = take(Most, Pieces, []),
            case lane({data, State#state.conn, Portion}, State) of
                ok ->
                    Left = Job#job{pieces = Rest, size = Size - Most, begun = true},
                    go_on(State#state{jobs = queue:in_r(Left, Jobs), credit = Credit - Most});
                {error, closed} ->
                    {stop, normal, State}
            end;
        {{value, _}, _} ->
            {noreply, State};
        {empty, _} ->
            finish(State)
    end.

finish(#state{ending = no} = State) ->
    {noreply, State};
finish(#state{eof_said = false, conn = Conn} = State) ->
    case lane({eof, Conn}, State) of
        ok -> finish(State#state{eof_said = true});
        {error, closed} -> {stop, normal, State}
    end;
finish(#state{ending = eof} = State) ->
    {noreply, State};
finish(#state{ending = hangup, conn = Conn} = State) ->
    _ = lane({hangup, Conn}, State),
    {stop, normal, State}.

lane(Term, #state{module = Module, handle = Handle}) ->
    Module:lane(Handle, Term).

done(#job{from = none}) ->
    ok;
done(#job{from = From, timer = Timer}) ->
    Timer =:= none orelse erlang:cancel_timer(Timer),
    gen_server:reply(From, ok).

%% The first Count bytes of Pieces, which have as many, and the others.
take(0, Pieces, Taken) ->
    {lists:reverse(Taken), Pieces};
take(Count, [Piece | Pieces], Taken) when byte_size(Piece) =< Count ->
    take(Count - byte_size(Piece), Pieces, [Piece | Taken]);
take(Count, [Piece | Pieces], Taken) ->
    <<First:Count/binary, Rest/binary>> = Piece,
    {lists:reverse(Taken, [First]), [Rest | Pieces]}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{conn = Conn, socket = Socket, jobs = Jobs}) ->
    ok = etls_registry:drop_lane(Conn, Socket, self()),
    lists:foreach(
        fun
            (#job{from = none}) -> ok;
            (#job{from = From}) -> gen_server:reply(From, {error, closed})
        end,
        queue:to_list(Jobs)
    ).

%% A connection's plaintext is not for logs and crash reports.
-spec format_status(gen_server:format_status()) -> gen_server:format_status().
format_status(Status) ->
    maps:map(
        fun
            (state, #state{conn = Conn, credit = Credit, jobs = Jobs, ending = Ending}) ->
                #{conn => Conn, credit => Credit, sends => queue:len(Jobs), ending => Ending};
            (Key, _) when Key =:= message; Key =:= log -> hidden;
            (_Key, Value) -> Value
        end,
        Status
    ).
