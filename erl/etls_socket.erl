%% @private
%% One connection, from its first command to its last reply. It reads the lane and hands out what
%% came; sending goes past it (etls:send/2).
%%
%%   client   connecting ───────────────► handshaking ───► open ───► closing ───► (gone)
%%                │ timeout, owner died        │ timeout,     told the end, and
%%                ▼                            ▼ failure      nothing more to say ──► (gone)
%%            cancelling ──► (gone)          (gone)
%%
%%   server   accepted ─── handshake/1 ──► handshaking ───► open ───► ...
%%
%% From `accepted' on, the lane is opened beside whatever else goes on; `open' needs both it and the
%% handshake. The end of the peer's data is the reader's affair (etls_reader), and does not change
%% the state: data may wait to be read long after it.
-module(etls_socket).

-behaviour(gen_statem).

-include_lib("kernel/include/logger.hrl").
-include("etls_internal.hrl").

-export([start_link/1, connect/5, accepted/5, handshake/2, call/2, adopt/2, abort/1]).
-export([change_stream/2, stream_option/2]).
-export([init/1, callback_mode/0, terminate/3, format_status/1]).
-export([connecting/3, cancelling/3, accepted/3, handshaking/3, open/3, closing/3]).

-export_type([connection/0]).

%% A connection to be had while the daemon is being restarted waits for it: a restart takes tens
%% of milliseconds, and one that takes this long has failed.
-define(DAEMON_WAIT, 5000).
-define(DAEMON_POLL, 20).

%% The daemon's backlog for lanes can be full for a moment.
-define(LANE_POLL, 10).
-define(LANE_TRIES, 200).

%% close/1 answers when the daemon has closed the connection, or after this time at the latest: a
%% peer that does not read can make the rest take long.
-define(CLOSE_ANSWER, 5000).

%% The daemon sets an option at once; one that takes this long hangs.
-define(OPTION_ANSWER, 5000).

%% The daemon gives a graceful close up when the peer took nothing for so long.
-define(CLOSE_STALL, 30000).

%% When the daemon is gone its side of the lane is closed by the kernel at once.
-define(LANE_END, 5000).

%% Idle connections give their heap back.
-define(HIBERNATE_AFTER, 10000).

-type connection() :: #{
    conn := integer(), token := binary(), peer := term(), local := term()
}.
-type request() ::
    connect
    | {handshake, timeout()}
    | {recv, non_neg_integer(), timeout()}
    | {setopts, etls_options:changes()}
    | {getopts, [atom()]}
    | {shutdown, read | write | read_write}
    | {give, pid()}
    | resume
    | close.

-record(data, {
    socket :: #etls_socket{},
    tags :: etls_face:tags(),
    owner :: pid(),
    owner_monitor :: reference(),
    %% Who is handing the socket over to another owner.
    giver = none :: none | reference(),
    link = none :: none | etls_registry:link(),
    daemon_monitor = none :: none | reference(),
    %% Requests that are not answered yet.
    requests = #{} :: #{etls_daemon:tag() => term()},
    %% What connect asks for; dropped when it has it.
    arguments = none :: none | map(),
    conn = none :: none | integer(),
    facts = #{} :: map(),
    %% Who waits in connect or handshake.
    caller = none :: none | gen_statem:from(),
    subject :: etls_daemon:tag(),
    info = none :: none | map(),
    lane = none :: none | {opening, Token :: binary(), Tries :: integer()} | {lane, term()},
    lane_module = none :: module() | none,
    armed = false :: boolean(),
    %% Bytes that came last over the lane.
    last = 0 :: non_neg_integer(),
    stream :: #stream{},
    linger :: {boolean(), non_neg_integer()},
    reader :: etls_reader:reader(),
    %% Who waits in recv, and the monitor on it.
    receivers = #{} :: #{gen_statem:from() => reference()},
    may_send = false :: boolean(),
    %% Was our end of data put on the lane?
    lane_shut = false :: boolean(),
    %% Was the daemon told that we are done with the connection?
    released = false :: boolean(),
    closers = [] :: [gen_statem:from()]
}).

%% --- from other processes --------------------------------------------------------------------

-spec start_link(map()) -> gen_statem:start_ret().
start_link(Start) ->
    gen_statem:start_link(?MODULE, Start, [{hibernate_after, ?HIBERNATE_AFTER}]).

%% Arguments are the protocol's; returns when the handshake is over.
-spec connect(etls_face:face(), map(), #stream{}, {boolean(), non_neg_integer()}, timeout()) ->
    {ok, #etls_socket{}} | {error, term()}.
connect(Face, Arguments, Stream, Linger, Timeout) ->
    Deadline = deadline(Timeout),
    Start = #{
        face => Face,
        owner => self(),
        role => {client, Arguments},
        stream => Stream,
        linger => Linger
    },
    case start(Start) of
        {ok, Socket} ->
            case call(Socket, {connect, remaining(Deadline)}) of
                ok -> {ok, Socket};
                {error, Reason} -> {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% Takes over a connection that the daemon accepted. The lane is opened at once.
-spec accepted(
    etls_face:face(), pid(), {etls_registry:link(), connection()}, #stream{}, {boolean(), integer()}
) -> {ok, #etls_socket{}} | {error, term()}.
accepted(Face, Owner, {Link, Connection}, Stream, Linger) ->
    start(#{
        face => Face,
        owner => Owner,
        role => {server, Link, Connection},
        stream => Stream,
        linger => Linger
    }).

start(#{face := Face} = Start) ->
    Ref = make_ref(),
    try supervisor:start_child(etls_socket_sup, [Start#{ref => Ref}]) of
        {ok, Pid} when is_pid(Pid) -> {ok, #etls_socket{pid = Pid, ref = Ref, face = Face}};
        {error, Reason} -> {error, Reason}
    catch
        exit:_ -> {error, not_started}
    end.

-spec handshake(#etls_socket{}, timeout()) -> ok | {error, term()}.
handshake(Socket, Timeout) ->
    call(Socket, {handshake, Timeout}).

-spec call(#etls_socket{}, request() | {connect, timeout()}) -> term().
call(#etls_socket{pid = Pid, ref = Ref}, Request) ->
    case etls_registry:is_known(Ref) of
        true ->
            try
                % The socket keeps the time, so that no answer comes late.
                gen_statem:call(Pid, {Ref, Request}, infinity)
            catch
                exit:_ -> {error, closed}
            end;
        false ->
            {error, closed}
    end.

%% A new owner for a socket whose owner has not told anybody of it.
-spec adopt(#etls_socket{}, pid()) -> ok.
adopt(#etls_socket{pid = Pid, ref = Ref}, Owner) ->
    gen_statem:cast(Pid, {Ref, {adopt, Owner}}).

%% Ends the connection without waiting for what was sent.
-spec abort(#etls_socket{}) -> ok.
abort(#etls_socket{pid = Pid, ref = Ref}) ->
    ok = etls_registry:refuse_sending(Ref),
    gen_statem:cast(Pid, {Ref, abort}).

deadline(infinity) -> infinity;
deadline(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

remaining(infinity) -> infinity;
remaining(Deadline) -> max(0, Deadline - erlang:monotonic_time(millisecond)).

%% --- beginning -------------------------------------------------------------------------------

-spec callback_mode() -> state_functions.
callback_mode() -> state_functions.

-spec init(map()) -> gen_statem:init_result(connecting | accepted).
init(#{ref := Ref, face := Face, owner := Owner, role := Role} = Start) ->
    process_flag(trap_exit, true),
    #{stream := Stream, linger := Linger} = Start,
    ok = etls_registry:enter(Ref, opening, #{}),
    Data = #data{
        socket = #etls_socket{pid = self(), ref = Ref, face = Face},
        tags = etls_face:tags(Face),
        owner = Owner,
        owner_monitor = monitor(process, Owner),
        subject = erlang:unique_integer([positive]),
        stream = Stream,
        linger = Linger,
        reader = etls_reader:new(Stream)
    },
    case Role of
        {client, Arguments} ->
            {ok, connecting, Data#data{arguments = Arguments}};
        {server, Link, Connection} ->
            Connected = connected(Connection, with_link(Link, Data)),
            {ok, accepted, Connected, open_lane_now()}
    end.

with_link(#{pid := Pid} = Link, #data{stream = #stream{lane = Choice}} = Data) ->
    Linked = Data#data{link = Link, daemon_monitor = monitor(process, Pid)},
    case etls_lane:module(Choice, Link) of
        {ok, Module} -> Linked#data{lane_module = Module};
        {error, unreachable} -> Linked#data{lane_module = none}
    end.

connected(#{conn := Conn, token := Token, peer := Peer, local := Local}, Data) ->
    #{pid := Daemon} = Data#data.link,
    Facts = #{conn => Conn, daemon => Daemon, peer => Peer, local => Local},
    ok = etls_registry:update(ref(Data), Facts),
    Data#data{
        conn = Conn, facts = Facts, lane = {opening, Token, ?LANE_TRIES}, arguments = none
    }.

open_lane_now() -> [{next_event, internal, open_lane}].

%% --- connecting: TCP, by the daemon ----------------------------------------------------------

-spec connecting(gen_statem:event_type(), term(), #data{}) ->
    gen_statem:event_handler_result(atom()).
connecting({call, From}, {_, {connect, Timeout}}, Data) ->
    Wait = [{{timeout, daemon}, ?DAEMON_WAIT, none}, deadline_action(Timeout)],
    try_connect(Data#data{caller = From}, Wait);
connecting({timeout, poll}, none, Data) ->
    try_connect(Data, []);
connecting({timeout, daemon}, none, Data) ->
    give_up({error, econnaborted}, Data);
connecting({timeout, deadline}, none, Data) ->
    cancel(reply_caller({error, timeout}, Data));
connecting(info, {'DOWN', Monitor, process, _, _}, #data{owner_monitor = Monitor} = Data) ->
    cancel(Data#data{caller = none});
connecting(info, {'DOWN', Monitor, process, _, _}, #data{daemon_monitor = Monitor} = Data) ->
    give_up({error, econnaborted}, Data);
connecting(info, {etls_reply, Tag, Result}, Data) ->
    case answered(Tag, Result, Data) of
        {connect, {ok, Connection}, Data1} ->
            start_handshake(connected(Connection, Data1), open_lane_now());
        {connect, {error, Reason}, Data1} ->
            give_up({error, Reason}, Data1);
        {_, _, Data1} ->
            {keep_state, Data1}
    end;
connecting(Type, Content, Data) ->
    early(Type, Content, Data).

try_connect(#data{arguments = Arguments} = Data, Actions) ->
    case etls_registry:link() of
        none ->
            {keep_state, Data, [{{timeout, poll}, ?DAEMON_POLL, none} | Actions]};
        #{} = Link ->
            Linked = with_link(Link, Data),
            case ask_connect(Arguments, Linked) of
                {error, unreachable} ->
                    give_up({error, {options, {lane, unreachable}}}, Linked);
                {ok, Asked} ->
                    {keep_state, Asked, Actions ++ [{{timeout, daemon}, cancel}]};
                {error, closed} ->
                    {keep_state, Data, [{{timeout, poll}, ?DAEMON_POLL, none} | Actions]}
            end
    end.

ask_connect(_Arguments, #data{lane_module = none}) ->
    {error, unreachable};
ask_connect(Arguments, Data) ->
    request(connect, connect, Arguments, Data).

%% The connect's answer may be on its way: then what it brings has to be closed.
cancel(#data{requests = Requests} = Data) ->
    ok = etls_registry:leave(ref(Data)),
    case [Tag || {Tag, connect} <- maps:to_list(Requests)] of
        [Tag] ->
            Id = etls_protocol:id(self(), Tag),
            _ = request(cancel, cancel, #{request => Id}, Data),
            {next_state, cancelling, Data, [{{timeout, deadline}, cancel}]};
        [] ->
            {stop, normal, Data}
    end.

-spec cancelling(gen_statem:event_type(), term(), #data{}) ->
    gen_statem:event_handler_result(atom()).
cancelling(info, {etls_reply, Tag, Result}, Data) ->
    case answered(Tag, Result, Data) of
        {connect, {ok, #{conn := Conn}}, Data1} -> gone(Data1#data{conn = Conn});
        {connect, {error, _}, Data1} -> {stop, normal, Data1};
        {_, _, Data1} -> {keep_state, Data1}
    end;
cancelling(info, {'DOWN', Monitor, process, _, _}, #data{daemon_monitor = Monitor} = Data) ->
    {stop, normal, Data};
cancelling({call, From}, {_, close}, _Data) ->
    {keep_state_and_data, [{reply, From, ok}]};
cancelling({call, From}, _Request, _Data) ->
    {keep_state_and_data, [{reply, From, {error, closed}}]};
cancelling(_Type, _Content, _Data) ->
    keep_state_and_data.

%% --- accepted: TCP is there, nobody asked for the handshake yet ------------------------------

-spec accepted(gen_statem:event_type(), term(), #data{}) ->
    gen_statem:event_handler_result(atom()).
accepted({call, From}, {Ref, {handshake, Timeout}}, #data{socket = Socket} = Data) when
    Ref =:= Socket#etls_socket.ref
->
    start_handshake(Data#data{caller = From}, [deadline_action(Timeout)]);
accepted(Type, Content, Data) ->
    early(Type, Content, Data).

%% --- handshaking: waiting for the daemon's answer and for the lane ---------------------------

start_handshake(#data{conn = Conn, subject = Subject} = Data, Actions) ->
    Arguments = #{conn => Conn, subject => etls_protocol:id(self(), Subject)},
    case request(handshake, handshake, Arguments, Data) of
        {ok, Asked} -> {next_state, handshaking, Asked, Actions};
        {error, closed} -> give_up({error, econnaborted}, Data)
    end.

-spec handshaking(gen_statem:event_type(), term(), #data{}) ->
    gen_statem:event_handler_result(atom()).
handshaking(info, {etls_reply, Tag, Result}, Data) ->
    case answered(Tag, Result, Data) of
        {handshake, {ok, Info}, Data1} -> maybe_open(Data1#data{info = Info});
        {handshake, {error, Reason}, Data1} -> give_up({error, Reason}, Data1#data{conn = none});
        {What, Answer, Data1} -> option_answered(What, Answer, Data1)
    end;
handshaking(info, {Early, _, _}, _Data) when Early =:= etls_event; Early =:= etls_lane ->
    % The end came before the lane, or before the handshake's answer: it is for `open' to tell.
    {keep_state_and_data, [postpone]};
handshaking({call, From}, {_, {handshake, _}}, _Data) ->
    {keep_state_and_data, [{reply, From, {error, ealready}}]};
handshaking({timeout, deadline}, none, Data) ->
    give_up({error, timeout}, Data);
handshaking(Type, Content, Data) ->
    early(Type, Content, Data).

%% What `accepted', `handshaking' and in part `connecting' have in common: nothing was sent or
%% received, so that whatever ends them ends the connection at once.
early(internal, open_lane, Data) ->
    open_lane(Data);
early({timeout, lane}, none, Data) ->
    open_lane(Data);
early(info, {etls_lane, _, _}, _Data) ->
    {keep_state_and_data, [postpone]};
early(info, {'DOWN', Monitor, process, _, _}, #data{owner_monitor = Monitor} = Data) ->
    give_up({error, closed}, Data);
early(info, {'DOWN', Monitor, process, _, _}, #data{daemon_monitor = Monitor} = Data) ->
    give_up({error, econnaborted}, Data);
early(info, {etls_reply, Tag, Result}, Data) ->
    {What, Answer, Data1} = answered(Tag, Result, Data),
    option_answered(What, Answer, Data1);
early({call, From}, {_, close}, Data) ->
    % Unknown first, so that nobody who heard the answer finds the socket still alive.
    ok = etls_registry:leave(ref(Data)),
    gen_statem:reply(From, ok),
    give_up({error, closed}, Data);
early(cast, {_, abort}, Data) ->
    give_up({error, closed}, Data);
early({call, From}, {_, {recv, _, _}}, _Data) ->
    {keep_state_and_data, [{reply, From, {error, enotconn}}]};
early({call, From}, {_, {shutdown, _}}, _Data) ->
    {keep_state_and_data, [{reply, From, {error, enotconn}}]};
early(Type, Content, Data) ->
    common(Type, Content, Data).

open_lane(#data{lane_module = none} = Data) ->
    ?LOG_WARNING("etls: the daemon's lane socket is out of reach", [], #{domain => [etls]}),
    give_up({error, {options, {lane, unreachable}}}, Data);
open_lane(#data{lane = {opening, Token, Tries}, lane_module = Module, conn = Conn} = Data) ->
    Place = #{link => Data#data.link, conn => Conn, token => Token},
    case Module:open(Place, lane_options(Data#data.stream)) of
        {ok, Lane} ->
            maybe_open(Data#data{lane = {lane, Lane}});
        {error, eagain} when Tries > 0 ->
            Again = Data#data{lane = {opening, Token, Tries - 1}},
            {keep_state, Again, [{{timeout, lane}, ?LANE_POLL, none}]};
        {error, Reason} ->
            % The daemon is dead, which its own end tells, or something is in the way that an
            % operator must know.
            lists:member(Reason, [econnrefused, econnreset, epipe, closed]) orelse
                ?LOG_WARNING("etls: no lane to the daemon: ~0tp", [Reason], #{domain => [etls]}),
            give_up({error, econnaborted}, Data)
    end.

lane_options(#stream{buffer = Buffer, send_timeout = Timeout}) ->
    [{buffer, Buffer}, {send_timeout, Timeout}].

maybe_open(#data{lane = {lane, _}, info = #{} = Info, facts = Facts0} = Data) ->
    Facts = Facts0#{info => Info},
    ok = etls_registry:update(ref(Data), Facts),
    ok = etls_registry:status(ref(Data), open),
    % Allowed before the caller hears of it.
    Sending = allow_sending(Data#data{facts = Facts, info = none, may_send = true}),
    Told = reply_caller(ok, Sending),
    #stream{active = Active} = Told#data.stream,
    {Effects, Reader} = etls_reader:set([{active, Active}], Told#data.reader),
    {Actions, Opened} = perform(Effects, Told#data{reader = Reader}),
    enter_open(settle(Opened, [{{timeout, deadline}, cancel} | Actions]));
maybe_open(Data) ->
    {keep_state, Data}.

enter_open({keep_state, Data, Actions}) -> {next_state, open, Data, Actions};
enter_open(Other) -> Other.

%% --- open ------------------------------------------------------------------------------------

-spec open(gen_statem:event_type(), term(), #data{}) ->
    gen_statem:event_handler_result(atom()).
open(info, Message, #data{lane = {lane, Lane}, lane_module = Module} = Data) ->
    case Module:event(Lane, Message) of
        {data, Binary} ->
            Received = Data#data{last = byte_size(Binary)},
            read(etls_reader:data(Binary, Data#data.reader), Received, []);
        {last, Binary} ->
            Received = Data#data{last = byte_size(Binary), armed = false},
            read(etls_reader:data(Binary, Data#data.reader), Received, []);
        unarmed ->
            settle(Data#data{armed = false}, []);
        eof ->
            ended(etls_reader:eof(Data#data.reader), Data);
        failed ->
            keep_state_and_data;
        unknown ->
            open_info(Message, Data)
    end;
open({call, From}, {Ref, Request}, #data{socket = #etls_socket{ref = Ref}} = Data) ->
    open_call(Request, From, Data);
open({timeout, {recv, From}}, none, Data) ->
    gen_statem:reply(From, {error, timeout}),
    forget(From, Data);
open({timeout, lane_end}, none, #data{armed = false}) ->
    % What is on the lane yet waits for the user to read on.
    {keep_state_and_data, [{{timeout, lane_end}, ?LANE_END, none}]};
open({timeout, lane_end}, none, Data) ->
    ended(etls_reader:eof(Data#data.reader), Data);
open(cast, {Ref, abort}, #data{socket = #etls_socket{ref = Ref}} = Data) ->
    start_closing(abort, Data);
open(Type, Content, Data) ->
    common(Type, Content, Data).

open_info({etls_event, Subject, {ended, End}}, #data{subject = Subject} = Data) ->
    case End of
        truncated ->
            ?LOG_INFO(
                "etls: ~0tp ended without close_notify",
                [maps:get(peer, Data#data.facts)],
                #{domain => [etls]}
            );
        _ ->
            ok
    end,
    peer_ended(End, Data, []);
open_info({etls_reply, Tag, Result}, Data) ->
    {What, Answer, Data1} = answered(Tag, Result, Data),
    option_answered(What, Answer, Data1);
open_info({'DOWN', Monitor, process, _, _}, #data{owner_monitor = Monitor} = Data) ->
    start_closing(graceful, Data);
open_info({'DOWN', Monitor, process, _, _}, #data{daemon_monitor = Monitor} = Data0) ->
    Data = fail_options(econnaborted, Data0#data{released = true, link = none}),
    peer_ended(econnaborted, Data, [{{timeout, lane_end}, ?LANE_END, none}]);
open_info({'DOWN', Monitor, process, _, _} = Down, Data) ->
    case [From || {From, Other} <- maps:to_list(Data#data.receivers), Other =:= Monitor] of
        [From] -> forget(From, Data);
        [] -> common(info, Down, Data)
    end;
open_info(Message, Data) ->
    common(info, Message, Data).

open_call({recv, Length, Timeout}, From, Data) ->
    case etls_reader:recv(From, Length, Data#data.reader) of
        {[], Reader} ->
            Monitor = monitor(process, element(1, From)),
            Receivers = (Data#data.receivers)#{From => Monitor},
            Waiting = Data#data{reader = Reader, receivers = Receivers},
            settle(Waiting, recv_timer(From, Timeout));
        {Effects, Reader} ->
            read({Effects, Reader}, Data, [])
    end;
open_call(close, From, Data) ->
    start_closing(graceful, Data#data{closers = [From]});
open_call({shutdown, How}, From, Data0) ->
    Data = shut_writing(How, Data0),
    gen_statem:reply(From, ok),
    case How of
        write -> settle(Data, []);
        _ -> read(etls_reader:discard(Data#data.reader), Data, [])
    end;
open_call({handshake, _}, From, _Data) ->
    {keep_state_and_data, [{reply, From, {error, eisconn}}]};
open_call(Request, From, Data) ->
    common({call, From}, {ref(Data), Request}, Data).

recv_timer(_From, infinity) -> [];
recv_timer(From, Timeout) -> [{{timeout, {recv, From}}, Timeout, none}].

shut_writing(read, Data) -> Data;
shut_writing(_, Data) -> stop_sending(Data).

%% No more sends; what was sent is still carried to the peer, and then our close_notify.
stop_sending(Data) ->
    shut_lane(refuse_sending(Data)).

refuse_sending(#data{may_send = true} = Data) ->
    ok = etls_registry:refuse_sending(ref(Data)),
    Data#data{may_send = false};
refuse_sending(Data) ->
    Data.

shut_lane(#data{lane_shut = false, lane = {lane, Lane}, lane_module = Module} = Data) ->
    ok = Module:shutdown(Lane),
    Data#data{lane_shut = true};
shut_lane(Data) ->
    Data.

%% The peer will send no more. After its close_notify we may, if the user wants to; else our own
%% follows. After any other end the connection is dead, and there is nobody to tell; the lane stays
%% whole then until what was received has come over it.
peer_ended(End, #data{stream = #stream{exit_on_close = ExitOnClose} = Stream} = Data0, Actions) ->
    Data =
        case End of
            close_notify when ExitOnClose -> stop_sending(Data0);
            close_notify -> Data0;
            _ -> refuse_sending(Data0#data{stream = Stream#stream{exit_on_close = true}})
        end,
    read(etls_reader:ended(reason(End), Data#data.reader), Data, Actions).

reason(close_notify) -> closed;
reason(truncated) -> closed;
reason(Reason) -> Reason.

ended({Effects, Reader}, Data) ->
    read({Effects, Reader}, Data#data{armed = false}, [{{timeout, lane_end}, cancel}]).

%% Performs what the reader says, then sees what follows.
read({Effects, Reader}, Data0, Actions0) ->
    {Actions, Data} = perform(Effects, Data0#data{reader = Reader}),
    case lists:member(broken, Effects) of
        true -> start_closing(graceful, Data);
        false -> settle(Data, Actions0 ++ Actions)
    end.

%% After each event: read on, or let go of the connection, or end.
settle(#data{armed = true, may_send = true} = Data, Actions) ->
    {keep_state, Data, Actions};
settle(#data{reader = Reader, stream = #stream{exit_on_close = true}} = Data0, Actions) ->
    case etls_reader:is_over(Reader) of
        true ->
            % All that was received is in this process, so the daemon may forget the connection.
            Data = stop_sending(release(Data0)),
            case etls_reader:is_told(Reader) andalso etls_reader:size(Reader) =:= 0 of
                true -> {stop, normal, Data};
                false -> {keep_state, Data, Actions}
            end;
        false ->
            {keep_state, arm(Data0), Actions}
    end;
settle(Data, Actions) ->
    {keep_state, arm(Data), Actions}.

arm(#data{armed = false, lane = {lane, Lane}, lane_module = Module, reader = Reader} = Data) ->
    case etls_reader:wants_data(Reader) of
        true ->
            % An error means that the lane is closed, which its own message tells.
            _ = Module:arm(Lane, (Data#data.stream)#stream.buffer, Data#data.last),
            Data#data{armed = true};
        false ->
            Data
    end;
arm(Data) ->
    Data.

%% Tells the daemon that the connection may be closed, once everything sent has gone out.
release(#data{released = false, conn = Conn} = Data) ->
    Arguments = #{conn => Conn, mode => graceful, stall => ?CLOSE_STALL},
    _ = request(release, close, Arguments, Data),
    Data#data{released = true};
release(Data) ->
    Data.

perform(Effects, Data) ->
    perform(Effects, Data, []).

perform([Effect | Effects], #data{socket = Socket, owner = Owner, tags = Tags} = Data, Actions) ->
    case Effect of
        {deliver, Packet} ->
            Owner ! {element(1, Tags), Socket, Packet},
            perform(Effects, Data, Actions);
        {reply, From, Result} ->
            gen_statem:reply(From, Result),
            {More, Data1} = no_receiver(From, Data),
            perform(Effects, Data1, More ++ Actions);
        passive ->
            Owner ! {element(4, Tags), Socket},
            perform(Effects, Data, Actions);
        {terminal, closed} ->
            leave_if_over(Data),
            Owner ! {element(2, Tags), Socket},
            perform(Effects, Data, Actions);
        {terminal, Reason} ->
            leave_if_over(Data),
            Owner ! {element(3, Tags), Socket, Reason},
            perform(Effects, Data, Actions);
        broken ->
            perform(Effects, Data, Actions)
    end;
perform([], Data, Actions) ->
    {Actions, Data}.

%% Whoever hears that it is over finds it over.
leave_if_over(#data{stream = #stream{exit_on_close = true}} = Data) ->
    etls_registry:leave(ref(Data));
leave_if_over(_Data) ->
    ok.

no_receiver(From, #data{receivers = Receivers0} = Data) ->
    case maps:take(From, Receivers0) of
        {Monitor, Receivers} ->
            true = demonitor(Monitor, [flush]),
            {[{{timeout, {recv, From}}, cancel}], Data#data{receivers = Receivers}};
        error ->
            {[], Data}
    end.

forget(From, Data0) ->
    {Actions, Data} = no_receiver(From, Data0),
    read(etls_reader:forget(From, Data#data.reader), Data, Actions).

%% --- closing: our data is on its way out -----------------------------------------------------

start_closing(Mode0, #data{conn = Conn, linger = Linger} = Data0) ->
    ok = etls_registry:leave(ref(Data0)),
    {Actions0, Data1} = refuse_receivers(Data0),
    Data2 = fail_options(closed, Data1),
    {Mode, Stall, Limit} = close_mode(Mode0, Linger),
    Arguments = #{conn => Conn, mode => Mode, stall => Stall},
    case request(close, close, Arguments, Data2) of
        {ok, Asked} ->
            {_, Reader} = etls_reader:discard(Asked#data.reader),
            Data = arm(end_sending(Mode, Asked#data{reader = Reader})),
            Actions = [
                {state_timeout, Limit, abort},
                {{timeout, answer}, ?CLOSE_ANSWER, none},
                {{timeout, lane_end}, cancel}
                | Actions0
            ],
            {next_state, closing, Data#data{released = true}, Actions};
        {error, closed} ->
            closed(Data2)
    end.

%% The lane's end could overtake the abort, and would be answered with a close_notify.
end_sending(abort, Data) -> refuse_sending(Data);
end_sending(graceful, Data) -> stop_sending(Data).

close_mode(abort, _) -> {abort, 0, infinity};
close_mode(graceful, {true, 0}) -> {abort, 0, infinity};
close_mode(graceful, {true, Seconds}) -> {graceful, Seconds * 1000, Seconds * 1000};
close_mode(graceful, {false, _}) -> {graceful, ?CLOSE_STALL, infinity}.

refuse_receivers(#data{receivers = Receivers} = Data) ->
    Refuse = fun(From, {Actions, Refused}) ->
        gen_statem:reply(From, {error, closed}),
        {More, Left} = no_receiver(From, Refused),
        {More ++ Actions, Left}
    end,
    lists:foldl(Refuse, {[], Data}, maps:keys(Receivers)).

-spec closing(gen_statem:event_type(), term(), #data{}) ->
    gen_statem:event_handler_result(atom()).
closing(info, {etls_reply, Tag, Result}, Data) ->
    case answered(Tag, Result, Data) of
        {close, _, Data1} -> closed(Data1);
        {_, _, Data1} -> {keep_state, Data1}
    end;
closing(info, {'DOWN', Monitor, process, _, _}, #data{daemon_monitor = Monitor} = Data) ->
    closed(Data);
closing(info, Message, #data{lane = {lane, Lane}, lane_module = Module} = Data) ->
    % The peer's data is dropped, but it is taken: the daemon must not wait for us.
    case Module:event(Lane, Message) of
        unarmed -> {keep_state, arm(Data#data{armed = false})};
        {last, _} -> {keep_state, arm(Data#data{armed = false})};
        _ -> keep_state_and_data
    end;
closing(state_timeout, abort, #data{conn = Conn} = Data) ->
    % The first close's reply comes too.
    _ = request(abort, close, #{conn => Conn, mode => abort}, Data),
    keep_state_and_data;
closing({timeout, answer}, none, Data) ->
    {keep_state, answer_closers(Data)};
closing({call, From}, {_, close}, #data{closers = Closers} = Data) ->
    {keep_state, Data#data{closers = [From | Closers]}};
closing({call, From}, {_, _}, _Data) ->
    {keep_state_and_data, [{reply, From, {error, closed}}]};
closing(_Type, _Content, _Data) ->
    keep_state_and_data.

closed(Data) ->
    {stop, normal, answer_closers(Data)}.

answer_closers(#data{closers = Closers} = Data) ->
    lists:foreach(fun(From) -> gen_statem:reply(From, ok) end, Closers),
    Data#data{closers = []}.

%% --- in every state but closing --------------------------------------------------------------

common({call, From}, {Ref, Request}, #data{socket = #etls_socket{ref = Ref}} = Data) ->
    common_call(Request, From, Data);
common({call, From}, _Request, _Data) ->
    % A term kept from a socket whose pid has come back.
    {keep_state_and_data, [{reply, From, {error, closed}}]};
common(cast, {Ref, {adopt, Owner}}, #data{socket = #etls_socket{ref = Ref}} = Data) ->
    {keep_state, owned_by(Owner, Data)};
common(info, {'DOWN', Monitor, process, _, _}, #data{giver = Monitor} = Data) ->
    resume(Data);
common({timeout, {option, From}}, none, Data) ->
    IsLate = fun
        (_Tag, {setopts, Asker, _, _}) -> Asker =:= From;
        (_Tag, _What) -> false
    end,
    {keep_state, fail_options(IsLate, timeout, Data)};
common(_Type, _Content, _Data) ->
    keep_state_and_data.

common_call({setopts, #{stream := Changes, tcp := Tcp}}, From, Data) ->
    Allowed =
        case lists:keyfind(active, 1, Changes) of
            {active, Active} -> etls_reader:check_active(Active, Data#data.reader);
            false -> ok
        end,
    case Allowed of
        ok when map_size(Tcp) =:= 0 ->
            gen_statem:reply(From, ok),
            change(Changes, Data);
        ok ->
            ask_options({setopts, From, Changes, Tcp}, set_options, #{tcp => Tcp}, From, Data);
        {error, Reason} ->
            {keep_state_and_data, [{reply, From, {error, Reason}}]}
    end;
common_call({getopts, Names}, From, Data) ->
    Values = [{Name, option(Name, Data)} || Name <- Names],
    {keep_state_and_data, [{reply, From, {ok, Values}}]};
common_call({give, Owner}, {Owner, _} = From, #data{owner = Owner}) ->
    {keep_state_and_data, [{reply, From, ok}]};
common_call({give, Owner}, {Giver, _} = From, #data{owner = Giver} = Data) ->
    case is_pid(Owner) andalso node(Owner) =:= node() andalso is_process_alive(Owner) of
        true ->
            % Nothing is delivered until the giver has passed on what came before.
            Reader = etls_reader:hold(Data#data.reader),
            Given = owned_by(Owner, Data#data{reader = Reader, giver = monitor(process, Giver)}),
            {keep_state, Given, [{reply, From, ok}]};
        false ->
            {keep_state_and_data, [{reply, From, {error, einval}}]}
    end;
common_call({give, _Owner}, From, _Data) ->
    {keep_state_and_data, [{reply, From, {error, not_owner}}]};
common_call(resume, From, #data{giver = Monitor} = Data) ->
    gen_statem:reply(From, ok),
    case Monitor of
        none ->
            keep_state_and_data;
        _ ->
            true = demonitor(Monitor, [flush]),
            resume(Data)
    end;
common_call(_Request, From, _Data) ->
    {keep_state_and_data, [{reply, From, {error, einval}}]}.

owned_by(Owner, #data{owner_monitor = Monitor} = Data) ->
    true = demonitor(Monitor, [flush]),
    Data#data{owner = Owner, owner_monitor = monitor(process, Owner)}.

resume(Data0) ->
    Data = Data0#data{giver = none},
    reread(etls_reader:release(Data#data.reader), Data).

%% Before `open' there is nothing that the reader could want to be done.
reread({Effects, Reader}, Data) ->
    case is_open(Data) of
        true -> read({Effects, Reader}, Data, []);
        false -> {keep_state, Data#data{reader = Reader}}
    end.

is_open(#data{facts = Facts}) -> is_map_key(info, Facts).

%% --- options ---------------------------------------------------------------------------------

option(Name, #data{reader = Reader} = Data) when
    Name =:= active; Name =:= mode; Name =:= packet; Name =:= packet_size
->
    case Name =:= active andalso not is_open(Data) of
        % The reader is passive until then.
        true -> (Data#data.stream)#stream.active;
        false -> etls_reader:get(Name, Reader)
    end;
option(lane, #data{lane_module = Module}) when Module =/= none ->
    case Module of
        etls_lane_local -> local;
        etls_lane_link -> link
    end;
option(Name, #data{stream = Stream}) ->
    stream_option(Name, Stream).

%% The value of a stream option as it was given.
-spec stream_option(atom(), #stream{}) -> term().
stream_option(active, Stream) -> Stream#stream.active;
stream_option(mode, Stream) -> Stream#stream.mode;
stream_option(packet, Stream) -> Stream#stream.packet;
stream_option(packet_size, Stream) -> Stream#stream.packet_size;
stream_option(exit_on_close, Stream) -> Stream#stream.exit_on_close;
stream_option(send_timeout, Stream) -> Stream#stream.send_timeout;
stream_option(send_timeout_close, Stream) -> Stream#stream.send_timeout_close;
stream_option(buffer, Stream) -> Stream#stream.buffer;
stream_option(lane, #stream{lane = default}) -> application:get_env(etls, lane, auto);
stream_option(lane, Stream) -> Stream#stream.lane.

ask_options(What, Command, Arguments, From, #data{conn = Conn} = Data) ->
    case request(What, Command, Arguments#{conn => Conn}, Data) of
        {ok, Asked} ->
            {keep_state, Asked, [{{timeout, {option, From}}, ?OPTION_ANSWER, none}]};
        {error, closed} ->
            {keep_state_and_data, [{reply, From, {error, econnaborted}}]}
    end.

option_answered({setopts, From, Changes, Tcp}, ok, #data{linger = Linger} = Data) ->
    gen_statem:reply(From, ok),
    change(Changes, Data#data{linger = maps:get(linger, Tcp, Linger)});
option_answered({setopts, From, _, _}, {error, Reason}, Data) ->
    gen_statem:reply(From, {error, Reason}),
    {keep_state, Data};
option_answered(_What, _Answer, Data) ->
    {keep_state, Data}.

%% Nobody waits for an answer that will not come.
fail_options(Reason, Data) ->
    IsOption = fun(_Tag, What) -> is_tuple(What) andalso element(1, What) =:= setopts end,
    fail_options(IsOption, Reason, Data).

fail_options(Is, Reason, #data{requests = Requests} = Data) ->
    Failed = maps:filter(Is, Requests),
    lists:foreach(
        fun({setopts, From, _, _}) -> gen_statem:reply(From, {error, Reason}) end,
        maps:values(Failed)
    ),
    Data#data{requests = maps:without(maps:keys(Failed), Requests)}.

change(Changes, #data{stream = Stream0} = Data0) ->
    Stream = lists:foldl(fun change_stream/2, Stream0, Changes),
    Data = Data0#data{stream = Stream},
    ok = change_lane(Changes, Data),
    Sending = refresh_sending(Data),
    ReaderChanges = [
        Change
     || {Name, _} = Change <- packet_first(Changes),
        Name =:= packet orelse Name =:= packet_size orelse Name =:= mode orelse
            (Name =:= active andalso is_open(Data))
    ],
    reread(etls_reader:set(ReaderChanges, Sending#data.reader), Sending).

%% Going active comes last, when it is clear how to read.
packet_first(Changes) ->
    {Active, Others} = lists:partition(fun({Name, _}) -> Name =:= active end, Changes),
    Others ++ Active.

-spec change_stream({atom(), term()}, #stream{}) -> #stream{}.
change_stream({active, Active}, Stream) -> Stream#stream{active = Active};
change_stream({mode, Mode}, Stream) -> Stream#stream{mode = Mode};
change_stream({packet, Type}, Stream) -> Stream#stream{packet = Type};
change_stream({packet_size, Size}, Stream) -> Stream#stream{packet_size = Size};
change_stream({exit_on_close, Flag}, Stream) -> Stream#stream{exit_on_close = Flag};
change_stream({send_timeout, Timeout}, Stream) -> Stream#stream{send_timeout = Timeout};
change_stream({send_timeout_close, Flag}, Stream) -> Stream#stream{send_timeout_close = Flag};
change_stream({buffer, Size}, Stream) -> Stream#stream{buffer = Size}.

change_lane(Changes, #data{lane = {lane, Lane}, lane_module = Module}) ->
    case [Change || {Name, _} = Change <- Changes, Name =:= buffer orelse Name =:= send_timeout] of
        [] ->
            ok;
        LaneChanges ->
            % An error means that it is closed: then they do not matter.
            _ = Module:set(Lane, LaneChanges),
            ok
    end;
change_lane(_Changes, _Data) ->
    ok.

refresh_sending(#data{may_send = true} = Data) -> allow_sending(Data);
refresh_sending(Data) -> Data.

allow_sending(#data{lane = {lane, Lane}, lane_module = Module, stream = Stream} = Data) ->
    #stream{packet = Type, send_timeout_close = CloseOnTimeout} = Stream,
    Sending = {Module, Lane, etls_packet:header_size(Type), CloseOnTimeout},
    ok = etls_registry:allow_sending(ref(Data), Sending),
    Data.

%% --- requests --------------------------------------------------------------------------------

request(_What, _Command, _Arguments, #data{link = none}) ->
    {error, closed};
request(What, Command, Arguments, #data{link = Link, requests = Requests} = Data) ->
    Tag = erlang:unique_integer([positive]),
    case etls_daemon:request(Link, Tag, Command, Arguments) of
        ok -> {ok, Data#data{requests = Requests#{Tag => What}}};
        {error, closed} -> {error, closed}
    end.

answered(Tag, Result, #data{requests = Requests0} = Data) ->
    case maps:take(Tag, Requests0) of
        {What, Requests} -> {What, Result, Data#data{requests = Requests}};
        error -> {none, Result, Data}
    end.

deadline_action(infinity) -> {{timeout, deadline}, cancel};
deadline_action(Timeout) -> {{timeout, deadline}, Timeout, none}.

reply_caller(_Reply, #data{caller = none} = Data) ->
    Data;
reply_caller(Reply, #data{caller = From} = Data) ->
    gen_statem:reply(From, Reply),
    Data#data{caller = none}.

%% The connection never was, or is not wanted any more: no data to care for.
give_up(Reply, Data0) ->
    ok = etls_registry:leave(ref(Data0)),
    gone(fail_options(closed, reply_caller(Reply, Data0))).

gone(#data{conn = none} = Data) ->
    {stop, normal, Data};
gone(#data{conn = Conn} = Data) ->
    _ = request(abort, close, #{conn => Conn, mode => abort}, Data),
    {stop, normal, Data}.

ref(#data{socket = #etls_socket{ref = Ref}}) -> Ref.

%% --- the end ---------------------------------------------------------------------------------

-spec terminate(term(), atom(), #data{}) -> ok.
terminate(_Reason, State, #data{lane = Lane, lane_module = Module} = Data) ->
    ok = etls_registry:leave(ref(Data)),
    ok = tell_stopped(State, Data),
    case Lane of
        {lane, Handle} -> Module:close(Handle);
        _ -> ok
    end.

%% The application stops, or this process failed, under an active owner.
tell_stopped(open, #data{reader = Reader, owner = Owner, tags = Tags, socket = Socket}) ->
    case etls_reader:is_active(Reader) andalso not etls_reader:is_told(Reader) of
        true ->
            Owner ! {element(2, Tags), Socket},
            ok;
        false ->
            ok
    end;
tell_stopped(_State, _Data) ->
    ok.

%% Neither a lane's token nor a connection's plaintext is for logs and crash reports.
-spec format_status(gen_statem:format_status()) -> gen_statem:format_status().
format_status(Status) ->
    maps:map(
        fun
            (data, #data{} = Data) ->
                #{
                    conn => Data#data.conn,
                    owner => Data#data.owner,
                    facts => maps:with([peer, local], Data#data.facts),
                    received => etls_reader:size(Data#data.reader)
                };
            (Key, _) when Key =:= queue; Key =:= postponed; Key =:= log -> [];
            (_Key, Value) -> Value
        end,
        Status
    ).
