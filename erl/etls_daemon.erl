%% @private
%% Owns the link to etlsd: says hello, hands replies, events and the data of link lanes to the
%% processes they are for, and the daemon's log lines to logger. Requests do not pass through it:
%% any process sends its own.
%%
%%   (start) ──────────► linked ──the link ends──► (gone)
%%   (start again) ─► waiting ─┘     restarted by the supervisor
%%
%% It lives and dies with the link. Whoever depends on the daemon monitors this process, and all
%% that the daemon said before its end is delivered before the monitor fires. At the application's
%% start a daemon that cannot be had is an error; later it is waited for.
-module(etls_daemon).

-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/0, request/4, call/2, call/3, ask/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([tag/0]).

%% The daemon answers hello within milliseconds; under a sanitizer on a busy machine within
%% seconds. One that does not is no use.
-define(HELLO_TIMEOUT, 10000).

%% Commands made with call/2 do no network I/O: an answer that takes this long will not come.
-define(CALL_TIMEOUT, 10000).

%% After `stop' the daemon says close_notify on each connection and exits.
-define(STOP_TIMEOUT, 2000).

-define(HELLO_TAG, 0).

%% Between two attempts to get a daemon again, milliseconds: at first, and at most.
-define(FIRST_PAUSE, 20).
-define(LONGEST_PAUSE, 5000).

-type tag() :: integer().

-record(state, {
    %% Until there is a link.
    pause = ?FIRST_PAUSE :: pos_integer(),
    failure = none :: term(),
    %% From then on.
    module = none :: module() | none,
    handle = none :: term(),
    calls = #{} :: #{tag() => gen_server:from()},
    next = 1 :: tag()
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Sends a command. The calling process will get {etls_reply, Tag, etls_protocol:result()}, unless
%% the link's process ends before.
-spec request(etls_registry:link(), tag(), etls_protocol:command(), etls_protocol:arguments()) ->
    ok | {error, closed}.
request(#{module := Module, handle := Handle}, Tag, Command, Arguments) ->
    Module:request(Handle, etls_protocol:id(self(), Tag), Command, Arguments).

%% Sends a command and waits for its reply.
-spec call(etls_protocol:command(), etls_protocol:arguments()) -> etls_protocol:result().
call(Command, Arguments) ->
    call(Command, Arguments, ?CALL_TIMEOUT).

-spec call(etls_protocol:command(), etls_protocol:arguments(), timeout()) ->
    etls_protocol:result().
call(Command, Arguments, Timeout) ->
    call(?MODULE, Command, Arguments, Timeout, not_started).

%% Asks this daemon and no later one, to whom the numbers of connections and listeners mean others.
-spec ask(pid(), etls_protocol:command(), etls_protocol:arguments()) -> etls_protocol:result().
ask(Daemon, Command, Arguments) ->
    call(Daemon, Command, Arguments, ?CALL_TIMEOUT, econnaborted).

call(Daemon, Command, Arguments, Timeout, Absent) ->
    try
        gen_server:call(Daemon, {call, Command, Arguments}, Timeout)
    catch
        exit:{timeout, _} -> {error, timeout};
        exit:{noproc, _} -> {error, Absent};
        exit:_ -> {error, econnaborted}
    end.

-spec init([]) -> {ok, #state{}} | {stop, term()}.
init([]) ->
    process_flag(trap_exit, true),
    _ = etls_protocol:known_atoms(),
    ok = etls_registry:drop_link(),
    case etls_registry:was_linked() of
        true ->
            self() ! attempt,
            {ok, #state{}};
        false ->
            case get_link() of
                {ok, State} -> {ok, State};
                {error, Reason} -> {stop, Reason}
            end
    end.

get_link() ->
    Steps = [
        fun link_module/1,
        fun lane_choice/1,
        fun config/1,
        fun open/1,
        fun hello/1,
        fun lanes/1
    ],
    take_steps(Steps, #{}).

%% Each step adds to what is known, or says why it cannot be.
take_steps([], #{module := Module, handle := Handle} = Known) ->
    Link = maps:with([module, handle, lane, lane_address, lane_reachable], Known),
    ok = etls_registry:put_link(Link#{pid => self()}),
    {ok, #state{module = Module, handle = Handle}};
take_steps([Step | Steps], Known) ->
    case Step(Known) of
        {ok, More} ->
            take_steps(Steps, maps:merge(Known, More));
        {error, Reason} ->
            ok = let_go(Known),
            {error, Reason}
    end.

let_go(#{module := Module, handle := Handle}) -> Module:close(Handle);
let_go(_) -> ok.

link_module(_) ->
    named(module, etls_link:module(env(link))).

lane_choice(_) ->
    Choice = env(lane),
    case etls_lane:check(Choice) of
        ok -> {ok, #{lane => Choice}};
        {error, Reason} -> {error, Reason}
    end.

named(Key, {ok, Value}) -> {ok, #{Key => Value}};
named(_Key, {error, Reason}) -> {error, Reason}.

config(_) ->
    Threads = env(daemon_threads),
    Level = env(log_level),
    Args = env(daemon_args),
    Checks = [
        {daemon_threads, Threads, Threads =:= default orelse is_positive(Threads)},
        {log_level, Level, lists:member(Level, [error, warning, notice, info, debug])},
        {daemon_args, Args, is_list(Args) andalso lists:all(fun is_list/1, Args)}
    ],
    case [{Key, Value} || {Key, Value, false} <- Checks] of
        [] ->
            Config = #{link => env(link), threads => Threads, log_level => Level, args => Args},
            {ok, #{config => Config}};
        [Wrong | _] -> {error, {bad_env, Wrong}}
    end.

is_positive(Value) -> is_integer(Value) andalso Value > 0.

%% The values of etls.app.src, for when the modules run without the application's file.
env(link) -> application:get_env(etls, link, port);
env(lane) -> application:get_env(etls, lane, auto);
env(daemon_threads) -> application:get_env(etls, daemon_threads, default);
env(log_level) -> application:get_env(etls, log_level, notice);
env(daemon_args) -> application:get_env(etls, daemon_args, []).

open(#{module := Module, config := Config}) ->
    case Module:open(Config) of
        {ok, Handle} -> {ok, #{handle => Handle}};
        {error, Reason} -> {error, {daemon, Reason}}
    end.

hello(#{module := Module, handle := Handle}) ->
    Arguments = #{protocol => etls_protocol:version()},
    case Module:request(Handle, ?HELLO_TAG, hello, Arguments) of
        ok ->
            Timer = erlang:start_timer(?HELLO_TIMEOUT, self(), hello),
            Answer = await_hello(Module, Handle, Timer),
            _ = erlang:cancel_timer(Timer),
            Answer;
        {error, Reason} ->
            {error, {daemon, Reason}}
    end.

%% Leaves in the mailbox what is not the link's: callers who came early are answered afterwards, and
%% so is the supervisor that wants it to stop. (A link has no pid to hear the exit of before it was
%% greeted.)
await_hello(Module, Handle, Timer) ->
    receive
        {timeout, Timer, hello} ->
            {error, {daemon, hello_timeout}};
        Message when
            element(1, Message) =/= '$gen_call',
            not (element(1, Message) =:= 'EXIT' andalso is_pid(element(2, Message)))
        ->
            case Module:event(Handle, Message) of
                {said, {reply, {call, ?HELLO_TAG}, Result}} ->
                    greeted(Result, Module, Handle);
                {said, {log, Level, Text}} ->
                    log(Level, Text),
                    await_hello(Module, Handle, Timer);
                {said, _} ->
                    {error, {daemon, bad_hello}};
                {down, Reason} ->
                    {error, {daemon, Reason}};
                unknown ->
                    await_hello(Module, Handle, Timer)
            end
    end.

greeted({ok, #{protocol := Protocol, lane := Lane} = Hello}, Module, Handle) ->
    ?LOG_INFO(
        "etlsd ~ts started, ~ts, ~b threads",
        [maps:get(Key, Hello) || Key <- [version, openssl, threads]],
        #{domain => [etls]}
    ),
    case etls_protocol:version() of
        Protocol ->
            ok = Module:greeted(Handle, Hello),
            {ok, #{lane_address => Lane}};
        _ ->
            {error, {daemon, {protocol_version, Protocol}}}
    end;
greeted({error, Reason}, _Module, _Handle) ->
    {error, {daemon, Reason}};
greeted(_, _Module, _Handle) ->
    {error, {daemon, bad_hello}}.

%% Local lanes are possible where the daemon's socket is on this host, in a directory of our user's.
lanes(#{lane := Choice, lane_address := {local, Path}}) ->
    case {file:read_file_info(Path), Choice} of
        {{ok, _}, _} -> {ok, #{lane_reachable => true}};
        {{error, _}, local} -> {error, {daemon, {lane_unreachable, Path}}};
        {{error, _}, _} -> {ok, #{lane_reachable => false}}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {reply, term(), #state{}}.
handle_call({call, _Command, _Arguments}, _From, #state{module = none} = State) ->
    {reply, {error, econnaborted}, State};
handle_call({call, Command, Arguments}, From, #state{next = Tag, calls = Calls} = State) ->
    case (State#state.module):request(State#state.handle, Tag, Command, Arguments) of
        ok -> {noreply, State#state{next = Tag + 1, calls = Calls#{Tag => From}}};
        {error, closed} -> {reply, {error, econnaborted}, State}
    end;
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info(attempt, #state{module = none} = State) ->
    {noreply, attempt(State)};
handle_info(_Message, #state{module = none} = State) ->
    % Late words of a link that is over.
    {noreply, State};
handle_info(Message, #state{module = Module, handle = Handle} = State) ->
    case Module:event(Handle, Message) of
        {said, Said} -> {noreply, route(Said, State)};
        {down, Reason} -> {stop, {daemon, Reason}, State};
        unknown -> {noreply, State}
    end.

attempt(#state{pause = Pause, failure = Before} = State) ->
    case get_link() of
        {ok, Linked} ->
            Before =:= none orelse
                ?LOG_NOTICE("etls: the daemon is there again", [], #{domain => [etls]}),
            Linked;
        {error, Reason} ->
            Reason =:= Before orelse
                ?LOG_ERROR(
                    "etls: no daemon, trying again and again: ~0tp", [Reason], #{domain => [etls]}
                ),
            _ = erlang:send_after(Pause, self(), attempt),
            State#state{pause = min(2 * Pause, ?LONGEST_PAUSE), failure = Reason}
    end.

route({lane, Conn, What}, State) ->
    case etls_registry:lane(Conn) of
        {Socket, Writer} -> to_lane(What, {etls_lane, Conn, What}, Socket, Writer);
        none -> ok
    end,
    State;
route({reply, {process, Pid, Tag}, Result}, State) ->
    Pid ! {etls_reply, Tag, Result},
    State;
route({event, Pid, Tag, Event}, State) ->
    Pid ! {etls_event, Tag, Event},
    State;
route({reply, {call, Tag}, Result}, #state{calls = Calls0} = State) ->
    case maps:take(Tag, Calls0) of
        {From, Calls} ->
            gen_server:reply(From, Result),
            State#state{calls = Calls};
        error ->
            State
    end;
route({log, Level, Text}, State) ->
    log(Level, Text),
    State;
route({error, bad_frame}, State) ->
    ?LOG_WARNING("etlsd sent a frame that makes no sense", [], #{domain => [etls]}),
    State.

log(Level, Text) ->
    ?LOG(Level, "etlsd: ~ts", [Text], #{domain => [etls]}).

to_lane({credit, _}, Message, _Socket, Writer) ->
    Writer ! Message,
    ok;
to_lane(hangup, Message, Socket, Writer) ->
    Socket ! Message,
    Writer ! Message,
    ok;
to_lane(_, Message, Socket, _Writer) ->
    Socket ! Message,
    ok.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{module = none}) ->
    ok;
terminate(Reason, #state{module = Module, handle = Handle}) ->
    ok = etls_registry:drop_link(),
    case Reason of
        {daemon, _} ->
            ok;
        _ ->
            _ = Module:request(Handle, ?HELLO_TAG, stop, #{}),
            Module:await_stop(Handle, ?STOP_TIMEOUT)
    end,
    Module:close(Handle).
