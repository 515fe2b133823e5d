%% The modules that decide and do nothing: byte queue, packets, reader, options, protocol, ciphers,
%% words. No daemon, no process.
-module(etls_pure_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include("../../erl/etls_internal.hrl").

-compile([export_all, nowarn_export_all]).

%% Debian has proper.hrl in another package than PropEr itself; this is all that is wanted of it.
-import(proper_types, [any/0, binary/0, frequency/1, list/1, non_neg_integer/0, oneof/1, range/2]).
-define(FORALL(Pattern, Type, Property), proper:forall(Type, fun(Pattern) -> Property end)).

-define(PROPERTY(Property), ?assert(proper:quickcheck(Property, [{to_file, user}, 300]))).

all() ->
    [Name || {Name, 1} <- ?MODULE:module_info(exports),
             lists:prefix("t_", atom_to_list(Name))].

%% --- etls_buffer -----------------------------------------------------------------------------

t_buffer_is_a_byte_queue(_Config) ->
    ?PROPERTY(buffer_is_a_byte_queue()).

buffer_is_a_byte_queue() ->
    Step = oneof([{push, binary()}, {take, non_neg_integer()}, pop, {front, non_neg_integer()}]),
    ?FORALL(Steps, list(Step), follow(Steps, etls_buffer:new(), <<>>)).

%% The model is one binary.
follow([], Buffer, Model) ->
    etls_buffer:size(Buffer) =:= byte_size(Model);
follow([{push, Binary} | Steps], Buffer, Model) ->
    follow(Steps, etls_buffer:push(Binary, Buffer), <<Model/binary, Binary/binary>>);
follow([pop | Steps], Buffer, Model) ->
    case etls_buffer:pop(Buffer) of
        empty -> Model =:= <<>> andalso follow(Steps, Buffer, Model);
        {Binary, Rest} -> Binary =/= <<>> andalso taken(Binary, Steps, Rest, Model)
    end;
follow([{Take, Wanted} | Steps], Buffer, Model) ->
    Count = min(Wanted, byte_size(Model)),
    {Binary, Rest} = etls_buffer:Take(Count, Buffer),
    Enough = case Take of
                 take -> byte_size(Binary) =:= Count;
                 front -> byte_size(Binary) >= Count
             end,
    Enough andalso taken(Binary, Steps, Rest, Model).

taken(Binary, Steps, Buffer, Model) ->
    Size = byte_size(Binary),
    case Model of
        <<Binary:Size/binary, Left/binary>> -> follow(Steps, Buffer, Left);
        _ -> false
    end.

%% --- etls_packet -----------------------------------------------------------------------------

%% However the stream is cut, the packets are those of decode_packet on the whole of it.
t_packets_do_not_depend_on_pieces(_Config) ->
    ?PROPERTY(packets_do_not_depend_on_pieces()).

packets_do_not_depend_on_pieces() ->
    ?FORALL({Type, Bodies, Cuts}, {packet_type(), list(binary()), list(range(1, 40))},
            begin
                Stream = iolist_to_binary([packet(Type, Body) || Body <- Bodies]),
                Expected = decode_all(Type, Stream),
                Cut = cut_and_read(Cuts, Stream, etls_packet:new(Type, 0)),
                Expected =:= Cut
            end).

packet_type() -> oneof([1, 2, 4, line, http, http_bin, httph, asn1, sunrm, tpkt, cdr, fcgi]).

packet(N, Body) when is_integer(N) ->
    Size = min(byte_size(Body), 1 bsl (8 * N) - 1),
    [<<Size:N/unit:8>>, binary:part(Body, 0, Size)];
packet(line, Body) -> [Body, $\n];
packet(Http, Body) when Http =:= http; Http =:= http_bin ->
    ["GET /", integer_to_list(byte_size(Body)), " HTTP/1.1\r\n", packet(httph, Body)];
packet(httph, Body) -> ["X-Length: ", integer_to_list(byte_size(Body)), "\r\nHost: a\r\n\r\n"];
packet(asn1, Body) ->
    Size = min(127, byte_size(Body)),
    [16#30, Size, binary:part(Body, 0, Size)];
packet(sunrm, Body) -> [<<1:1, (byte_size(Body)):31>>, Body];
packet(tpkt, Body) -> [<<3, 0, (byte_size(Body) + 4):16>>, Body];
packet(cdr, Body) -> [<<"GIOP", 1, 2, 0, 0, (byte_size(Body)):32>>, Body];
packet(fcgi, Body) -> [<<1, 5, 0, 1, (byte_size(Body)):16, 3, 0>>, Body, 0, 0, 0].

decode_all(Type, Stream) -> decode_all(Type, Type, Stream).

decode_all(Type, Now, Stream) ->
    case erlang:decode_packet(Now, Stream, []) of
        {ok, http_eoh, Rest} -> [http_eoh | decode_all(Type, Type, Rest)];
        {ok, Packet, Rest} -> [Packet | decode_all(Type, headers(Type), Rest)];
        {more, _} -> []
    end.

headers(http) -> httph;
headers(http_bin) -> httph_bin;
headers(Type) -> Type.

cut_and_read(_, <<>>, Packets) ->
    {Read, _} = read_all(Packets),
    Read;
cut_and_read([Cut | Cuts], Stream, Packets0) when byte_size(Stream) > Cut ->
    <<Piece:Cut/binary, Left/binary>> = Stream,
    {Read, Packets} = read_all(etls_packet:push(Piece, Packets0)),
    Read ++ cut_and_read(Cuts, Left, Packets);
cut_and_read(_, Stream, Packets) ->
    cut_and_read([], <<>>, etls_packet:push(Stream, Packets)).

read_all(Packets0) ->
    case etls_packet:next(0, Packets0) of
        {ok, Packet, Packets1} ->
            {Read, Packets} = read_all(Packets1),
            {[Packet | Read], Packets};
        {more, Packets} ->
            {[], Packets}
    end.

t_types_change_without_losing_bytes(_Config) ->
    P0 = etls_packet:push(<<0, 2, "ab", "line\n", "rest">>, etls_packet:new(2, 0)),
    {ok, <<"ab">>, P1} = etls_packet:next(0, P0),
    {ok, <<"line\n">>, P2} = etls_packet:next(0, etls_packet:set_type(line, P1)),
    {more, P3} = etls_packet:next(0, P2),
    {ok, <<"res">>, P4} = etls_packet:next(3, etls_packet:set_type(raw, P3)),
    {ok, <<"t">>, P5} = etls_packet:next(0, P4),
    {more, _} = etls_packet:next(0, P5).

t_too_long_a_packet_is_an_error(_Config) ->
    P = etls_packet:push(<<0, 0, 0, 11>>, etls_packet:new(4, 10)),
    ?assertEqual({error, emsgsize}, etls_packet:next(0, P)).

%% 64 MB in 1 KB pieces: joining all of them at each piece would take minutes.
t_a_long_packet_costs_no_more_per_byte(_Config) ->
    Piece = binary:copy(<<"x">>, 1024),
    Pieces = 65536,
    [begin
         P0 = etls_packet:push(Start, etls_packet:new(Type, 0)),
         {Time, P1} = timer:tc(fun() -> push_and_try(Pieces, Piece, P0) end),
         {ok, Packet, _} = etls_packet:next(0, etls_packet:push(End, P1)),
         ?assert(byte_size(Packet) >= Pieces * 1024),
         ?assertMatch({_, T} when T < 20000000, {Type, Time})
     end || {Type, Start, End} <- [{4, <<(Pieces * 1024 + 1):32>>, <<"y">>},
                                   {line, <<"a">>, <<"\n">>}]].

push_and_try(0, _Piece, Packets) ->
    Packets;
push_and_try(N, Piece, Packets0) ->
    {more, Packets} = etls_packet:next(0, etls_packet:push(Piece, Packets0)),
    push_and_try(N - 1, Piece, Packets).

%% --- etls_reader: film strips ----------------------------------------------------------------

reader() -> reader(#stream{}).
reader(Stream) -> etls_reader:new(Stream).

t_recv_waits_for_exactly_so_many_bytes(_Config) ->
    {[], R1} = etls_reader:recv(a, 4, reader()),
    {[], R2} = etls_reader:data(<<"abc">>, R1),
    {[{reply, a, {ok, <<"abcd">>}}], R3} = etls_reader:data(<<"de">>, R2),
    {[{reply, b, {ok, <<"e">>}}], _} = etls_reader:recv(b, 0, R3).

t_recv_callers_are_served_in_turn(_Config) ->
    {[], R1} = etls_reader:recv(a, 3, reader()),
    {[], R2} = etls_reader:recv(b, 2, R1),
    {[], R3} = etls_reader:data(<<"xy">>, R2),
    % a is gone: what b wants is there
    {[{reply, b, {ok, <<"xy">>}}], _} = etls_reader:forget(a, R3).

t_an_end_is_told_once_and_after_the_data(_Config) ->
    {[], R1} = etls_reader:ended(econnreset, reader()),
    {[], R2} = etls_reader:data(<<"last">>, R1),
    {[], R3} = etls_reader:eof(R2),
    {[{reply, a, {ok, <<"last">>}}], R4} = etls_reader:recv(a, 0, R3),
    {[{reply, b, {error, econnreset}}], R5} = etls_reader:recv(b, 0, R4),
    {[{reply, c, {error, closed}}], R6} = etls_reader:recv(c, 0, R5),
    % and so it is not told again to an active owner
    {[], _} = etls_reader:set([{active, true}], R6).

t_an_end_needs_both_its_halves(_Config) ->
    {[], R1} = etls_reader:set([{active, true}], reader()),
    {[], R2} = etls_reader:eof(R1),
    {[{terminal, closed}], R3} = etls_reader:ended(closed, R2),
    {[], _} = etls_reader:ended(econnaborted, R3).

t_too_little_for_one_recv_is_there_for_another(_Config) ->
    {[], R1} = etls_reader:recv(a, 10, reader()),
    {[], R2} = etls_reader:data(<<"less">>, R1),
    {[], R3} = etls_reader:ended(closed, R2),
    {[{reply, a, {error, closed}}], R4} = etls_reader:eof(R3),
    {[{reply, b, {ok, <<"less">>}}], R5} = etls_reader:recv(b, 0, R4),
    ?assertEqual(0, etls_reader:size(R5)).

t_all_who_wait_hear_of_the_end(_Config) ->
    {[], R1} = etls_reader:recv(a, 0, reader()),
    {[], R2} = etls_reader:recv(b, 0, R1),
    {[], R3} = etls_reader:ended(econnreset, R2),
    {[{reply, a, {error, econnreset}}, {reply, b, {error, closed}}], _} = etls_reader:eof(R3).

t_active_once_and_counts(_Config) ->
    {[], R1} = etls_reader:set([{active, once}], reader()),
    {[{deliver, <<"a">>}], R2} = etls_reader:data(<<"a">>, R1),
    {[], R3} = etls_reader:data(<<"b">>, R2),
    {[{deliver, <<"b">>}], R4} = etls_reader:set([{active, 2}], R3),
    ?assertEqual(1, etls_reader:get(active, R4)),
    {[{reply, x, {error, einval}}], R5} = etls_reader:recv(x, 0, R4),
    {[{deliver, <<"c">>}, passive], R6} = etls_reader:data(<<"c">>, R5),
    ?assertEqual(false, etls_reader:get(active, R6)),
    {[passive], R7} = etls_reader:set([{active, -1}], R6),
    {[], R8} = etls_reader:set([{active, 32767}], R7),
    ?assertEqual({error, einval}, etls_reader:check_active(1, R8)),
    ?assertEqual(ok, etls_reader:check_active(-1, R8)),
    {[passive], _} = etls_reader:set([{active, -32768}], R8).

t_nothing_is_delivered_between_owners(_Config) ->
    {[], R1} = etls_reader:set([{active, true}], reader()),
    {[], R2} = etls_reader:data(<<"a">>, etls_reader:hold(R1)),
    {[{deliver, <<"a">>}], _} = etls_reader:release(R2).

t_reading_ahead_is_bounded(_Config) ->
    R1 = fill(reader(), 0),
    ?assert(etls_reader:size(R1) >= 2097152),
    ?assert(etls_reader:size(R1) < 2097152 + 65536),
    % but whoever asks for more gets more
    {[], R2} = etls_reader:recv(a, 4000000, R1),
    ?assert(etls_reader:wants_data(R2)),
    {_, R3} = etls_reader:discard(R2),
    ?assertEqual(0, etls_reader:size(R3)),
    ?assert(etls_reader:wants_data(R3)).

fill(R0, N) ->
    case etls_reader:wants_data(R0) of
        true when N < 1000 ->
            {[], R} = etls_reader:data(binary:copy(<<0>>, 65536), R0),
            fill(R, N + 1);
        false ->
            R0
    end.

t_too_long_a_packet_breaks_the_stream(_Config) ->
    Stream = #stream{packet = 1, packet_size = 2},
    {[], A1} = etls_reader:set([{active, true}], reader(Stream)),
    {[{terminal, emsgsize}, broken], _} = etls_reader:data(<<3, "abc">>, A1),
    {[], P1} = etls_reader:recv(a, 0, reader(Stream)),
    {[{reply, a, {error, emsgsize}}, broken], _} = etls_reader:data(<<3, "abc">>, P1).

t_lists_are_made_of_binaries_only(_Config) ->
    {[], R1} = etls_reader:set([{active, true}], reader(#stream{mode = list})),
    {[{deliver, "abc"}], R2} = etls_reader:data(<<"abc">>, R1),
    {[], R3} = etls_reader:set([{packet, http}], R2),
    {[{deliver, {http_request, 'GET', {abs_path, "/"}, {1, 1}}}], _} =
        etls_reader:data(<<"GET / HTTP/1.1\r\n">>, R3).

%% Whatever happens in whatever order, the bytes come whole and in order, and the end once, last.
t_the_stream_is_what_was_sent(_Config) ->
    ?PROPERTY(the_stream_is_what_was_sent()).

the_stream_is_what_was_sent() ->
    Step = frequency([{4, {data, binary()}}, {3, {recv, range(0, 5)}}, {1, forget},
                      {2, {active, oneof([true, false, once, range(-2, 5)])}},
                      {1, hold}, {1, release}]),
    ?FORALL(
        {Steps, Reason},
        {list(Step), oneof([closed, econnreset])},
        begin
            Sent = iolist_to_binary([Data || {data, Data} <- Steps]),
            {Effects, R} = play(Steps, 1, reader(), []),
            {E1, R1} = etls_reader:release(R),
            {E2, R2} = etls_reader:ended(Reason, R1),
            {E3, R3} = etls_reader:eof(R2),
            {E4, R4} = etls_reader:set([{active, false}], R3),
            {E5, R5} = etls_reader:set([{active, true}], R4),
            {E6, _} = etls_reader:set([{active, true}], R5),
            All = Effects ++ E1 ++ E2 ++ E3 ++ E4 ++ E5 ++ E6,
            Got = iolist_to_binary([Data || E <- All, Data <- bytes(E)]),
            Told = [E || E <- All, is_end(E)],
            Sent =:= Got andalso length(Told) =:= 1
        end).

bytes({deliver, Data}) -> [Data];
bytes({reply, _, {ok, Data}}) -> [Data];
bytes(_) -> [].

%% `closed' may be told to several who wait; a reason, only to the first.
is_end({terminal, _}) -> true;
is_end({reply, first_to_hear, {error, _}}) -> true;
is_end(_) -> false.

%% At most one recv waits at a time, so that the end has one hearer.
play([], _, R, Effects) ->
    {Effects, R};
play([{data, Data} | Steps], N, R0, Effects) ->
    {E, R} = etls_reader:data(Data, R0),
    play(Steps, N, R, Effects ++ E);
play([{recv, Length} | Steps], N, R0, Effects) ->
    {E1, R1} = etls_reader:forget(first_to_hear, R0),
    {E2, R} = etls_reader:recv(first_to_hear, Length, R1),
    % Not an end: a recv on an active socket.
    NoEinval = [E || E <- E2, E =/= {reply, first_to_hear, {error, einval}}],
    play(Steps, N + 1, R, Effects ++ E1 ++ NoEinval);
play([forget | Steps], N, R0, Effects) ->
    {E, R} = etls_reader:forget(first_to_hear, R0),
    play(Steps, N, R, Effects ++ E);
play([{active, Active} | Steps], N, R0, Effects) ->
    {E, R} = etls_reader:set([{active, Active}], R0),
    play(Steps, N, R, Effects ++ E);
play([hold | Steps], N, R, Effects) ->
    play(Steps, N, etls_reader:hold(R), Effects);
play([release | Steps], N, R0, Effects) ->
    {E, R} = etls_reader:release(R0),
    play(Steps, N, R, Effects ++ E).

%% --- etls_options ----------------------------------------------------------------------------

t_defaults(_Config) ->
    {ok, #{stream := Stream, arguments := Arguments}} = etls_options:connect("localhost", 1, []),
    ?assertEqual(#stream{}, Stream),
    ?assertEqual(#{host => <<"localhost">>, port => 1, family => any, tcp => #{}, tls => #{},
                   server_name => <<"localhost">>}, Arguments).

t_hosts(_Config) ->
    [begin
         {ok, #{arguments := #{host := Told}}} = etls_options:connect(Host, Port, []),
         ?assertEqual({Host, Expected}, {Host, Told})
     end
     || {Host, Port, Expected} <- [
                            {"127.0.0.1", 1, {127, 0, 0, 1}},
                            {<<"::1">>, 1, {0, 0, 0, 0, 0, 0, 0, 1}},
                            {{1, 2, 3, 4}, 1, {1, 2, 3, 4}}, {localhost, 1, <<"localhost">>},
                            {{local, "/tmp/s"}, 0, {local, <<"/tmp/s">>}}]],
    [?assertEqual({H, {error, einval}}, {H, etls_options:connect(H, 1, [])})
     || H <- ["", <<>>, 17, {1, 2}, "a b", [0], [foo], {local, ""}, lists:duplicate(256, $a)]],
    [?assertEqual({error, einval}, etls_options:connect("h", P, []))
     || P <- [0, -1, 65536, a, 1.0]].

t_whom_a_client_verifies(_Config) ->
    Name = fun(Host, Port, Options) ->
                   {ok, #{arguments := A}} = etls_options:connect(Host, Port, Options),
                   {maps:get(hostname, A, none), maps:get(server_name, A, none)}
           end,
    Verify = {verify, verify_peer},
    ?assertEqual({<<"h.org">>, <<"h.org">>}, Name("h.org.", 1, [Verify])),
    ?assertEqual({<<"10.0.0.1">>, none}, Name("10.0.0.1", 1, [Verify])),
    ?assertEqual({none, none}, Name("h", 1, [Verify, {server_name_indication, disable}])),
    ?assertEqual({<<"o">>, <<"o">>}, Name("h", 1, [Verify, {server_name_indication, "o"}])),
    ?assertEqual({none, <<"h">>}, Name("h", 1, [{verify_type, verify_peer}])),
    ?assertEqual({<<"r">>, <<"h">>},
                 Name("h", 1, [{verify_type, verify_peer}, {rfc2818_verification_hostname, "r"}])),
    ?assertEqual({error, {options, {verify, hostname_required}}},
                 etls_options:connect({local, "/s"}, 0, [Verify])),
    ?assertEqual({error, {options, {verify, contradicts_verify_type}}},
                 etls_options:connect("h", 1, [Verify, {verify_type, verify_none}])).

t_where_to_listen(_Config) ->
    Listen = fun(Port, Options) ->
                     case etls_options:listen(Port, [{certfile, "c"} | Options]) of
                         {ok, #{arguments := #{address := Address, family := Family}}} ->
                             {Address, Family};
                         Error -> Error
                     end
             end,
    Any6 = {0, 0, 0, 0, 0, 0, 0, 0},
    ?assertEqual({{{0, 0, 0, 0}, 5}, inet}, Listen(5, [])),
    ?assertEqual({{Any6, 5}, inet6}, Listen(5, [inet6])),
    ?assertEqual({{Any6, 5}, inet6}, Listen(5, [{ip, Any6}])),
    ?assertEqual({{{127, 0, 0, 1}, 0}, inet}, Listen(0, [{ifaddr, loopback}])),
    ?assertEqual({{local, <<"/s">>}, local}, Listen(0, [{ip, {local, "/s"}}])),
    ?assertEqual({error, {options, {ip, contradicts_family}}}, Listen(0, [inet, {ip, Any6}])),
    ?assertEqual({error, einval}, Listen(65536, [])),
    ?assertEqual({error, {options, {certfile, required}}}, etls_options:listen(0, [])).

t_wrong_options_are_named(_Config) ->
    [?assertEqual({Option, {error, {options, Why}}},
                  {Option, etls_options:connect("h", 1, [Option])})
     || {Option, Why} <- [{{nodelay, 1}, {nodelay, {invalid, 1}}}, {{what, 1}, {what, unknown}},
                          {what, {what, unknown}}, {{active, 32768}, {active, {invalid, 32768}}},
                          {{certfile, <<"-----BEGIN PRIVATE KEY-----">>}, {certfile, not_a_path}},
                          {{backlog, 5}, {backlog, server_only}},
                          {{alpn_preferred_protocols, [<<"a">>]},
                           {alpn_preferred_protocols, server_only}},
                          {{cacerts, [secret]}, {cacerts, invalid}},
                          {{versions, []}, {versions, {invalid, []}}}]],
    ?assertEqual({error, einval}, etls_options:connect("h", 1, [binary | list])),
    ?assertEqual({error, {options, {certfile, not_settable}}}, etls_options:set([{certfile, "c"}])),
    [?assertEqual({error, {options, {Name, unknown}}}, etls_options:names([active, Name]))
     || Name <- [certfile, backlog]].

%% Else it would be the daemon that refuses it, and log it as the link's fault.
t_what_the_daemon_cannot_read_is_not_sent(_Config) ->
    Local = fun(Path) ->
                    {element(1, etls_options:connect({local, Path}, 0, [])),
                     element(1, etls_options:listen(0, [{ip, {local, Path}}, {certfile, "c"}]))}
            end,
    [?assertEqual({Path, {error, error}}, {Path, Local(Path)})
     || Path <- [<<>>, "", <<"/a", 0, "b">>, "/a\0b", lists:duplicate(108, $a),
                 lists:duplicate(60, 16#e4)]],
    [?assertEqual({Path, {ok, ok}}, {Path, Local(Path)})
     || Path <- [lists:duplicate(107, $a), <<0, "abstract">>, <<0, "a", 0, "b">>]],
    [?assertMatch({Ciphers, {error, {options, {ciphers, {invalid, _}}}}},
                  {Ciphers, etls_options:connect("h", 1, [{ciphers, Ciphers}])})
     || Ciphers <- [<<"ALL", 0>>, ["ALL", <<0>>], binary:copy(<<"a">>, 65536)]],
    ?assertEqual({ok, <<"ALL">>}, etls_options:cipher_filter("ALL")),
    [?assertMatch({error, {options, {ciphers, {invalid, _}}}}, etls_options:cipher_filter(Filter))
     || Filter <- ["", <<>>, <<0>>, [400], all, 1]].

%% A frame over the limit would be the end of the daemon, and of all connections.
t_no_options_exceed_a_frame(_Config) ->
    Half = binary:copy(<<0>>, 9000000),
    Other = [{crls, [<<>>]}, {certfile, "c"}],
    [begin
         ?assertEqual({error, {options, {Name, too_long}}}, etls_options:connect("h", 1, Options)),
         ?assertEqual({error, {options, {Name, too_long}}}, etls_options:listen(0, Options))
     end || {Name, Options} <- [{crls, [{crls, [Half, Half]}, {certfile, "c"}]},
                                {chain, [{chain, [Half, Half, Half]}, {cacerts, [Half]} | Other]},
                                {certfile, [{certfile, binary:copy(<<"a">>, 18000000)}]},
                                {versions, [{versions, lists:duplicate(2000000, 'tlsv1.3')}
                                            | Other]}]],
    {ok, #{arguments := Arguments}} = etls_options:listen(0, [{cacerts, [Half]} | Other]),
    ?assert(byte_size(term_to_binary(Arguments)) < 16777216),
    {ok, #{tcp := Tcp}} = etls_options:names(lists:duplicate(1000, nodelay)),
    ?assertEqual([nodelay], Tcp).

t_a_wrong_value_is_never_repeated_at_length(_Config) ->
    Long = binary:copy(<<"secret">>, 1000),
    [begin
         {error, {options, Why}} = etls_options:connect("h", 1, [Option]),
         ?assert(erts_debug:flat_size(Why) < 200)
     end || Option <- [{nodelay, Long}, {keyfile, {Long}}, {cacerts, Long}, {Long, 1}, Long,
                       {active, [Long]}, {ciphers, [Long, x]}, {mode, lists:duplicate(1000, x)}]].

t_the_first_of_two_counts(_Config) ->
    Options = [list, {mode, binary}, {packet, 4}, {packet, 1}],
    {ok, #{stream := S}} = etls_options:connect("h", 1, Options),
    ?assertMatch(#stream{mode = list, packet = 4}, S).

%% No term at all makes it crash.
t_any_term_is_an_option_or_an_error(_Config) ->
    Names = [active, mode, packet, linger, ip, cacerts, certfile, ciphers, versions, verify,
             alpn_advertised_protocols, server_name_indication, sndbuf, port, local, chain],
    ?PROPERTY(?FORALL({Name, Value}, {oneof(Names), any()},
                      begin
                          R1 = etls_options:connect("h", 1, [{Name, Value}]),
                          R2 = etls_options:listen(0, [{Name, Value}]),
                          R3 = etls_options:set([{Name, Value}]),
                          [] =:= [R || R <- [R1, R2, R3],
                                       element(1, R) =/= ok, element(1, R) =/= error]
                      end)),
    ?PROPERTY(?FORALL(Any, any(), element(1, etls_options:connect("h", 1, Any)) =:= error
                                  orelse is_list(Any))).

%% --- etls_protocol ---------------------------------------------------------------------------

t_replies_find_their_process(_Config) ->
    Id = etls_protocol:id(self(), 7),
    ?assert(byte_size(term_to_binary(Id)) < 256),
    ?assertEqual({reply, {process, self(), 7}, ok}, decode({reply, Id, ok})),
    ?assertEqual({reply, {call, 3}, {ok, #{}}}, decode({reply, 3, {ok, #{}}})),
    ?assertEqual({event, self(), 7, {ended, close_notify}},
                 decode({event, Id, {ended, close_notify}})),
    ?assertEqual({log, notice, <<"x">>}, decode({event, log, {notice, <<"x">>}})).

t_texts_become_strings(_Config) ->
    Result = fun(Reason) ->
                     {reply, _, {error, Told}} = decode({reply, 1, {error, Reason}}),
                     Told
             end,
    ?assertEqual({tls_alert, {unknown_ca, "no"}}, Result({tls_alert, {unknown_ca, <<"no">>}})),
    ?assertEqual({options, {certfile, {enoent, "/ü"}}},
                 Result({options, {certfile, {enoent, <<"/ü"/utf8>>}}})),
    ?assertEqual(econnrefused, Result(econnrefused)).

t_the_daemon_makes_no_atoms(_Config) ->
    Unheard = <<"atom_", (integer_to_binary(erlang:unique_integer([positive])))/binary>>,
    Size = byte_size(Unheard),
    Id = term_to_binary(5),
    <<131, IdBytes/binary>> = Id,
    Frame = <<131, 104, 3, 119, 5, "reply", IdBytes/binary, 119, Size, Unheard/binary>>,
    ?assertEqual({reply, {call, 5}, {error, bad_reply}}, etls_protocol:decode(Frame)),
    ?assertError(badarg, binary_to_existing_atom(Unheard)).

t_no_frame_makes_it_crash(_Config) ->
    ?PROPERTY(?FORALL(Bytes, binary(), is_frame(etls_protocol:decode(<<131, Bytes/binary>>)))),
    ?PROPERTY(?FORALL(Term, any(), is_frame(decode(Term)))),
    ?PROPERTY(?FORALL({Tag, A, B}, {oneof([reply, event]), any(), any()},
                      is_frame(decode({Tag, A, B})))).

is_frame(Frame) -> lists:member(element(1, Frame), [reply, event, log, error]).

decode(Term) -> etls_protocol:decode(term_to_binary(Term)).

%% --- etls_cipher, etls_error -----------------------------------------------------------------

%% ssl knows the same suites by the same names.
t_suites_are_as_ssl_has_them(_Config) ->
    Suites = ssl:cipher_suites(all, 'tlsv1.3') ++ ssl:cipher_suites(all, 'tlsv1.2'),
    Known = [{Suite, etls_cipher:suite(list_to_binary(ssl:suite_to_str(Suite)))}
             || Suite <- Suites],
    [?assertEqual({ok, Suite}, Told) || {Suite, Told} <- Known, Told =/= {error, unknown}],
    ?assert(length([1 || {_, {ok, _}} <- Known]) > 40),
    ?assertEqual({error, unknown}, etls_cipher:suite(<<"TLS_NO_WITH_SUCH_THING">>)),
    ?assertEqual({error, unknown}, etls_cipher:suite(<<"TLS_">>)),
    ?assertEqual({error, unknown}, etls_cipher:suite(<<>>)).

t_every_reason_has_words(_Config) ->
    Reasons = [closed, timeout, econnrefused, nxdomain, not_owner, not_started, no_peercert,
               protocol_not_negotiated, {tls_alert, {unknown_ca, "x"}}, bad_frame,
               {options, {certfile, required}}, {options, {certfile, {enoent, "/c"}}},
               {options, {certfile, {key_mismatch, "/c"}}}, {options, {{x}, unknown}},
               {daemon, {exit_status, 3}}, {cannot_start_daemon, "/d", enoent},
               {bad_env, {link, x}},
               {bad_request, "x"}, {error, closed}],
    [begin
         Words = etls:format_error(Reason),
         ?assert(io_lib:printable_unicode_list(Words)),
         ?assertNotEqual("", Words)
     end || Reason <- Reasons],
    ?assertEqual("option certfile: /c: no such file or directory",
                 etls:format_error({options, {certfile, {enoent, "/c"}}})),
    ?PROPERTY(?FORALL(Any, any(), is_list(etls:format_error(Any)))).
