%% @private
%% The reading half of a connection, as a pure machine: what was received, who waits for it, and how
%% it ends. Each function answers with what is to be done, in order, and the machine after it.
%%
%% An end has two halves, on two channels that have no order between them: why (the daemon's `ended'
%% event) and where (the lane's end of file). It is told when both are known and all data before
%% it has been handed out; and it is told once.
-module(etls_reader).

-export([new/1, data/2, eof/1, ended/2, recv/3, forget/2, discard/1]).
-export([set/2, get/2, check_active/2, hold/1, release/1]).
-export([wants_data/1, is_active/1, is_told/1, is_over/1, size/1]).

-export_type([reader/0, effect/0, change/0, reason/0]).

-include("etls_internal.hrl").

%% Read ahead of a passive reader at most this much (2 MiB); then the lane, the daemon and TCP fill
%% up and the peer has to wait. What was armed already (see etls_lane) may come on top.
-define(READ_AHEAD, 2097152).

-define(MAX_ACTIVE, 32767).

-record(reader, {
    packets :: etls_packet:packets(),
    mode :: binary | list,
    active = false :: boolean() | once | pos_integer(),
    %% Nothing is delivered while the socket goes from one owner to another.
    held = false :: boolean(),
    %% Who waits in recv, first come first.
    waiting = queue:new() :: queue:queue({Who :: term(), Length :: non_neg_integer()}),
    discarding = false :: boolean(),
    eof = false :: boolean(),
    ended = no :: no | {ended, reason()},
    told = false :: boolean()
}).

-opaque reader() :: #reader{}.

-type reason() :: closed | atom() | {tls_alert, {atom(), string()}}.
-type effect() ::
    {reply, Who :: term(), {ok, term()} | {error, reason()}}
    | {deliver, term()}
    | passive
    | {terminal, reason()}
    %% The stream cannot be cut into packets any more: close.
    | broken.
-type change() ::
    {active, boolean() | once | integer()}
    | {mode, binary | list}
    | {packet, etls_packet:type()}
    | {packet_size, non_neg_integer()}.

%% Starts passive: the options' `active' is set when the connection is open.
-spec new(#stream{}) -> reader().
new(#stream{packet = Type, packet_size = MaxSize, mode = Mode}) ->
    #reader{packets = etls_packet:new(Type, MaxSize), mode = Mode}.

-spec data(binary(), reader()) -> {[effect()], reader()}.
data(_Binary, #reader{discarding = true} = Reader) ->
    {[], Reader};
data(Binary, #reader{packets = Packets} = Reader) ->
    run(Reader#reader{packets = etls_packet:push(Binary, Packets)}).

-spec eof(reader()) -> {[effect()], reader()}.
eof(Reader) ->
    run(Reader#reader{eof = true}).

%% The first reason is the one that counts.
-spec ended(reason(), reader()) -> {[effect()], reader()}.
ended(Reason, #reader{ended = no} = Reader) ->
    run(Reader#reader{ended = {ended, Reason}});
ended(_Reason, Reader) ->
    {[], Reader}.

%% No effect: Who waits.
-spec recv(Who :: term(), non_neg_integer(), reader()) -> {[effect()], reader()}.
recv(Who, _Length, #reader{active = Active} = Reader) when Active =/= false ->
    {[{reply, Who, {error, einval}}], Reader};
recv(Who, _Length, #reader{discarding = true} = Reader) ->
    {[{reply, Who, {error, closed}}], Reader};
recv(Who, Length, #reader{waiting = Waiting} = Reader) ->
    run(Reader#reader{waiting = queue:in({Who, Length}, Waiting)}).

%% Who waits no more. The one behind may want less than Who did.
-spec forget(Who :: term(), reader()) -> {[effect()], reader()}.
forget(Who, #reader{waiting = Waiting} = Reader) ->
    run(Reader#reader{waiting = queue:filter(fun({Other, _}) -> Other =/= Who end, Waiting)}).

%% No more reading: what is there and what comes is dropped, the end is still told.
-spec discard(reader()) -> {[effect()], reader()}.
discard(#reader{waiting = Waiting, packets = Packets} = Reader0) ->
    Replies = [{reply, Who, {error, closed}} || {Who, _} <- queue:to_list(Waiting)],
    Reader1 = Reader0#reader{
        waiting = queue:new(), packets = etls_packet:clear(Packets), discarding = true
    },
    {Effects, Reader} = run(Reader1),
    {Replies ++ Effects, Reader}.

%% Check the new `active' with check_active/2 first.
-spec set([change()], reader()) -> {[effect()], reader()}.
set(Changes, Reader0) ->
    {Effects, Reader1} = lists:foldl(fun change/2, {[], Reader0}, Changes),
    {More, Reader} = run(Reader1),
    {Effects ++ More, Reader}.

change({mode, Mode}, {Effects, Reader}) ->
    {Effects, Reader#reader{mode = Mode}};
change({packet, Type}, {Effects, #reader{packets = Packets} = Reader}) ->
    {Effects, Reader#reader{packets = etls_packet:set_type(Type, Packets)}};
change({packet_size, MaxSize}, {Effects, #reader{packets = Packets} = Reader}) ->
    {Effects, Reader#reader{packets = etls_packet:set_max_size(MaxSize, Packets)}};
change({active, Value}, {Effects, Reader}) ->
    case add_active(Value, Reader) of
        0 -> {Effects ++ [passive], Reader#reader{active = false}};
        Active -> {Effects, Reader#reader{active = Active}}
    end.

%% As inet has it: a number is added to the present one, and must not pass 32767.
-spec check_active(boolean() | once | integer(), reader()) -> ok | {error, einval}.
check_active(Value, Reader) ->
    case add_active(Value, Reader) of
        Count when is_integer(Count), Count > ?MAX_ACTIVE -> {error, einval};
        _ -> ok
    end.

add_active(Value, #reader{active = Count}) when is_integer(Value), is_integer(Count) ->
    max(0, Count + Value);
add_active(Value, _Reader) when is_integer(Value) ->
    max(0, Value);
add_active(Value, _Reader) ->
    Value.

-spec get(active | mode | packet | packet_size, reader()) -> term().
get(active, #reader{active = Active}) -> Active;
get(mode, #reader{mode = Mode}) -> Mode;
get(packet, #reader{packets = Packets}) -> etls_packet:type(Packets);
get(packet_size, #reader{packets = Packets}) -> etls_packet:max_size(Packets).

-spec hold(reader()) -> reader().
hold(Reader) -> Reader#reader{held = true}.

-spec release(reader()) -> {[effect()], reader()}.
release(Reader) -> run(Reader#reader{held = false}).

%% Should more be read from the lane?
-spec wants_data(reader()) -> boolean().
wants_data(#reader{eof = true}) ->
    false;
wants_data(#reader{discarding = true}) ->
    true;
wants_data(#reader{active = Active, held = false}) when Active =/= false ->
    % All that is complete was delivered already; a packet may be longer than the read-ahead.
    true;
wants_data(#reader{waiting = Waiting, packets = Packets}) ->
    etls_packet:size(Packets) < ?READ_AHEAD orelse not queue:is_empty(Waiting).

-spec is_active(reader()) -> boolean().
is_active(#reader{active = Active}) -> Active =/= false.

-spec is_told(reader()) -> boolean().
is_told(#reader{told = Told}) -> Told.

%% Is the end known, both halves of it?
-spec is_over(reader()) -> boolean().
is_over(#reader{eof = Eof, ended = Ended}) -> Eof andalso Ended =/= no.

%% Bytes held.
-spec size(reader()) -> non_neg_integer().
size(#reader{packets = Packets}) -> etls_packet:size(Packets).

%% --- what can be done now --------------------------------------------------------------------

run(Reader) -> run(Reader, []).

run(#reader{waiting = Waiting} = Reader, Effects) ->
    case queue:peek(Waiting) of
        {value, Recv} -> serve(Recv, Reader, Effects);
        empty -> deliver(Reader, Effects)
    end.

serve({Who, Length}, #reader{packets = Packets0, waiting = Waiting} = Reader, Effects) ->
    case etls_packet:next(Length, Packets0) of
        {ok, Packet, Packets} ->
            Reply = {reply, Who, {ok, present(Packet, Reader)}},
            Served = Reader#reader{packets = Packets, waiting = queue:drop(Waiting)},
            run(Served, [Reply | Effects]);
        {more, Packets} ->
            finish(Reader#reader{packets = Packets}, Effects);
        {error, Reason} ->
            break(Reason, Reader, Effects)
    end.

deliver(#reader{active = Active, held = Held} = Reader, Effects) when Active =:= false; Held ->
    done(Reader, Effects);
deliver(#reader{packets = Packets0} = Reader, Effects) ->
    case etls_packet:next(0, Packets0) of
        {ok, Packet, Packets} ->
            Delivered = [{deliver, present(Packet, Reader)} | Effects],
            count(Reader#reader{packets = Packets}, Delivered);
        {more, Packets} ->
            finish(Reader#reader{packets = Packets}, Effects);
        {error, Reason} ->
            break(Reason, Reader, Effects)
    end.

count(#reader{active = true} = Reader, Effects) ->
    deliver(Reader, Effects);
count(#reader{active = once} = Reader, Effects) ->
    done(Reader#reader{active = false}, Effects);
count(#reader{active = 1} = Reader, Effects) ->
    done(Reader#reader{active = false}, [passive | Effects]);
count(#reader{active = Count} = Reader, Effects) ->
    deliver(Reader#reader{active = Count - 1}, Effects).

%% Someone wants data and there is not enough: is it the end?
finish(#reader{eof = true, ended = {ended, Reason}} = Reader, Effects) ->
    tell(Reason, Reader, Effects);
finish(Reader, Effects) ->
    done(Reader, Effects).

%% Bytes too few for a recv stay, since a shorter one may ask for them; what is no whole packet for
%% an active owner goes, since nobody will.
tell(Reason, #reader{waiting = Waiting, packets = Packets, told = Told} = Reader0, Effects) ->
    Reader = Reader0#reader{waiting = queue:new(), active = false, told = true},
    case queue:out(Waiting) of
        {{value, {First, _}}, Others} ->
            Answered = [{reply, First, {error, tell_once(Reason, Reader0)}} | Effects],
            Replies = [{reply, Who, {error, closed}} || {Who, _} <- queue:to_list(Others)],
            done(Reader, lists:reverse(Replies, Answered));
        {empty, _} ->
            Emptied = Reader#reader{packets = etls_packet:clear(Packets)},
            done(Emptied, [{terminal, Reason} || not Told] ++ Effects)
    end.

tell_once(_Reason, #reader{told = true}) -> closed;
tell_once(Reason, _Reader) -> Reason.

break(Reason, #reader{ended = no} = Reader, Effects) ->
    break(Reason, Reader#reader{ended = {ended, Reason}}, Effects);
break(Reason, Reader, Effects0) ->
    {Effects, Broken} = tell(Reason, Reader, Effects0),
    {Effects ++ [broken], Broken}.

present(Packet, #reader{mode = list}) when is_binary(Packet) ->
    binary_to_list(Packet);
present(Packet, _Reader) ->
    Packet.

done(Reader, Effects) -> {lists:reverse(Effects), Reader}.
