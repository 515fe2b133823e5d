%% @private
%% A queue of received binaries that counts its bytes. Taking from the front joins binaries only
%% where a taken piece spans several of them, and then once.
%%
%% A long piece that is still on its way is gathered as it comes: each binary is appended to one
%% that grows in place and is free again while it is warm. Kept until the last had come, 100 MB in
%% pieces of 128 KiB were fresh pages twice over, and a quarter of the VM's time went into clearing
%% them.
-module(etls_buffer).

-export([new/0, size/1, push/2, unget/2, pop/1, take/2, front/2, gather/2]).

-export_type([buffer/0]).

-record(buffer, {
    front = [] :: [binary()],
    %% Newest first.
    rear = [] :: [binary()],
    size = 0 :: non_neg_integer(),
    %% Is the first of `front' one that grows?
    gathered = false :: boolean()
}).

%% Pieces shorter than this (512 KiB) are a few binaries, and better joined once.
-define(GATHER_FROM, 524288).

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
    Buffer#buffer{front = [Binary | Front], size = Size + byte_size(Binary), gathered = false}.

%% The first binary as it came.
-spec pop(buffer()) -> {binary(), buffer()} | empty.
pop(#buffer{size = 0}) ->
    empty;
pop(#buffer{front = [Binary | Front], size = Size} = Buffer) ->
    {Binary, Buffer#buffer{front = Front, size = Size - byte_size(Binary), gathered = false}};
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

%% A run of at least Count bytes, no longer than need be; the buffer must hold them.
-spec front(non_neg_integer(), buffer()) -> {binary(), buffer()}.
front(Count, #buffer{size = Size, gathered = Gathered} = Buffer) when Count =< Size ->
    case pop(Buffer) of
        empty -> {<<>>, Buffer};
        {Binary, Rest} when byte_size(Binary) >= Count -> {Binary, Rest};
        {Binary, Rest} when Gathered -> complete(Count - byte_size(Binary), Rest, Binary);
        {Binary, Rest} -> join(Count - byte_size(Binary), Rest, [Binary])
    end.

join(Missing, Buffer, Taken) when Missing =< 0 ->
    {iolist_to_binary(lists:reverse(Taken)), Buffer};
join(Missing, Buffer, Taken) ->
    {Binary, Rest} = pop(Buffer),
    join(Missing - byte_size(Binary), Rest, [Binary | Taken]).

%% Not a byte too many: what follows would keep the whole piece in memory.
complete(0, Buffer, Gathered) ->
    {Gathered, Buffer};
complete(Missing, Buffer, Gathered) ->
    case pop(Buffer) of
        {<<Binary:Missing/binary, Left/binary>>, Rest} ->
            complete(0, unget(Left, Rest), <<Gathered/binary, Binary/binary>>);
        {Binary, Rest} ->
            complete(Missing - byte_size(Binary), Rest, <<Gathered/binary, Binary/binary>>)
    end.

%% Count bytes are wanted, and the buffer does not hold them yet.
-spec gather(non_neg_integer(), buffer()) -> buffer().
gather(Count, Buffer) when Count < ?GATHER_FROM ->
    Buffer;
gather(_Count, #buffer{gathered = true, front = [Gathered | Front], rear = Rear} = Buffer) ->
    Buffer#buffer{front = [append(Gathered, Front ++ lists:reverse(Rear))], rear = []};
gather(_Count, #buffer{front = Front, rear = Rear} = Buffer) ->
    Buffer#buffer{front = [append(<<>>, Front ++ lists:reverse(Rear))], rear = [], gathered = true}.

append(Gathered, [Binary | Binaries]) ->
    append(<<Gathered/binary, Binary/binary>>, Binaries);
append(Gathered, []) ->
    Gathered.
