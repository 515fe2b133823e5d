%% @private
%% A queue of received binaries that counts its bytes. Taking from the front joins binaries only
%% where a taken piece spans several of them, and then once.
-module(etls_buffer).

-export([new/0, size/1, push/2, unget/2, pop/1, take/2, front/2]).

-export_type([buffer/0]).

-record(buffer, {
    front = [] :: [binary()],
    %% Newest first.
    rear = [] :: [binary()],
    size = 0 :: non_neg_integer()
}).

-opaque buffer() :: #buffer{}.

-spec new() -> buffer().
new() -> #buffer{}.

%% Bytes held.
-spec size(buffer()) -> non_neg_integer().
size(#buffer{size = Size}) -> Size.

%% Adds what was received last.
-spec push(binary(), buffer()) -> buffer().
push(<<>>, Buffer) ->
    Buffer;
push(Binary, #buffer{size = 0}) ->
    #buffer{front = [Binary], size = byte_size(Binary)};
push(Binary, #buffer{rear = Rear, size = Size} = Buffer) ->
    Buffer#buffer{rear = [Binary | Rear], size = Size + byte_size(Binary)}.

%% Puts back what was taken first.
-spec unget(binary(), buffer()) -> buffer().
unget(<<>>, Buffer) ->
    Buffer;
unget(Binary, #buffer{front = Front, size = Size} = Buffer) ->
    Buffer#buffer{front = [Binary | Front], size = Size + byte_size(Binary)}.

%% The first binary as it came.
-spec pop(buffer()) -> {binary(), buffer()} | empty.
pop(#buffer{size = 0}) ->
    empty;
pop(#buffer{front = [Binary | Front], size = Size} = Buffer) ->
    {Binary, Buffer#buffer{front = Front, size = Size - byte_size(Binary)}};
pop(#buffer{front = [], rear = Rear} = Buffer) ->
    pop(Buffer#buffer{front = lists:reverse(Rear), rear = []}).

%% Exactly Count bytes; the buffer must hold them.
-spec take(non_neg_integer(), buffer()) -> {binary(), buffer()}.
take(Count, #buffer{size = Size} = Buffer) when Count =< Size ->
    {Whole, Rest} = front(Count, Buffer),
    case Whole of
        <<Taken:Count/binary>> -> {Taken, Rest};
        <<Taken:Count/binary, Left/binary>> -> {Taken, unget(Left, Rest)}
    end.

%% The shortest run of whole binaries with at least Count bytes; the buffer must hold them.
-spec front(non_neg_integer(), buffer()) -> {binary(), buffer()}.
front(Count, #buffer{size = Size} = Buffer) when Count =< Size ->
    case pop(Buffer) of
        empty -> {<<>>, Buffer};
        {Binary, Rest} when byte_size(Binary) >= Count -> {Binary, Rest};
        {Binary, Rest} -> join(Count - byte_size(Binary), Rest, [Binary])
    end.

join(Missing, Buffer, Taken) when Missing =< 0 ->
    {iolist_to_binary(lists:reverse(Taken)), Buffer};
join(Missing, Buffer, Taken) ->
    {Binary, Rest} = pop(Buffer),
    join(Missing - byte_size(Binary), Rest, [Binary | Taken]).
