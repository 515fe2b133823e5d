%% @private
%% Cuts received bytes into packets, as gen_tcp's {packet, _} has them. Bytes are kept as they came
%% until a packet is asked for, so that the type may change at any time without misreading one.
%%
%% A packet that is not complete is not looked at again before the bytes it lacks are there, so that
%% a long one costs no more per byte than a short one.
-module(etls_packet).

-export([new/2, push/2, next/2, size/1, type/1, max_size/1, set_type/2, set_max_size/2, clear/1]).
-export([is_type/1, header_size/1]).

-export_type([type/0, packets/0]).

-type type() ::
    raw | 1 | 2 | 4 | asn1 | cdr | sunrm | fcgi | tpkt | line | http | http_bin | httph | httph_bin.

-record(packets, {
    type :: type(),
    %% A packet longer than this is an error; 0: no limit.
    max_size :: non_neg_integer(),
    %% http has a first line, and then headers until their end.
    phase = first_line :: first_line | headers,
    %% Bytes that must be there before decoding is worth while, or a line's end.
    need = 0 :: non_neg_integer() | newline,
    buffer = etls_buffer:new() :: etls_buffer:buffer()
}).

-opaque packets() :: #packets{}.

-spec is_type(term()) -> boolean().
is_type(Type) ->
    lists:member(Type, [
        raw, 1, 2, 4, asn1, cdr, sunrm, fcgi, tpkt, line, http, http_bin, httph, httph_bin
    ]).

%% Bytes of the length header that sending must add.
-spec header_size(type()) -> 0 | 1 | 2 | 4.
header_size(Type) when Type =:= 1; Type =:= 2; Type =:= 4 -> Type;
header_size(_) -> 0.

-spec new(type(), non_neg_integer()) -> packets().
new(Type, MaxSize) ->
    #packets{type = Type, max_size = MaxSize}.

-spec type(packets()) -> type().
type(#packets{type = Type}) -> Type.

-spec max_size(packets()) -> non_neg_integer().
max_size(#packets{max_size = MaxSize}) -> MaxSize.

%% Bytes received and not yet handed out.
-spec size(packets()) -> non_neg_integer().
size(#packets{buffer = Buffer}) -> etls_buffer:size(Buffer).

-spec set_type(type(), packets()) -> packets().
set_type(Type, Packets) ->
    Packets#packets{type = Type, phase = first_line, need = 0}.

-spec set_max_size(non_neg_integer(), packets()) -> packets().
set_max_size(MaxSize, Packets) ->
    Packets#packets{max_size = MaxSize, need = 0}.

%% Forgets what was received.
-spec clear(packets()) -> packets().
clear(Packets) ->
    Packets#packets{buffer = etls_buffer:new(), need = 0}.

-spec push(binary(), packets()) -> packets().
push(Binary, #packets{need = newline, max_size = 0, buffer = Buffer} = Packets) ->
    Need =
        case binary:match(Binary, <<"\n">>) of
            nomatch -> newline;
            _ -> 0
        end,
    Packets#packets{need = Need, buffer = etls_buffer:push(Binary, Buffer)};
push(Binary, #packets{need = newline, buffer = Buffer} = Packets) ->
    Packets#packets{need = 0, buffer = etls_buffer:push(Binary, Buffer)};
push(Binary, #packets{buffer = Buffer} = Packets) ->
    Packets#packets{buffer = etls_buffer:push(Binary, Buffer)}.

%% The next packet. Length counts for raw alone: exactly so many bytes, 0: whatever came first.
-spec next(non_neg_integer(), packets()) ->
    {ok, binary() | tuple() | http_eoh, packets()} | {more, packets()} | {error, emsgsize}.
next(0, #packets{type = raw, buffer = Buffer0} = Packets) ->
    case etls_buffer:pop(Buffer0) of
        {Binary, Buffer} -> {ok, Binary, Packets#packets{buffer = Buffer}};
        empty -> {more, Packets}
    end;
next(Length, #packets{type = raw, buffer = Buffer0} = Packets) ->
    case etls_buffer:size(Buffer0) of
        Size when Size >= Length ->
            {Binary, Buffer} = etls_buffer:take(Length, Buffer0),
            {ok, Binary, Packets#packets{buffer = Buffer}};
        _ ->
            {more, Packets}
    end;
next(_Length, #packets{need = newline} = Packets) ->
    {more, Packets};
next(_Length, #packets{need = Need} = Packets) ->
    decode(max(1, Need), Packets).

decode(Need, #packets{buffer = Buffer0} = Packets) ->
    case etls_buffer:size(Buffer0) of
        Size when Size < Need ->
            {more, Packets#packets{need = Need}};
        Size ->
            {Front, Rest} = etls_buffer:front(Need, Buffer0),
            Buffer = etls_buffer:unget(Front, Rest),
            case erlang:decode_packet(decoded_type(Packets), Front, decode_options(Packets)) of
                {ok, Packet, <<>>} ->
                    {ok, Packet, decoded(Packet, Packets#packets{buffer = Rest})};
                {ok, Packet, Left} ->
                    Remaining = etls_buffer:unget(Left, Rest),
                    {ok, Packet, decoded(Packet, Packets#packets{buffer = Remaining})};
                {more, undefined} when byte_size(Front) =:= Size ->
                    {more, Packets#packets{buffer = Buffer, need = need_after(Size, Packets)}};
                {more, undefined} ->
                    % Twice as much: what is joined again and again must grow geometrically.
                    More = min(Size, 2 * byte_size(Front) + 1),
                    decode(More, Packets#packets{buffer = Buffer});
                {more, Length} ->
                    decode(Length, Packets#packets{buffer = Buffer});
                {error, _} ->
                    {error, emsgsize}
            end
    end.

need_after(_Size, #packets{type = line}) -> newline;
need_after(Size, _Packets) -> Size + 1.

decode_options(#packets{max_size = 0}) -> [];
decode_options(#packets{max_size = MaxSize}) -> [{packet_size, MaxSize}].

decoded_type(#packets{type = http, phase = headers}) -> httph;
decoded_type(#packets{type = http_bin, phase = headers}) -> httph_bin;
decoded_type(#packets{type = Type}) -> Type.

decoded(Packet, #packets{phase = Phase} = Packets) ->
    Packets#packets{need = 0, phase = next_phase(Packet, Phase)}.

next_phase(http_eoh, _) -> first_line;
next_phase({http_request, _, _, _}, _) -> headers;
next_phase({http_response, _, _, _}, _) -> headers;
next_phase(_, Phase) -> Phase.
