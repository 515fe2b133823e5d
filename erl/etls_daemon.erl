%% @private
%% Owns the link to etlsd: says hello, hands replies and events to the processes they are for, and
%% the daemon's log lines to logger. Requests do not pass through it: any process sends its own.
%%
%% It lives and dies with the daemon. Whoever depends on the daemon monitors this process, and all
%% that the daemon said before its end is delivered before the monitor fires.
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

-type tag() :: integer().

-record(state, {
    module :: module(),
    handle :: term(),
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
    Id = etls_protocol:id(self(), Tag),
    Module:send(Handle, etls_protocol:request(Id, Command, Arguments)).

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
    maybe_start([fun link_module/1, fun lane_module/1, fun config/1, fun open/1, fun hello/1], #{}).

%% Each step adds to what is known, or says why it cannot be.
maybe_start([], #{module := Module, handle := Handle} = Known) ->
    Link = maps:with([module, handle, lane_module, lane_address], Known),
    ok = etls_registry:put_link(Link#{pid => self()}),
    {ok, #state{module = Module, handle = Handle}};
maybe_start([Step | Steps], Known) ->
    case Step(Known) of
        {ok, More} -> maybe_start(Steps, maps:merge(Known, More));
        {error, Reason} -> {stop, Reason}
    end.

link_module(_) ->
    named(module, etls_link:module(env(link))).

lane_module(_) ->
    named(lane_module, etls_lane:module(env(lane))).

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
        [] -> {ok, #{config => #{threads => Threads, log_level => Level, args => Args}}};
        [Wrong | _] -> {error, {bad_env, Wrong}}
    end.

is_positive(Value) -> is_integer(Value) andalso Value > 0.

%% The values of etls.app.src, for when the modules run without the application's file.
env(link) -> application:get_env(etls, link, port);
env(lane) -> application:get_env(etls, lane, local);
env(daemon_threads) -> application:get_env(etls, daemon_threads, default);
env(log_level) -> application:get_env(etls, log_level, notice);
env(daemon_args) -> application:get_env(etls, daemon_args, []).

open(#{module := Module, config := Config}) ->
    named(handle, Module:open(Config)).

hello(#{module := Module, handle := Handle}) ->
    Arguments = #{protocol => etls_protocol:version()},
    case Module:send(Handle, etls_protocol:request(?HELLO_TAG, hello, Arguments)) of
        ok ->
            Timer = erlang:start_timer(?HELLO_TIMEOUT, self(), hello),
            Answer = await_hello(Module, Handle, Timer),
            _ = erlang:cancel_timer(Timer),
            Answer;
        {error, Reason} ->
            {error, {daemon, Reason}}
    end.

await_hello(Module, Handle, Timer) ->
    receive
        {timeout, Timer, hello} ->
            ok = Module:close(Handle),
            {error, {daemon, hello_timeout}};
        Message ->
            case Module:event(Handle, Message) of
                {frame, Frame} -> hello_frame(etls_protocol:decode(Frame), Module, Handle, Timer);
                {down, Reason} -> {error, {daemon, Reason}};
                unknown -> await_hello(Module, Handle, Timer)
            end
    end.

hello_frame({reply, {call, ?HELLO_TAG}, Result}, Module, Handle, _Timer) ->
    case Result of
        {ok, #{protocol := Protocol, lane := Lane} = Hello} ->
            ?LOG_INFO(
                "etlsd ~ts started, ~ts, ~b threads",
                [maps:get(Key, Hello) || Key <- [version, openssl, threads]],
                #{domain => [etls]}
            ),
            case etls_protocol:version() of
                Protocol ->
                    {ok, #{lane_address => Lane}};
                _ ->
                    ok = Module:close(Handle),
                    {error, {daemon, {protocol_version, Protocol}}}
            end;
        {error, Reason} ->
            ok = Module:close(Handle),
            {error, {daemon, Reason}};
        _ ->
            ok = Module:close(Handle),
            {error, {daemon, bad_hello}}
    end;
hello_frame({log, Level, Text}, Module, Handle, Timer) ->
    log(Level, Text),
    await_hello(Module, Handle, Timer);
hello_frame(_, Module, Handle, _Timer) ->
    ok = Module:close(Handle),
    {error, {daemon, bad_hello}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {reply, term(), #state{}}.
handle_call({call, Command, Arguments}, From, #state{next = Tag, calls = Calls} = State) ->
    Frame = etls_protocol:request(Tag, Command, Arguments),
    case (State#state.module):send(State#state.handle, Frame) of
        ok -> {noreply, State#state{next = Tag + 1, calls = Calls#{Tag => From}}};
        {error, closed} -> {reply, {error, econnaborted}, State}
    end;
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info(Message, #state{module = Module, handle = Handle} = State) ->
    case Module:event(Handle, Message) of
        {frame, Frame} -> {noreply, route(etls_protocol:decode(Frame), State)};
        {down, Reason} -> {stop, {daemon, Reason}, State};
        unknown -> {noreply, State}
    end.

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

-spec terminate(term(), #state{}) -> ok.
terminate(Reason, #state{module = Module, handle = Handle}) ->
    ok = etls_registry:drop_link(),
    case Reason of
        {daemon, _} ->
            ok;
        _ ->
            Frame = etls_protocol:request(?HELLO_TAG, stop, #{}),
            _ = Module:send(Handle, Frame),
            Timer = erlang:start_timer(?STOP_TIMEOUT, self(), stop),
            await_down(Module, Handle, Timer)
    end,
    Module:close(Handle).

await_down(Module, Handle, Timer) ->
    receive
        {timeout, Timer, stop} ->
            ok;
        Message ->
            case Module:event(Handle, Message) of
                {down, _} -> ok;
                _ -> await_down(Module, Handle, Timer)
            end
    end.
