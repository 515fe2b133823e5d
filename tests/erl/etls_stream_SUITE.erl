%% The stream semantics of gen_tcp and ssl: reading, active modes, packets, ends, time-outs, owners.
-module(etls_stream_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([recv_waits_for_exactly_the_bytes_asked/1, recv_of_zero_returns_what_is_there/1,
         recv_timeout_loses_no_data/1, recv_timeout_zero_takes_only_what_is_there/1,
         recv_timeout_zero_gets_a_long_piece_in_the_end/1,
         recv_of_many_megabytes_at_once/1, receivers_are_served_in_order/1,
         a_dead_receiver_takes_no_data/1, recv_on_an_active_socket_is_einval/1,
         recv_of_a_senseless_length_is_einval/1]).
-export([active_true_delivers_as_it_comes/1, active_once_delivers_one_message/1,
         active_n_counts_down_to_passive/1, active_n_adds_up/1, active_n_below_zero_is_passive/1,
         active_n_out_of_range_is_refused/1, passive_sends_no_message/1,
         data_read_ahead_is_delivered_when_made_active/1,
         messages_carry_the_very_socket/1]).
-export([every_packet_type_is_read_passively/1, every_packet_type_is_read_actively/1,
         packets_in_pieces_are_put_together/1, headers_are_added_by_send/1,
         a_hundred_megabyte_packet_arrives/1, modes_switch_midstream_passively/1,
         modes_switch_midstream_actively/1, packet_size_bounds_packets/1,
         packet_size_bounds_active_packets/1, too_long_for_the_header_is_emsgsize/1,
         lists_where_asked/1, an_incomplete_packet_before_the_end_is_closed/1]).
-export([close_is_told_once_in_active_true/1, close_is_told_once_in_active_once/1,
         close_is_told_once_in_active_n/1, close_is_told_by_recv_in_passive/1,
         data_comes_before_the_close/1, data_comes_before_an_alert/1, data_comes_before_a_reset/1,
         data_comes_before_a_truncation/1, a_received_alert_is_told_by_name/1,
         own_close_sends_no_message/1, close_ends_a_waiting_recv/1,
         close_delivers_what_was_sent/1, close_sends_close_notify/1,
         peers_half_close_leaves_sending_with_exit_on_close_false/1,
         peers_half_close_closes_with_exit_on_close_true/1,
         shutdown_write_lets_us_read_on/1, shutdown_read_ends_reading/1,
         shutdown_read_write_ends_both/1, shutdown_of_something_else_is_einval/1]).
-export([concurrent_sends_are_atomic/1, a_blocked_send_does_not_block_recv/1,
         a_waiting_recv_does_not_block_send/1, send_takes_iodata_and_nothing_else/1,
         an_empty_send_is_fine/1, send_timeout_is_told/1, send_timeout_close_closes/1,
         linger_zero_resets/1, a_reset_ends_a_blocked_send/1]).
-export([accept_timeout_loses_no_connection/1, a_dead_acceptor_loses_no_connection/1,
         connect_timeout_leaves_nothing/1, a_dead_connector_leaves_nothing/1,
         handshake_timeout_leaves_nothing/1, timeout_zero_is_a_timeout/1]).
-export([controlling_process_moves_messages/1, controlling_process_is_for_the_owner/1,
         controlling_process_of_a_listener/1, the_owners_death_closes/1,
         the_owners_death_before_the_handshake_closes/1, the_listeners_owners_death_closes_it/1,
         an_accepted_socket_outlives_its_listener/1]).
-export([nothing_is_left_behind/1]).

-import(etls_test_lib, [pair/1, pair/2, pair/3, ssl_pair/3, ssl_listen/2, listen/1, listen/2,
                        versions/1, accept_in_background/2, accepted/1, in_process/1, result/1,
                        result/2, no_messages/0, stats/0, usage/0, assert_back_to/1,
                        eventually/1]).

-define(LOCAL, {127, 0, 0, 1}).
-define(BOUND, 5000).
-define(assertReceive(Pattern),
        receive Pattern -> ok
        after ?BOUND ->
                error({not_received, ??Pattern, process_info(self(), messages)})
        end).

suite() -> [{timetrap, {seconds, 60}}].

all() -> etls_test_lib:all().

groups() ->
    Versions = ['tlsv1.3', 'tlsv1.2'],
    etls_test_lib:combined([{group, Version} || Version <- Versions] ++ [nothing_is_left_behind])
        ++ [{Version, [], etls_test_lib:cases(?MODULE)} || Version <- Versions].

init_per_suite(Config) -> etls_test_lib:prepare(Config).
end_per_suite(_Config) -> ok.

init_per_group(Name, Config) ->
    case etls_test_lib:is_combination(Name) of
        true -> etls_test_lib:enter(Name, Config);
        false -> [{version, Name} | Config]
    end.

end_per_group(Name, Config) ->
    case etls_test_lib:is_combination(Name) of
        true -> etls_test_lib:leave(Config);
        false -> ok
    end.

init_per_testcase(Case, Config) ->
    ok = etls_test_lib:watch(Case),
    Config.

end_per_testcase(_Case, _Config) -> ok.

%%% Passive reading

recv_waits_for_exactly_the_bytes_asked(Config) ->
    {Client, Server} = pair(Config),
    Receiving = in_process(fun() -> [etls:recv(Client, N, ?BOUND) || N <- [5, 1, 4]] end),
    ok = etls:send(Server, <<"01">>),
    ok = etls:send(Server, <<"23456">>),
    ok = etls:send(Server, <<"789">>),
    ?assertEqual([{ok, <<"01234">>}, {ok, <<"5">>}, {ok, <<"6789">>}], result(Receiving)).

recv_of_zero_returns_what_is_there(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Server, <<"0123456789">>),
    ?assertEqual({ok, <<"0">>}, etls:recv(Client, 1, ?BOUND)),
    ?assertEqual({ok, <<"123456789">>}, etls:recv(Client, 0, ?BOUND)).

recv_timeout_loses_no_data(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Server, <<"01234">>),
    ?assertEqual({error, timeout}, etls:recv(Client, 10, 50)),
    ?assertEqual({ok, <<"01">>}, etls:recv(Client, 2, ?BOUND)),
    ok = etls:send(Server, <<"5">>),
    ?assertEqual({ok, <<"2345">>}, etls:recv(Client, 4, ?BOUND)),
    ?assertEqual({error, timeout}, etls:recv(Client, 0, 50)),
    no_messages().

recv_timeout_zero_takes_only_what_is_there(Config) ->
    {Client, Server} = pair(Config),
    ?assertEqual({error, timeout}, etls:recv(Client, 0, 0)),
    ok = etls:send(Server, <<"0123">>),
    ?assertEqual({ok, <<"0">>}, etls:recv(Client, 1, ?BOUND)),
    ?assertEqual({ok, <<"12">>}, etls:recv(Client, 2, 0)),
    ?assertEqual({error, timeout}, etls:recv(Client, 2, 0)),
    ?assertEqual({ok, <<"3">>}, etls:recv(Client, 1, 0)).

%% More than is read ahead of a reader who does not wait.
recv_timeout_zero_gets_a_long_piece_in_the_end(Config) ->
    Data = crypto:strong_rand_bytes(8000000),
    [begin
         {Client, Server} = pair(Config, [{packet, Packet}], [{packet, Packet}]),
         Sending = in_process(fun() -> etls:send(Server, Data) end),
         Received = eventually(fun() ->
                                       {ok, Whole} = etls:recv(Client, Length, 0),
                                       Whole
                               end),
         ?assert(Data =:= Received),
         ?assertEqual(ok, result(Sending))
     end || {Packet, Length} <- [{raw, byte_size(Data)}, {4, 0}]].

recv_of_many_megabytes_at_once(Config) ->
    {Client, Server} = pair(Config),
    Data = crypto:strong_rand_bytes(20000000),
    Sending = in_process(fun() -> etls:send(Server, Data) end),
    {ok, Received} = etls:recv(Client, byte_size(Data), 30000),
    ?assert(Data =:= Received),
    ok = result(Sending).

receivers_are_served_in_order(Config) ->
    {Client, Server} = pair(Config),
    Receiving = [begin
                     Running = in_process(fun() -> etls:recv(Client, N, ?BOUND) end),
                     ok = waits_in_gen(Running),
                     Running
                 end || N <- [3, 2, 1]],
    ok = etls:send(Server, <<"333221">>),
    ?assertEqual([{ok, <<"333">>}, {ok, <<"22">>}, {ok, <<"1">>}],
                 [result(Running) || Running <- Receiving]).

%% Until the process waits for an answer: its request is in the other's mailbox then.
waits_in_gen({Pid, _, _}) ->
    eventually(fun() ->
                       {status, waiting} = process_info(Pid, status),
                       {current_function, {gen, do_call, 4}} =
                           process_info(Pid, current_function)
               end),
    ok.

a_dead_receiver_takes_no_data(Config) ->
    {Client, Server} = pair(Config),
    {Pid, Monitor, _} = Dead = in_process(fun() -> etls:recv(Client, 4) end),
    ok = waits_in_gen(Dead),
    exit(Pid, kill),
    ?assertReceive({'DOWN', Monitor, process, Pid, killed}),
    ok = etls:send(Server, <<"alive">>),
    ?assertEqual({ok, <<"alive">>}, etls:recv(Client, 5, ?BOUND)).

recv_on_an_active_socket_is_einval(Config) ->
    {Client, _Server} = pair(Config),
    [begin
         ok = etls:setopts(Client, [{active, Active}]),
         ?assertEqual({error, einval}, etls:recv(Client, 0, 1000))
     end || Active <- [true, once, 3]],
    ok = etls:setopts(Client, [{active, false}]),
    ?assertEqual({error, timeout}, etls:recv(Client, 0, 10)).

recv_of_a_senseless_length_is_einval(Config) ->
    {Client, _Server} = pair(Config),
    ?assertEqual({error, einval}, etls:recv(Client, -1, 1000)).

%%% Active reading

active_true_delivers_as_it_comes(Config) ->
    {Client, Server} = pair(Config, [{active, true}]),
    [begin
         ok = etls:send(Server, Data),
         ?assertReceive({etls, Client, Data})
     end || Data <- [<<"one">>, <<"two">>, <<"three">>]],
    ok = etls:setopts(Client, [{active, false}]),
    ok = etls:send(Server, <<"four">>),
    ?assertEqual({ok, <<"four">>}, etls:recv(Client, 4, ?BOUND)),
    no_messages().

active_once_delivers_one_message(Config) ->
    {Client, Server} = pair(Config, [{packet, 1}], [{packet, 1}, {active, once}]),
    [ok = etls:send(Server, Data) || Data <- [<<"one">>, <<"two">>, <<"three">>]],
    ?assertReceive({etls, Client, <<"one">>}),
    no_messages(),
    ?assertEqual({ok, [{active, false}]}, etls:getopts(Client, [active])),
    ok = etls:setopts(Client, [{active, once}]),
    ?assertReceive({etls, Client, <<"two">>}),
    ?assertEqual({ok, <<"three">>}, etls:recv(Client, 0, ?BOUND)),
    no_messages().

active_n_counts_down_to_passive(Config) ->
    {Client, Server} = pair(Config, [{packet, 1}], [{packet, 1}, {active, 2}]),
    [ok = etls:send(Server, Data) || Data <- [<<"one">>, <<"two">>, <<"three">>]],
    ?assertReceive({etls, Client, <<"one">>}),
    ?assertReceive({etls, Client, <<"two">>}),
    ?assertReceive({etls_passive, Client}),
    no_messages(),
    ?assertEqual({ok, [{active, false}]}, etls:getopts(Client, [active])),
    ?assertEqual({ok, <<"three">>}, etls:recv(Client, 0, ?BOUND)).

active_n_adds_up(Config) ->
    {Client, Server} = pair(Config, [{packet, 1}], [{packet, 1}, {active, 2}]),
    ok = etls:setopts(Client, [{active, 3}]),
    ?assertEqual({ok, [{active, 5}]}, etls:getopts(Client, [active])),
    ok = etls:setopts(Client, [{active, -4}]),
    ?assertEqual({ok, [{active, 1}]}, etls:getopts(Client, [active])),
    ok = etls:send(Server, <<"one">>),
    ?assertEqual([{etls, Client, <<"one">>}, {etls_passive, Client}],
                 [receive M -> M after ?BOUND -> timeout end || _ <- [1, 2]]).

active_n_below_zero_is_passive(Config) ->
    {Client, _Server} = pair(Config, [{active, 2}]),
    ok = etls:setopts(Client, [{active, -5}]),
    ?assertReceive({etls_passive, Client}),
    ?assertEqual({ok, [{active, false}]}, etls:getopts(Client, [active])),
    no_messages().

active_n_out_of_range_is_refused(Config) ->
    {Client, _Server} = pair(Config, [{active, 32767}]),
    ?assertMatch({error, _}, etls:setopts(Client, [{active, 1}])),
    ?assertMatch({error, _}, etls:setopts(Client, [{active, 32768}])),
    ?assertMatch({error, _}, etls:setopts(Client, [{active, -32769}])),
    ?assertEqual({ok, [{active, 32767}]}, etls:getopts(Client, [active])).

passive_sends_no_message(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Server, <<"data">>),
    ok = etls:close(Server),
    ?assertEqual({ok, <<"data">>}, etls:recv(Client, 4, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)),
    no_messages().

data_read_ahead_is_delivered_when_made_active(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Server, <<"0123456789">>),
    ?assertEqual({ok, <<"0">>}, etls:recv(Client, 1, ?BOUND)),
    ok = etls:setopts(Client, [{active, once}]),
    ?assertReceive({etls, Client, <<"123456789">>}).

messages_carry_the_very_socket(Config) ->
    {Client, Server} = pair(Config, [{active, true}], [{active, true}]),
    ok = etls:send(Client, <<"to server">>),
    ok = etls:send(Server, <<"to client">>),
    receive {etls, S, <<"to server">>} -> ?assert(S =:= Server) after ?BOUND -> error(timeout) end,
    receive {etls, C, <<"to client">>} -> ?assert(C =:= Client) after ?BOUND -> error(timeout) end.

%%% Packets

every_packet_type_is_read_passively(Config) ->
    {Client, Server} = pair(Config),
    [begin
         ok = etls:setopts(Client, [{packet, Type}]),
         ok = etls:send(Server, Wire),
         Read = [etls:recv(Client, 0, ?BOUND) || _ <- Packets],
         ?assertEqual({Type, [{ok, Packet} || Packet <- Packets]}, {Type, Read})
     end || {Type, Wire, Packets} <- packets()],
    no_messages().

every_packet_type_is_read_actively(Config) ->
    {Client, Server} = pair(Config, [{active, true}]),
    [begin
         ok = etls:setopts(Client, [{packet, Type}]),
         ok = etls:send(Server, Wire),
         Read = [receive Message -> Message after ?BOUND -> timeout end || _ <- Packets],
         ?assertEqual({Type, [{etls, Client, Packet} || Packet <- Packets]}, {Type, Read})
     end || {Type, Wire, Packets} <- packets()],
    no_messages().

packets_in_pieces_are_put_together(Config) ->
    {Client, Server} = pair(Config),
    [begin
         ok = etls:setopts(Client, [{packet, Type}]),
         Receiving = in_process(fun() -> [etls:recv(Client, 0, ?BOUND) || _ <- Packets] end),
         [ok = etls:send(Server, <<Byte>>) || <<Byte>> <= iolist_to_binary(Wire)],
         ?assertEqual({Type, [{ok, Packet} || Packet <- Packets]}, {Type, result(Receiving)})
     end || {Type, Wire, Packets} <- packets(), Type =/= raw, Type =/= 0].

%% {packet type, what the peer sends, what is read}. Every type leaves nothing unread.
packets() ->
    Tpkt = <<3, 0, 0, 9, "hello">>,
    %% FastCGI: version, type, request id, content length, padding length, reserved, content; the
    %% padding after it is not handed out.
    Fcgi = <<1, 5, 0, 1, 0, 5, 3, 0, "hello">>,
    Padding = <<0, 0, 0>>,
    %% Sun RPC fragments: the top bit says "last", the rest is the length; CORBA: GIOP header.
    SunRpc = <<1:1, 5:31, "hello">>,
    Cdr = <<"GIOP", 1, 0, 0, 0, 5:32, "hello">>,
    Asn1 = <<16#30, 6, 2, 1, 5, 2, 1, 7>>,
    [{1, <<3, "one", 0, 5, "three">>, [<<"one">>, <<>>, <<"three">>]},
     {2, <<3:16, "one", 0:16, 5:16, "three">>, [<<"one">>, <<>>, <<"three">>]},
     {4, <<3:32, "one", 0:32, 5:32, "three">>, [<<"one">>, <<>>, <<"three">>]},
     {line, <<"one\n\nthree\r\n">>, [<<"one\n">>, <<"\n">>, <<"three\r\n">>]},
     {asn1, [Asn1, Asn1], [Asn1, Asn1]},
     {sunrm, [SunRpc, SunRpc], [SunRpc, SunRpc]},
     {cdr, [Cdr, Cdr], [Cdr, Cdr]},
     {fcgi, [Fcgi, Padding, Fcgi, Padding], [Fcgi, Fcgi]},
     {tpkt, [Tpkt, Tpkt], [Tpkt, Tpkt]},
     {http, <<"GET /p HTTP/1.1\r\nHost: a\r\nX-Own: b\r\n\r\n">>,
      [{http_request, 'GET', {abs_path, "/p"}, {1, 1}},
       {http_header, 14, 'Host', "Host", "a"},
       {http_header, 0, "X-Own", "X-Own", "b"}, http_eoh]},
     {http_bin, <<"HTTP/1.1 200 OK\r\nHost: a\r\n\r\n">>,
      [{http_response, {1, 1}, 200, <<"OK">>},
       {http_header, 14, 'Host', <<"Host">>, <<"a">>}, http_eoh]},
     {httph, <<"Host: a\r\n\r\n">>, [{http_header, 14, 'Host', "Host", "a"}, http_eoh]},
     {httph_bin, <<"Host: a\r\n\r\n">>,
      [{http_header, 14, 'Host', <<"Host">>, <<"a">>}, http_eoh]},
     {raw, <<"raw">>, [<<"raw">>]},
     {0, <<"raw">>, [<<"raw">>]}].

headers_are_added_by_send(Config) ->
    {Client, Server} = pair(Config),
    [begin
         ok = etls:setopts(Server, [{packet, Type}]),
         ok = etls:send(Server, ["he", <<"llo">>]),
         ok = etls:send(Server, <<>>),
         ?assertEqual({Type, {ok, Wire}}, {Type, etls:recv(Client, byte_size(Wire), ?BOUND)})
     end || {Type, Wire} <- [{1, <<5, "hello", 0>>}, {2, <<5:16, "hello", 0:16>>},
                             {4, <<5:32, "hello", 0:32>>}, {line, <<"hello">>}, {raw, <<"hello">>},
                             {asn1, <<"hello">>}, {http, <<"hello">>}]].

a_hundred_megabyte_packet_arrives(Config) ->
    {Client, Server} = pair(Config, [{packet, 4}], [{packet, 4}]),
    Piece = crypto:strong_rand_bytes(1000000),
    Data = binary:copy(Piece, 100),
    Sending = in_process(fun() -> etls:send(Server, [<<"first">>, Data]) end),
    {ok, <<"first", Received/binary>>} = etls:recv(Client, 0, 30000),
    ?assert(Data =:= Received),
    ok = result(Sending).

%% All of it is sent in one piece, so that what follows is read ahead when the mode changes.
midstream() ->
    {<<"a line\n", 5:16, "short", 7:32, "longer!", "raw bytes",
       "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "body", "last line\n", 1, "x">>,
     [{line, 0, <<"a line\n">>},
      {2, 0, <<"short">>},
      {4, 0, <<"longer!">>},
      {raw, 9, <<"raw bytes">>},
      {http_bin, 0, {http_request, 'GET', {abs_path, <<"/">>}, {1, 0}}},
      {http_bin, 0, {http_header, 14, 'Host', <<"Host">>, <<"a">>}},
      {http_bin, 0, http_eoh},
      {raw, 4, <<"body">>},
      {line, 0, <<"last line\n">>},
      {1, 0, <<"x">>}]}.

modes_switch_midstream_passively(Config) ->
    {Client, Server} = pair(Config),
    {Wire, Steps} = midstream(),
    ok = etls:send(Server, Wire),
    lists:foldl(fun({Mode, Length, Expected}, Before) ->
                        [ok = etls:setopts(Client, [{packet, Mode}]) || Mode =/= Before],
                        ?assertEqual({ok, Expected}, etls:recv(Client, Length, ?BOUND)),
                        Mode
                end, raw, Steps).

modes_switch_midstream_actively(Config) ->
    {Client, Server} = pair(Config),
    {Wire, Steps} = midstream(),
    ok = etls:send(Server, Wire),
    lists:foldl(fun({raw, Length, Expected}, _) ->
                        ok = etls:setopts(Client, [{packet, raw}]),
                        ?assertEqual({ok, Expected}, etls:recv(Client, Length, ?BOUND)),
                        raw;
                   ({Mode, _, Expected}, Mode) ->
                        ok = etls:setopts(Client, [{active, once}]),
                        ?assertReceive({etls, Client, Expected}),
                        Mode;
                   ({Mode, _, Expected}, _) ->
                        ok = etls:setopts(Client, [{active, once}, {packet, Mode}]),
                        ?assertReceive({etls, Client, Expected}),
                        Mode
                end, raw, Steps),
    no_messages().

packet_size_bounds_packets(Config) ->
    {Client, Server} = pair(Config, [], [{packet, 4}, {packet_size, 10}]),
    ok = etls:send(Server, <<10:32, "0123456789">>),
    ?assertEqual({ok, <<"0123456789">>}, etls:recv(Client, 0, ?BOUND)),
    ok = etls:send(Server, <<11:32, "0123456789a">>),
    ?assertEqual({error, emsgsize}, etls:recv(Client, 0, ?BOUND)).

packet_size_bounds_active_packets(Config) ->
    {Client, Server} = pair(Config, [], [{packet, 4}, {packet_size, 10}, {active, true}]),
    ok = etls:send(Server, <<10:32, "0123456789", 11:32, "0123456789a">>),
    ?assertReceive({etls, Client, <<"0123456789">>}),
    ?assertReceive({etls_error, Client, emsgsize}),
    ?assertEqual({error, closed}, etls:recv(Server, 0, ?BOUND)).

too_long_for_the_header_is_emsgsize(Config) ->
    {Client, Server} = pair(Config),
    [begin
         ok = etls:setopts(Client, [{packet, Type}]),
         ?assertEqual({error, emsgsize}, etls:send(Client, binary:copy(<<0>>, Size)))
     end || {Type, Size} <- [{1, 256}, {2, 65536}]],
    ok = etls:setopts(Client, [{packet, 1}]),
    ok = etls:send(Client, binary:copy(<<"x">>, 255)),
    ?assertMatch({ok, <<255, _:255/binary>>}, etls:recv(Server, 256, ?BOUND)).

lists_where_asked(Config) ->
    {Client, Server} = pair(Config, [{mode, list}], [list]),
    ok = etls:send(Client, "one"),
    ?assertEqual({ok, "one"}, etls:recv(Server, 3, ?BOUND)),
    ok = etls:send(Server, "two"),
    ok = etls:setopts(Client, [{active, once}]),
    ?assertReceive({etls, Client, "two"}),
    ok = etls:setopts(Client, [{packet, line}]),
    ok = etls:send(Server, <<"three\nfour">>),
    ?assertEqual({ok, "three\n"}, etls:recv(Client, 0, ?BOUND)),
    ok = etls:setopts(Client, [{mode, binary}, {packet, raw}]),
    ?assertEqual({ok, <<"four">>}, etls:recv(Client, 4, ?BOUND)).

an_incomplete_packet_before_the_end_is_closed(Config) ->
    {Client, Server} = pair(Config, [], [{packet, 4}]),
    ok = etls:send(Server, <<3:32, "one", 100:32, "never all of it">>),
    ok = etls:close(Server),
    ?assertEqual({ok, <<"one">>}, etls:recv(Client, 0, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)).

%%% Ends

close_is_told_once_in_active_true(Config) ->
    {Client, Server} = pair(Config, [{active, true}]),
    ok = etls:close(Server),
    ?assertReceive({etls_closed, Client}),
    _ = etls:setopts(Client, [{active, true}]),
    ?assertEqual({error, closed}, etls:recv(Client, 0, 1000)),
    ?assertEqual({error, closed}, etls:send(Client, "x")),
    no_messages().

close_is_told_once_in_active_once(Config) ->
    {Client, Server} = pair(Config, [{active, once}]),
    ok = etls:send(Server, <<"last">>),
    ok = etls:close(Server),
    ?assertReceive({etls, Client, <<"last">>}),
    no_messages(),
    ok = etls:setopts(Client, [{active, once}]),
    ?assertReceive({etls_closed, Client}),
    ?assertEqual({error, closed}, etls:setopts(Client, [{active, once}])),
    no_messages().

close_is_told_once_in_active_n(Config) ->
    {Client, Server} = pair(Config, [{active, 1}]),
    ok = etls:send(Server, <<"last">>),
    ok = etls:close(Server),
    ?assertReceive({etls, Client, <<"last">>}),
    ?assertReceive({etls_passive, Client}),
    no_messages(),
    ok = etls:setopts(Client, [{active, 5}]),
    ?assertReceive({etls_closed, Client}),
    no_messages().

close_is_told_by_recv_in_passive(Config) ->
    {Client, Server} = pair(Config),
    Waiting = in_process(fun() -> etls:recv(Client, 10) end),
    ok = etls:send(Server, <<"less">>),
    ok = etls:close(Server),
    ?assertEqual({error, closed}, result(Waiting)),
    %% Too little for that call, but a shorter one may have it.
    ?assertEqual({ok, <<"less">>}, etls:recv(Client, 0, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)),
    ?assertEqual({error, closed}, etls:setopts(Client, [{active, once}])),
    no_messages().

%% Each of the next four runs in passive mode, in active mode, and made active afterwards.
data_comes_before_the_close(Config) ->
    ends(Config, fun(Proxy, Peer) ->
                         ok = ssl:close(Peer),
                         etls_test_proxy:release(Proxy, server)
                 end, closed).

data_comes_before_an_alert(Config) ->
    %% A record that does not authenticate: this side says bad_record_mac.
    ends(Config, fun(Proxy, _Peer) ->
                         ok = etls_test_proxy:release(Proxy, server),
                         etls_test_proxy:inject(Proxy, client, forged_record())
                 end, {tls_alert, bad_record_mac}).

data_comes_before_a_reset(Config) ->
    ends(Config, fun(Proxy, _Peer) ->
                         ok = etls_test_proxy:release(Proxy, server),
                         etls_test_proxy:reset(Proxy, client)
                 end, econnreset).

data_comes_before_a_truncation(Config) ->
    ends(Config, fun(Proxy, _Peer) ->
                         ok = etls_test_proxy:release(Proxy, server),
                         etls_test_proxy:finish(Proxy, client)
                 end, closed).

forged_record() ->
    <<23, 3, 3, 0, 48, (crypto:strong_rand_bytes(48))/binary>>.

ends(Config, End, Expected) ->
    [end_in_mode(Mode, Config, End, Expected) || Mode <- [passive, active, late]].

end_in_mode(Mode, Config, End, Expected) ->
    % Within TCP's first window: what the kernel of one who resets has not sent yet, it drops.
    Data = crypto:strong_rand_bytes(30000),
    {Listener, Port} = ssl_listen(Config, []),
    Owner = self(),
    Accepting = in_process(fun() ->
                                   {ok, Hello} = ssl:transport_accept(Listener, ?BOUND),
                                   {ok, Socket} = ssl:handshake(Hello, ?BOUND),
                                   ok = ssl:send(Socket, <<"ready">>),
                                   ok = ssl:controlling_process(Socket, Owner),
                                   Socket
                           end),
    {Proxy, ProxyPort} = etls_test_proxy:start(Port),
    {ok, Client} = etls:connect(?LOCAL, ProxyPort, versions(Config), ?BOUND),
    ?assertEqual({ok, <<"ready">>}, etls:recv(Client, 5, ?BOUND)),
    Peer = result(Accepting),
    [ok = etls:setopts(Client, [{active, true}]) || Mode =:= active],
    %% Data and end reach the daemon together.
    ok = etls_test_proxy:hold(Proxy, server),
    ok = ssl:send(Peer, Data),
    eventually(fun() -> ?assert(etls_test_proxy:held(Proxy, server) > byte_size(Data)) end),
    ok = End(Proxy, Peer),
    case Mode of
        passive ->
            {ok, Received} = etls:recv(Client, byte_size(Data), ?BOUND),
            ?assert(Data =:= Received),
            assert_reason(Expected, etls:recv(Client, 0, ?BOUND)),
            ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND));
        _ ->
            [ok = etls:setopts(Client, [{active, true}]) || Mode =:= late],
            ?assert(Data =:= received_data(Client, byte_size(Data))),
            receive
                {etls_closed, Client} -> ?assertEqual(closed, Expected);
                {etls_error, Client, Reason} -> assert_reason(Expected, {error, Reason})
            after ?BOUND -> error({no_end, Mode})
            end
    end,
    no_messages(),
    ?assertEqual({error, closed}, etls:send(Client, "x")),
    ok = etls:close(Client),
    ok = etls_test_proxy:stop(Proxy),
    _ = ssl:close(Peer),
    ok = ssl:close(Listener).

assert_reason({tls_alert, Name}, Result) ->
    ?assertMatch({error, {tls_alert, {Name, _}}}, Result);
assert_reason(Reason, Result) ->
    ?assertEqual({error, Reason}, Result).

received_data(Socket, Size) ->
    received_data(Socket, Size, <<>>).

received_data(_Socket, Size, Data) when byte_size(Data) >= Size ->
    Data;
received_data(Socket, Size, Data) ->
    receive {etls, Socket, More} -> received_data(Socket, Size, <<Data/binary, More/binary>>)
    after ?BOUND -> error({received_only, byte_size(Data), process_info(self(), messages)})
    end.

a_received_alert_is_told_by_name(Config) ->
    {Listener, Port} = ssl_listen(Config, []),
    Accepting = in_process(fun() ->
                                   {ok, Hello} = ssl:transport_accept(Listener, ?BOUND),
                                   {ok, Socket} = ssl:handshake(Hello, ?BOUND),
                                   ok = ssl:send(Socket, <<"last words">>),
                                   {error, Reason} = ssl:recv(Socket, 0, ?BOUND),
                                   Reason
                           end),
    {Proxy, ProxyPort} = etls_test_proxy:start(Port),
    {ok, Client} = etls:connect(?LOCAL, ProxyPort, [{active, true} | versions(Config)], ?BOUND),
    ?assertReceive({etls, Client, <<"last words">>}),
    ok = etls_test_proxy:inject(Proxy, server, forged_record()),
    receive {etls_error, Client, Reason} ->
            ?assertMatch({tls_alert, {bad_record_mac, _}}, Reason)
    after ?BOUND -> error(timeout)
    end,
    {tls_alert, {bad_record_mac, _}} = result(Accepting),
    no_messages(),
    ok = etls_test_proxy:stop(Proxy),
    ok = ssl:close(Listener).

own_close_sends_no_message(Config) ->
    {Client, Server} = pair(Config, [{active, true}]),
    ok = etls:close(Client),
    ?assertEqual({error, closed}, etls:recv(Server, 0, ?BOUND)),
    no_messages().

close_ends_a_waiting_recv(Config) ->
    {Client, _Server} = pair(Config),
    Waiting = in_process(fun() -> etls:recv(Client, 1) end),
    ok = waits_in_gen(Waiting),
    ok = etls:close(Client),
    ?assertEqual({error, closed}, result(Waiting)).

close_delivers_what_was_sent(Config) ->
    {Client, Server} = pair(Config),
    Data = crypto:strong_rand_bytes(10000000),
    Sending = in_process(fun() -> {etls:send(Server, Data), etls:close(Server)} end),
    {ok, Received} = etls:recv(Client, byte_size(Data), 30000),
    ?assert(Data =:= Received),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)),
    ?assertEqual({ok, ok}, result(Sending)).

close_sends_close_notify(Config) ->
    [begin
         {Client, Peer} = ssl_pair(Role, Config, []),
         ok = ssl:setopts(Peer, [{active, true}]),
         ok = etls:send(Client, <<"last">>),
         ok = etls:close(Client),
         ?assertReceive({ssl, Peer, <<"last">>}),
         %% OTP's ssl tells a truncation just so too: what was said on the wire is seen below.
         ?assertReceive({ssl_closed, Peer})
     end || Role <- [client, server]],
    %% openssl s_client tells them apart: it complains about an "unexpected eof" and exits with 1.
    {Listener, Port} = listen(Config),
    Accepting = accept_in_background(Listener, self()),
    Log = filename:join(?config(priv_dir, Config), "s_client.log"),
    Peer = etls_test_peer:start(["openssl", "s_client", "-quiet", "-connect",
                                 "127.0.0.1:" ++ integer_to_list(Port)],
                                #{output => drop, log => Log}),
    ok = etls:close(accepted(Accepting)),
    ?assertEqual(0, etls_test_peer:exit_status(Peer, ?BOUND)),
    {ok, Said} = file:read_file(Log),
    ?assertEqual(nomatch, string:find(Said, "unexpected eof")).

peers_half_close_leaves_sending_with_exit_on_close_false(Config) ->
    {Client, Server} = pair(Config, [{exit_on_close, false}], [{exit_on_close, false}]),
    ok = etls:send(Client, <<"question">>),
    ok = etls:shutdown(Client, write),
    ?assertEqual({ok, <<"question">>}, etls:recv(Server, 8, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Server, 0, ?BOUND)),
    ok = etls:send(Server, <<"answer, ">>),
    ok = etls:send(Server, <<"at length">>),
    ?assertEqual({ok, <<"answer, at length">>}, etls:recv(Client, 17, ?BOUND)),
    ok = etls:close(Server),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)).

peers_half_close_closes_with_exit_on_close_true(Config) ->
    {Client, Server} = pair(Config, [{active, true}], []),
    ok = etls:shutdown(Client, write),
    ?assertReceive({etls_closed, Server}),
    ?assertEqual({error, closed}, etls:send(Server, "x")),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)).

shutdown_write_lets_us_read_on(Config) ->
    {Client, Server} = pair(Config, [{exit_on_close, false}], []),
    ok = etls:shutdown(Client, write),
    ?assertEqual({error, closed}, etls:send(Client, "x")),
    ok = etls:send(Server, <<"still there">>),
    ?assertEqual({ok, <<"still there">>}, etls:recv(Client, 11, ?BOUND)).

shutdown_read_ends_reading(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:shutdown(Client, read),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)),
    ok = etls:send(Client, <<"sending still works">>),
    ?assertEqual({ok, <<"sending still works">>}, etls:recv(Server, 19, ?BOUND)),
    %% What the peer sends is dropped and does not block it.
    Sending = in_process(fun() -> etls:send(Server, binary:copy(<<0>>, 20000000)) end),
    ?assertEqual(ok, result(Sending, 20000)).

shutdown_read_write_ends_both(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:shutdown(Client, read_write),
    ?assertEqual({error, closed}, etls:send(Client, "x")),
    ?assertEqual({error, closed}, etls:recv(Client, 0, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Server, 0, ?BOUND)).

shutdown_of_something_else_is_einval(Config) ->
    {Client, _Server} = pair(Config),
    ?assertEqual({error, einval}, etls:shutdown(Client, everything)).

%%% Sending

concurrent_sends_are_atomic(Config) ->
    {Client, Server} = pair(Config, [{packet, 4}], [{packet, 4}]),
    Senders = 10,
    Each = 50,
    Sending = [in_process(fun() ->
                                  [ok = etls:send(Client, own_bytes(Sender, N))
                                   || N <- lists:seq(1, Each)],
                                  ok
                          end) || Sender <- lists:seq(1, Senders)],
    Counts = lists:foldl(fun(_, Seen) ->
                                 {ok, <<Sender, N, _/binary>> = Data} =
                                     etls:recv(Server, 0, ?BOUND),
                                 ?assert(Data =:= own_bytes(Sender, N)),
                                 %% Each sender's own come in its order.
                                 ?assertEqual(N - 1, maps:get(Sender, Seen, 0)),
                                 Seen#{Sender => N}
                         end, #{}, lists:seq(1, Senders * Each)),
    ?assertEqual([Each], lists:usort(maps:values(Counts))),
    ?assertEqual([ok], lists:usort([result(S) || S <- Sending])).

own_bytes(Sender, N) ->
    <<Sender, N, (binary:copy(<<Sender>>, N * 700))/binary>>.

a_blocked_send_does_not_block_recv(Config) ->
    {Client, Server} = pair(Config),
    Sending = blocked_sender(Client),
    ok = etls:send(Server, <<"hello">>),
    ?assertEqual({ok, <<"hello">>}, etls:recv(Client, 5, ?BOUND)),
    ok = etls:close(Server),
    ?assertMatch({error, _}, result(Sending)).

%% A process that sends until that fails, and is waiting for its peer by now: as long as there is
%% room somewhere it sends on.
blocked_sender(Socket) ->
    {Pid, _, _} = Sending = in_process(fun() -> send_until_error(Socket) end),
    eventually(fun() ->
                       {reductions, Before} = process_info(Pid, reductions),
                       receive after 100 -> ok end,
                       ?assertEqual({reductions, Before}, process_info(Pid, reductions))
               end),
    Sending.

send_until_error(Socket) ->
    case etls:send(Socket, binary:copy(<<0>>, 100000)) of
        ok -> send_until_error(Socket);
        Error -> Error
    end.

a_waiting_recv_does_not_block_send(Config) ->
    {Client, Server} = pair(Config),
    Waiting = in_process(fun() -> etls:recv(Client, 2) end),
    ok = waits_in_gen(Waiting),
    ok = etls:send(Client, <<"hello">>),
    ?assertEqual({ok, <<"hello">>}, etls:recv(Server, 5, ?BOUND)),
    ok = etls:send(Server, <<"ok">>),
    ?assertEqual({ok, <<"ok">>}, result(Waiting)).

send_takes_iodata_and_nothing_else(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Client, [<<"a">>, "bc", [$d | <<"e">>]]),
    ?assertEqual({ok, <<"abcde">>}, etls:recv(Server, 5, ?BOUND)),
    [?assertEqual({Packet, {error, einval}},
                  {Packet, begin
                               ok = etls:setopts(Client, [{packet, Packet}]),
                               etls:send(Client, Bad)
                           end})
     || Bad <- [atom, [256], {a}], Packet <- [raw, 4]],
    ok = etls:setopts(Client, [{packet, raw}]),
    ok = etls:send(Client, <<"still">>),
    ?assertEqual({ok, <<"still">>}, etls:recv(Server, 5, ?BOUND)).

an_empty_send_is_fine(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Client, <<>>),
    ok = etls:send(Client, []),
    ?assertEqual({error, timeout}, etls:recv(Server, 0, 20)),
    ok = etls:send(Client, <<"x">>),
    ?assertEqual({ok, <<"x">>}, etls:recv(Server, 0, ?BOUND)).

send_timeout_is_told(Config) ->
    {Client, Server} = pair(Config, [{send_timeout, 200}]),
    ?assertEqual({error, timeout}, send_until_error(Client)),
    %% Without send_timeout_close the connection lives on, reading at least.
    ok = etls:send(Server, <<"hello">>),
    ?assertEqual({ok, <<"hello">>}, etls:recv(Client, 5, ?BOUND)).

send_timeout_close_closes(Config) ->
    {Client, Server} = pair(Config, [{send_timeout, 200}, {send_timeout_close, true}]),
    ?assertEqual({error, timeout}, send_until_error(Client)),
    ?assertEqual({error, closed}, etls:send(Client, "x")),
    ok = etls:setopts(Server, [{active, true}]),
    ended_some_way(Server).

ended_some_way(Socket) ->
    receive
        {etls, Socket, _} -> ended_some_way(Socket);
        {etls_closed, Socket} -> ok;
        {etls_error, Socket, _} -> ok
    after ?BOUND -> error(timeout)
    end.

linger_zero_resets(Config) ->
    {Client, Peer} = ssl_pair(client, Config, [{linger, {true, 0}}]),
    ok = ssl:setopts(Peer, [{active, true}]),
    ok = etls:close(Client),
    receive
        {ssl_error, Peer, econnreset} -> ok;
        %% OTP's ssl tells a reset as closed unless its TCP socket has show_econnreset.
        {ssl_closed, Peer} -> ok
    after ?BOUND -> error(timeout)
    end,
    {Client2, Server2} = pair(Config, [{linger, {true, 0}}]),
    ok = etls:close(Client2),
    ?assertEqual({error, econnreset}, etls:recv(Server2, 0, ?BOUND)).

a_reset_ends_a_blocked_send(Config) ->
    {Client, Server} = pair(Config, [{linger, {true, 0}}], []),
    Sending = blocked_sender(Client),
    ok = etls:close(Server),
    ?assertMatch({error, Reason} when Reason =:= closed; Reason =:= econnreset, result(Sending)).

%%% Time-outs that leave nothing

accept_timeout_loses_no_connection(Config) ->
    %% Where the backlog is full the kernel makes a client wait a second: not what this is about.
    {Listener, Port} = listen(Config, [{backlog, 100}]),
    #{accepts_waiting := Before} = stats(),
    ?assertEqual({error, timeout}, etls:accept(Listener, 50)),
    ?assertEqual({error, timeout}, etls:accept(Listener, 0)),
    ?assertEqual({error, timeout}, etls:accept(Listener, 0)),
    eventually(fun() -> ?assertMatch(#{accepts_waiting := Before}, stats()) end),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, []),
    {ok, Own} = inet:sockname(Tcp),
    {ok, Socket} = etls:accept(Listener, ?BOUND),
    ?assertEqual({ok, Own}, etls:peername(Socket)),
    %% Without any time: what is there already.
    {ok, _} = gen_tcp:connect(?LOCAL, Port, []),
    ?assertMatch({ok, _}, etls:accept(Listener, 0)),
    ?assertEqual({error, timeout}, etls:accept(Listener, 0)),
    no_messages(),
    %% Connections that come while accepts time out right and left are each accepted, once.
    Count = 100,
    Connecting = in_process(fun() ->
                                    [{ok, _} = gen_tcp:connect(?LOCAL, Port, [])
                                     || _ <- lists:seq(1, Count)],
                                    receive done -> ok end
                            end),
    Peers = accept_all(Listener, Count, erlang:monotonic_time(millisecond) + 20000),
    ?assertEqual(Count, length(lists:usort(Peers))),
    ?assertEqual({error, timeout}, etls:accept(Listener, 50)),
    element(1, Connecting) ! done,
    ok = result(Connecting).

accept_all(_Listener, 0, _Deadline) ->
    [];
accept_all(Listener, Count, Deadline) ->
    ?assert(erlang:monotonic_time(millisecond) < Deadline),
    case etls:accept(Listener, Count rem 3) of
        {ok, Socket} ->
            {ok, Peer} = etls:peername(Socket),
            [Peer | accept_all(Listener, Count - 1, Deadline)];
        {error, timeout} ->
            accept_all(Listener, Count, Deadline)
    end.

a_dead_acceptor_loses_no_connection(Config) ->
    {Listener, Port} = listen(Config),
    #{accepts_waiting := Before} = stats(),
    {Pid, Monitor, _} = in_process(fun() -> etls:accept(Listener) end),
    eventually(fun() -> ?assertEqual(Before + 1, maps:get(accepts_waiting, stats())) end),
    exit(Pid, kill),
    ?assertReceive({'DOWN', Monitor, process, Pid, killed}),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, []),
    {ok, Own} = inet:sockname(Tcp),
    {ok, Socket} = etls:accept(Listener, ?BOUND),
    ?assertEqual({ok, Own}, etls:peername(Socket)).

connect_timeout_leaves_nothing(_Config) ->
    {ok, Silent} = gen_tcp:listen(0, [binary, {active, false}, {ip, ?LOCAL}]),
    {ok, Port} = inet:port(Silent),
    Before = usage(),
    ?assertEqual({error, timeout}, etls:connect(?LOCAL, Port, [], 100)),
    ?assertEqual({error, timeout}, etls:connect("localhost", Port, [], 100)),
    {ok, Tcp} = gen_tcp:accept(Silent, ?BOUND),
    ?assertEqual({error, closed}, drained(Tcp)),
    assert_back_to(Before),
    no_messages().

%% Reads a ClientHello and whatever comes until the end.
drained(Tcp) ->
    case gen_tcp:recv(Tcp, 0, ?BOUND) of
        {ok, _} -> drained(Tcp);
        Error -> Error
    end.

a_dead_connector_leaves_nothing(_Config) ->
    {ok, Silent} = gen_tcp:listen(0, [binary, {active, false}, {ip, ?LOCAL}]),
    {ok, Port} = inet:port(Silent),
    Before = usage(),
    {Pid, Monitor, _} = in_process(fun() -> etls:connect(?LOCAL, Port, [], infinity) end),
    {ok, Tcp} = gen_tcp:accept(Silent, ?BOUND),
    exit(Pid, kill),
    ?assertReceive({'DOWN', Monitor, process, Pid, killed}),
    ?assertEqual({error, closed}, drained(Tcp)),
    assert_back_to(Before).

handshake_timeout_leaves_nothing(Config) ->
    {Listener, Port} = listen(Config),
    Before = usage(),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, [binary, {active, false}]),
    {ok, Socket} = etls:accept(Listener, ?BOUND),
    ?assertEqual({error, timeout}, etls:handshake(Socket, 100)),
    ?assertEqual({error, closed}, etls:handshake(Socket, 100)),
    ?assertMatch({error, _}, drained(Tcp)),
    ok = gen_tcp:close(Tcp),
    assert_back_to(Before),
    no_messages().

timeout_zero_is_a_timeout(Config) ->
    {Listener, Port} = listen(Config),
    ?assertEqual({error, timeout}, etls:accept(Listener, 0)),
    ?assertEqual({error, timeout}, etls:connect(?LOCAL, Port, [], 0)),
    no_messages().

%%% Owners

controlling_process_moves_messages(Config) ->
    {Client, Server} = pair(Config, [{packet, 1}], [{packet, 1}, {active, true}]),
    ok = etls:send(Server, <<"1">>),
    ok = etls:send(Server, <<"2">>),
    %% In our mailbox, unread: they must move, and before those still to come.
    eventually(fun() -> ?assertEqual({message_queue_len, 2},
                                     process_info(self(), message_queue_len)) end),
    New = in_process(fun() ->
                             receive go -> ok end,
                             [receive {etls, Client, Data} -> Data after ?BOUND -> timeout end
                              || _ <- [1, 2, 3]]
                     end),
    ok = etls:controlling_process(Client, element(1, New)),
    ok = etls:send(Server, <<"3">>),
    element(1, New) ! go,
    ?assertEqual([<<"1">>, <<"2">>, <<"3">>], result(New)),
    no_messages().

controlling_process_is_for_the_owner(Config) ->
    {Client, _Server} = pair(Config),
    Test = self(),
    ?assertEqual({error, not_owner},
                 result(in_process(fun() -> etls:controlling_process(Client, self()) end))),
    ?assertEqual({error, not_owner},
                 result(in_process(fun() -> etls:controlling_process(Client, Test) end))),
    ?assertEqual(ok, etls:controlling_process(Client, self())),
    ?assertMatch({error, _}, etls:controlling_process(Client, not_a_pid)).

controlling_process_of_a_listener(Config) ->
    {Listener, Port} = listen(Config),
    New = in_process(fun() -> receive stop -> ok end end),
    ok = etls:controlling_process(Listener, element(1, New)),
    ?assertEqual({error, not_owner}, etls:controlling_process(Listener, self())),
    element(1, New) ! stop,
    ok = result(New),
    eventually(fun() -> ?assertEqual({error, econnrefused}, gen_tcp:connect(?LOCAL, Port, [])) end).

the_owners_death_closes(Config) ->
    {Listener, Port} = listen(Config),
    Accepting = accept_in_background(Listener, self()),
    Owner = in_process(fun() ->
                               {ok, Client} = etls:connect(?LOCAL, Port, versions(Config), ?BOUND),
                               ok = etls:send(Client, <<"last words">>),
                               receive die -> exit(killed_by_test) end
                       end),
    Server = accepted(Accepting),
    element(1, Owner) ! die,
    ?assertEqual({ok, <<"last words">>}, etls:recv(Server, 10, ?BOUND)),
    ?assertEqual({error, closed}, etls:recv(Server, 0, ?BOUND)).

the_owners_death_before_the_handshake_closes(Config) ->
    {Listener, Port} = listen(Config),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, [binary, {active, false}]),
    ok = result(in_process(fun() -> {ok, _} = etls:accept(Listener, ?BOUND), ok end)),
    ?assertEqual({error, closed}, gen_tcp:recv(Tcp, 0, ?BOUND)).

the_listeners_owners_death_closes_it(Config) ->
    Test = self(),
    Owner = in_process(fun() ->
                               Test ! {listener, listen(Config)},
                               receive die -> ok end
                       end),
    {Listener, Port} = receive {listener, L} -> L after ?BOUND -> error(timeout) end,
    Accepting = in_process(fun() -> etls:accept(Listener) end),
    ok = waits_in_gen(Accepting),
    element(1, Owner) ! die,
    ok = result(Owner),
    ?assertEqual({error, closed}, result(Accepting)),
    eventually(fun() -> ?assertEqual({error, econnrefused}, gen_tcp:connect(?LOCAL, Port, [])) end),
    ?assertEqual({error, closed}, etls:accept(Listener, 100)).

an_accepted_socket_outlives_its_listener(Config) ->
    {Client, Server} = pair(Config),
    ok = etls:send(Client, <<"x">>),
    ?assertEqual({ok, <<"x">>}, etls:recv(Server, 1, ?BOUND)),
    {Listener, Port} = listen(Config),
    Connecting = in_process(fun() ->
                                    {ok, C} = etls:connect(?LOCAL, Port, versions(Config), ?BOUND),
                                    ok = etls:send(C, <<"y">>),
                                    etls:recv(C, 0, ?BOUND)
                            end),
    {ok, Accepted} = etls:accept(Listener, ?BOUND),
    ok = etls:close(Listener),
    ok = etls:handshake(Accepted, ?BOUND),
    ?assertEqual({ok, <<"y">>}, etls:recv(Accepted, 1, ?BOUND)),
    ok = etls:close(Accepted),
    ?assertEqual({error, closed}, result(Connecting)).

nothing_is_left_behind(_Config) ->
    etls_test_lib:nothing_left_behind().
