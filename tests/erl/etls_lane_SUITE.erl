%% Lanes over the link: many connections that share one channel, and what holds each of them to its
%% share. What a lane has to do for its connection is every other suite's.
-module(etls_lane_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").
-include("../../erl/etls_internal.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([a_reader_that_is_stuck_holds_up_nobody/1, a_receive_times_out_though_paused/1,
         a_send_times_out_though_paused/1, a_handshake_times_out_on_each_lane/1,
         lanes_of_both_kinds_go_together/1, an_accepted_socket_inherits_the_lane/1,
         a_lane_that_is_none_is_refused/1, closing_ends_what_cannot_be_sent/1,
         nothing_is_left_behind/1]).
-export([attaching_gives_credit/1, nothing_comes_without_credit/1, credit_adds_up/1,
         sending_over_credit_ends_the_connection/1, a_frame_too_large_ends_the_connection/1,
         terms_for_nobody_do_nothing/1, a_late_credit_does_nothing/1,
         data_after_the_end_harm_nobody/1, an_end_follows_all_data/1,
         hanging_up_sends_what_was_given/1, terms_before_attaching_do_nothing/1]).

-import(etls_test_lib, [listen/1, listen/2, pair/1, pair/3, accept_in_background/2, accepted/1,
                        in_process/1, result/1, result/2, memory/0, growth/1, file/2,
                        credentials/1, eventually/1]).
-import(etls_test_raw, [ask/3, send/2, next/2, data/3]).

-define(LOCAL, {127, 0, 0, 1}).
-define(BOUND, 10000).
-define(MB, 1048576).
-define(WINDOW, 524288).
-define(DATA_LIMIT, 65536).

suite() -> [{timetrap, {seconds, 60}}].

all() ->
    etls_test_lib:all() ++ [{group, Link} || Link <- [terms_on_a_port, terms_on_a_cnode]].

raw() ->
    [attaching_gives_credit, nothing_comes_without_credit, credit_adds_up,
     sending_over_credit_ends_the_connection, a_frame_too_large_ends_the_connection,
     terms_for_nobody_do_nothing, a_late_credit_does_nothing, data_after_the_end_harm_nobody,
     an_end_follows_all_data, hanging_up_sends_what_was_given,
     terms_before_attaching_do_nothing].

groups() ->
    etls_test_lib:combined([a_reader_that_is_stuck_holds_up_nobody,
                            a_receive_times_out_though_paused, a_send_times_out_though_paused,
                            a_handshake_times_out_on_each_lane, lanes_of_both_kinds_go_together,
                            an_accepted_socket_inherits_the_lane, a_lane_that_is_none_is_refused,
                            closing_ends_what_cannot_be_sent, nothing_is_left_behind])
        ++ [{Link, [], raw()} || Link <- [terms_on_a_port, terms_on_a_cnode]].

init_per_suite(Config) -> etls_test_lib:prepare(Config).
end_per_suite(_Config) -> ok.

init_per_group(terms_on_a_port, Config) ->
    [{start, fun etls_test_raw:start/0} | Config];
init_per_group(terms_on_a_cnode, Config) ->
    ok = etls_test_node:start(),
    [{start, fun() -> etls_test_raw:start_node(Config) end} | Config];
init_per_group(Name, Config) ->
    etls_test_lib:enter(Name, Config).

end_per_group(_Name, Config) -> etls_test_lib:leave(Config).

init_per_testcase(Case, Config) ->
    case lists:member(Case, raw()) of
        true -> ok;
        false -> ok = etls_test_lib:watch(Case)
    end,
    Config.

end_per_testcase(_Case, _Config) -> ok.

%%% Through the application

%% Of 64 connections one is not read at all, and somebody sends on it without end.
a_reader_that_is_stuck_holds_up_nobody(Config) ->
    {Listener, Port} = listen(Config, [{backlog, 64}]),
    [{Stuck, Unread} | Others] = [connected(Listener, Port) || _ <- lists:seq(1, 64)],
    Before = memory(),
    Sent = counters:new(1, []),
    Sending = in_process(fun() -> send_on(Stuck, Sent) end),
    ok = stands_still(element(1, Sending), Sent),
    Held = counters:get(Sent, 1),
    {Vm, Daemon} = growth(Before),
    ct:pal("standing still after ~b bytes: VM +~b, daemon +~b bytes, of them with its reader ~b",
           [Held, Vm, Daemon, held(Unread)]),
    ?assert(Vm < 12 * ?MB),
    ?assert(Daemon < 6 * ?MB orelse is_sanitized()),
    Size = 4 * ?MB,
    Moving = [{in_process(fun() -> send_all(Client, Size) end),
               in_process(fun() -> receive_all(Server, Size) end)} || {Client, Server} <- Others],
    [?assertEqual({ok, ok}, {result(S, 50000), result(R, 50000)}) || {S, R} <- Moving],
    %% And it costs no more than before: what was read ahead of its reader, and a window.
    ?assertEqual(Held, counters:get(Sent, 1)),
    ?assert(held(Unread) =< 2 * ?MB + 16 * 131072),
    %% An idle local lane that has carried much holds a buffer of 128 KiB at each end; and what was
    %% freed on another scheduler is given back a little later.
    eventually(fun() ->
                       {VmAfter, DaemonAfter} = growth(Before),
                       ?assert(VmAfter < 32 * ?MB),
                       ?assert(DaemonAfter < 64 * ?MB orelse is_sanitized())
               end),
    %% It was stuck, not broken.
    {ok, _} = etls:recv(Unread, 5 * ?MB, ?BOUND),
    eventually(fun() -> ?assert(counters:get(Sent, 1) > Held) end),
    true = exit(element(1, Sending), kill).

%% A sanitizer keeps for a while what is freed.
is_sanitized() -> os:getenv("ETLSD") =/= false.

connected(Listener, Port) ->
    Accepting = accept_in_background(Listener, self()),
    {ok, Client} = etls:connect(?LOCAL, Port, [], ?BOUND),
    {Client, accepted(Accepting)}.

send_on(Socket, Sent) ->
    Block = crypto:strong_rand_bytes(?DATA_LIMIT),
    case etls:send(Socket, Block) of
        ok ->
            ok = counters:add(Sent, 1, byte_size(Block)),
            send_on(Socket, Sent);
        {error, _} -> ok
    end.

%% Until the sender has been waiting for a second without anything sent.
stands_still(Sender, Sent) ->
    Before = counters:get(Sent, 1),
    receive after 1000 -> ok end,
    case {process_info(Sender, status), counters:get(Sent, 1)} of
        {{status, Status}, Before} when Before > 0, Status =/= running, Status =/= runnable -> ok;
        _ -> stands_still(Sender, Sent)
    end.

held(#etls_socket{pid = Pid}) ->
    {status, _, _, [_, _, _, _, Shown]} = sys:get_status(Pid),
    [{_State, #{received := Bytes}}] = [Data || {data, [{"State", Data}]} <- Shown],
    Bytes.

send_all(_Socket, 0) -> ok;
send_all(Socket, Left) ->
    Size = min(Left, 4 * ?DATA_LIMIT),
    ok = etls:send(Socket, <<0:(Size * 8)>>),
    send_all(Socket, Left - Size).

receive_all(_Socket, 0) -> ok;
receive_all(Socket, Left) ->
    {ok, Data} = etls:recv(Socket, min(Left, ?MB), 50000),
    receive_all(Socket, Left - byte_size(Data)).

%% Its peer waits as well.
a_receive_times_out_though_paused(Config) ->
    {Client, Server} = pair(Config),
    Sent = counters:new(1, []),
    {Sender, _, _} = in_process(fun() -> send_on(Server, Sent) end),
    ok = stands_still(Sender, Sent),
    ?assertEqual({error, timeout}, etls:recv(Server, 1, 100)),
    ?assertMatch({ok, _}, etls:recv(Client, 1, ?BOUND)),
    true = exit(Sender, kill).

%% What timed out half way is carried on. What timed out before it began was never there, but for
%% a local lane, where it stays in the driver's queue as gen_tcp's does.
a_send_times_out_though_paused(Config) ->
    {Client, Server} = pair(Config, [{packet, 4}], [{packet, 4}, {send_timeout, 200}]),
    Told = until_timeout(Client, 0),
    {_, Begun} = lists:last(Told),
    ?assertEqual({error, timeout}, Begun),
    ?assertEqual({error, timeout}, etls:send(Client, <<"never begun">>)),
    Whole = length([ok || {_, ok} <- Told]),
    Packets = [begin {ok, <<Number:32, _/binary>>} = etls:recv(Server, 0, ?BOUND), Number end
               || _ <- lists:seq(1, Whole)],
    ?assertEqual(lists:seq(0, Whole - 1), Packets),
    ok = etls:send(Client, <<"afterwards">>),
    Expected = case ?config(lane, Config) of
                   local -> [<<"never begun">>, <<"afterwards">>];
                   link -> [<<"afterwards">>]
               end,
    ?assertEqual(Expected, [next_but(Whole, Server) || _ <- Expected]).

until_timeout(Socket, Number) ->
    case etls:send(Socket, <<Number:32, 0:(300000 * 8)>>) of
        ok -> [{Number, ok} | until_timeout(Socket, Number + 1)];
        Error -> [{Number, Error}]
    end.

%% The packet that was begun may come before it, whole.
next_but(Number, Socket) ->
    case etls:recv(Socket, 0, ?BOUND) of
        {ok, <<Number:32, Rest/binary>>} ->
            ?assertEqual(300000, byte_size(Rest)),
            next_but(none, Socket);
        {ok, Data} -> Data
    end.

a_handshake_times_out_on_each_lane(Config) ->
    [begin
         {Listener, Port} = listen(Config, [{lane, Lane}]),
         {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, []),
         {ok, Socket} = etls:accept(Listener, ?BOUND),
         ?assertEqual({Lane, {error, timeout}}, {Lane, etls:handshake(Socket, 100)}),
         ok = gen_tcp:close(Tcp),
         ok = etls:close(Listener)
     end || Lane <- [local, link, auto]].

lanes_of_both_kinds_go_together(Config) ->
    Data = crypto:strong_rand_bytes(3 * ?MB),
    [begin
         {Client, Server} = pair(Config, [{lane, Theirs}], [{lane, Ours}]),
         ?assertEqual({{ok, [{lane, Ours}]}, {ok, [{lane, Theirs}]}},
                      {etls:getopts(Client, [lane]), etls:getopts(Server, [lane])}),
         [begin
              Sending = in_process(fun() -> etls:send(From, Data) end),
              {ok, Received} = etls:recv(To, byte_size(Data), ?BOUND),
              ?assert(Data =:= Received),
              ?assertEqual(ok, result(Sending))
          end || {From, To} <- [{Client, Server}, {Server, Client}]]
     end || Ours <- [local, link], Theirs <- [local, link]].

%% And without the option it is the application's.
an_accepted_socket_inherits_the_lane(Config) ->
    Default = ?config(lane, Config),
    {Client, Server} = pair(Config),
    [?assertEqual({ok, [{lane, Default}]}, etls:getopts(Socket, [lane]))
     || Socket <- [Client, Server]],
    {_, Accepted} = pair(Config, [{lane, link}], []),
    ?assertEqual({ok, [{lane, link}]}, etls:getopts(Accepted, [lane])),
    %% Here the daemon's lane socket can be reached.
    {Own, _} = pair(Config, [], [{lane, auto}]),
    ?assertEqual({ok, [{lane, local}]}, etls:getopts(Own, [lane])).

a_lane_that_is_none_is_refused(Config) ->
    {Client, _} = pair(Config),
    [begin
         Refused = {error, {options, {lane, {invalid, Lane}}}},
         ?assertEqual(Refused, etls:listen(0, [{lane, Lane} | credentials(Config)])),
         ?assertEqual(Refused, etls:connect(?LOCAL, 1, [{lane, Lane}], ?BOUND)),
         %% It cannot be changed, to whatever.
         ?assertMatch({error, _}, etls:setopts(Client, [{lane, Lane}]))
     end || Lane <- [fast, "link", 1, undefined]].

%% The sender waits for room that nobody will make.
closing_ends_what_cannot_be_sent(Config) ->
    {Client, Server} = pair(Config, [], [{linger, {true, 0}}]),
    Sent = counters:new(1, []),
    Sending = in_process(fun() -> send_on(Client, Sent) end),
    ok = stands_still(element(1, Sending), Sent),
    ok = etls:close(Client),
    ?assertEqual(ok, result(Sending)),
    ok = drained(Server).

drained(Socket) ->
    case etls:recv(Socket, 0, ?BOUND) of
        {ok, _} -> drained(Socket);
        {error, Reason} -> ?assertNotEqual(timeout, Reason)
    end.

nothing_is_left_behind(_Config) ->
    etls_test_lib:nothing_left_behind().

%%% The terms themselves

attaching_gives_credit(Config) ->
    Port = (?config(start, Config))(),
    {Client, _} = etls_test_raw:pair(Port, certificate(Config)),
    ?assertEqual({ok, #{credit => ?WINDOW}}, ask(Port, attach, #{conn => Client})),
    ?assertEqual({error, {bad_request, <<"attach: it has a lane">>}},
                 ask(Port, attach, #{conn => Client})),
    ?assertEqual({error, closed}, ask(Port, attach, #{conn => 1000})),
    ?assertMatch({error, {bad_request, _}}, ask(Port, attach, #{})),
    ok = etls_test_raw:stop(Port).

nothing_comes_without_credit(Config) ->
    {Port, Client, Server} = attached(Config),
    send(Port, {data, Client, <<"0123456789">>}),
    %% In whatever order, there is an answer to compare it with, and then some time.
    {ok, _} = ask(Port, stats, #{}),
    ?assertEqual([], etls_test_raw:came(Port, Server, 200)),
    send(Port, {credit, Server, 4}),
    ?assertEqual(<<"0123">>, data(Port, Server, 4)),
    ?assertEqual([], etls_test_raw:came(Port, Server, 100)),
    send(Port, {credit, Server, 100}),
    ?assertEqual(<<"456789">>, data(Port, Server, 6)),
    ok = etls_test_raw:stop(Port).

credit_adds_up(Config) ->
    {Port, Client, Server} = attached(Config),
    Data = crypto:strong_rand_bytes(30000),
    [send(Port, {credit, Server, 10000}) || _ <- [1, 2, 3]],
    send(Port, {data, Client, Data}),
    ?assert(Data =:= data(Port, Server, byte_size(Data))),
    %% The most that there can be, and more.
    [send(Port, {credit, Server, 1 bsl 63 - 1}) || _ <- [1, 2, 3]],
    send(Port, {data, Client, Data}),
    ?assert(Data =:= data(Port, Server, byte_size(Data))),
    %% And the daemon gives back what it took: more than a window can be sent.
    ok = send_within_credit(Port, Client, 4 * ?WINDOW, ?WINDOW - 2 * byte_size(Data)),
    ?assertEqual(4 * ?WINDOW, byte_size(data(Port, Server, 4 * ?WINDOW))),
    ok = etls_test_raw:stop(Port).

send_within_credit(_Port, _Conn, 0, _Credit) -> ok;
send_within_credit(Port, Conn, Left, 0) ->
    More = next(Port, fun({credit, Told, Bytes}) when Told =:= Conn -> {ok, Bytes}; (_) -> no end),
    send_within_credit(Port, Conn, Left, More);
send_within_credit(Port, Conn, Left, Credit) ->
    Size = lists:min([Left, Credit, ?DATA_LIMIT]),
    send(Port, {data, Conn, <<0:(Size * 8)>>}),
    send_within_credit(Port, Conn, Left - Size, Credit - Size).

%% That connection, and no other.
sending_over_credit_ends_the_connection(Config) ->
    {Port, Client, Server} = attached(Config),
    {Own, Peer} = etls_test_raw:attached(Port, certificate(Config)),
    %% More than TCP's buffers hold, while nobody reads.
    [send(Port, {data, Client, <<0:(?DATA_LIMIT * 8)>>}) || _ <- lists:seq(1, 512)],
    ok = hung_up(Port, Client),
    ?assertMatch({warning, _}, logged(Port)),
    send(Port, {credit, Server, 1 bsl 30}),
    ok = hung_up_or_ended(Port, Server),
    ok = carries(Port, Own, Peer),
    ok = etls_test_raw:stop(Port).

a_frame_too_large_ends_the_connection(Config) ->
    {Port, Client, _} = attached(Config),
    {Own, Peer} = etls_test_raw:attached(Port, certificate(Config)),
    send(Port, {data, Client, <<0:((?DATA_LIMIT + 1) * 8)>>}),
    ok = hung_up(Port, Client),
    ?assertMatch({warning, _}, logged(Port)),
    ok = carries(Port, Own, Peer),
    ok = etls_test_raw:stop(Port).

terms_for_nobody_do_nothing(Config) ->
    {Port, Client, Server} = attached(Config),
    [send(Port, Term)
     || Conn <- [0, 1000, -1, 1 bsl 63, 1 bsl 70, 1.0, foo, <<"1">>, [], {Client}],
        Term <- [{data, Conn, <<"x">>}, {credit, Conn, 1}, {eof, Conn}, {hangup, Conn}]],
    %% Nor do those that make no sense.
    [send(Port, Term)
     || Term <- [{credit, Client, 0}, {credit, Client, -1}, {credit, Client, 1 bsl 70},
                 {credit, Client, a}, {data, Client}, {data, Client, "list"}, {data, Client, 1},
                 {eof}, {eof, Client, 1}, {hangup}, {ended, Client}, {data, Client, <<1:3>>}]],
    ok = carries(Port, Client, Server),
    ok = etls_test_raw:stop(Port).

a_late_credit_does_nothing(Config) ->
    {Port, Client, Server} = attached(Config),
    {Own, Peer} = etls_test_raw:attached(Port, certificate(Config)),
    ok = ask(Port, close, #{conn => Client, mode => abort}),
    ok = ask(Port, close, #{conn => Server, mode => abort}),
    [send(Port, {Name, Conn, 1000}) || Name <- [credit, credit], Conn <- [Client, Server]],
    [send(Port, {data, Conn, <<"late">>}) || Conn <- [Client, Server]],
    [send(Port, {Name, Conn}) || Name <- [eof, hangup], Conn <- [Client, Server]],
    ok = carries(Port, Own, Peer),
    ok = etls_test_raw:stop(Port).

data_after_the_end_harm_nobody(Config) ->
    {Port, Client, _} = attached(Config),
    {Own, Peer} = etls_test_raw:attached(Port, certificate(Config)),
    [send(Port, Term) || Term <- [{eof, Client}, {eof, Client}, {data, Client, <<"more">>},
                                  {hangup, Client}, {hangup, Client}, {data, Client, <<"more">>}]],
    ok = carries(Port, Own, Peer),
    ok = etls_test_raw:stop(Port).

%% An empty piece is none, and the end needs no credit.
an_end_follows_all_data(Config) ->
    {Port, Client, Server} = attached(Config),
    send(Port, {credit, Server, 1 bsl 20}),
    Data = crypto:strong_rand_bytes(?DATA_LIMIT),
    [send(Port, {data, Client, Data}) || _ <- lists:seq(1, 8)],
    send(Port, {eof, Client}),
    ?assert(binary:copy(Data, 8) =:= data(Port, Server, 8 * ?DATA_LIMIT)),
    ok = next(Port, fun({eof, Told}) when Told =:= Server -> {ok, ok}; (_) -> no end),
    %% The other direction is open still.
    send(Port, {credit, Client, 10}),
    send(Port, {data, Server, <<"0123456789">>}),
    ?assertEqual(<<"0123456789">>, data(Port, Client, 10)),
    ok = etls_test_raw:stop(Port).

hanging_up_sends_what_was_given(Config) ->
    {Port, Client, Server} = attached(Config),
    Data = crypto:strong_rand_bytes(?DATA_LIMIT),
    [send(Port, {data, Client, Data}) || _ <- lists:seq(1, 8)],
    send(Port, {hangup, Client}),
    send(Port, {credit, Server, 1 bsl 20}),
    ?assert(binary:copy(Data, 8) =:= data(Port, Server, 8 * ?DATA_LIMIT)),
    close_notify = next(Port, fun({event, Told, {ended, End}}) when Told =:= Server -> {ok, End};
                                 (_) -> no
                              end),
    send(Port, {hangup, Server}),
    eventually(fun() -> {ok, #{connections := 0}} = ask(Port, stats, #{}) end),
    ok = etls_test_raw:stop(Port).

terms_before_attaching_do_nothing(Config) ->
    Port = (?config(start, Config))(),
    {Client, Server} = etls_test_raw:pair(Port, certificate(Config)),
    [send(Port, Term) || Term <- [{data, Client, <<"early">>}, {credit, Server, 100},
                                  {eof, Client}, {hangup, Server}]],
    [{ok, _} = ask(Port, attach, #{conn => Conn}) || Conn <- [Client, Server]],
    ok = carries(Port, Client, Server),
    ok = etls_test_raw:stop(Port).

%%% ------------------------------------------------------------------------------------------

attached(Config) ->
    Port = (?config(start, Config))(),
    {Client, Server} = etls_test_raw:attached(Port, certificate(Config)),
    {Port, Client, Server}.

certificate(Config) -> file(Config, "ecdsa-both.pem").

carries(Port, From, To) ->
    send(Port, {credit, To, 100}),
    send(Port, {data, From, <<"as ever">>}),
    ?assertEqual(<<"as ever">>, data(Port, To, 7)),
    ok.

hung_up(Port, Conn) ->
    next(Port, fun({hangup, Told}) when Told =:= Conn -> {ok, ok}; (_) -> no end).

hung_up_or_ended(Port, Conn) ->
    next(Port, fun({hangup, Told}) when Told =:= Conn -> {ok, ok};
                  ({event, Told, {ended, _}}) when Told =:= Conn -> {ok, ok};
                  (_) -> no
               end).

%% A node has nobody in particular to tell.
logged(Node) when is_atom(Node) -> {warning, untold};
logged(Port) ->
    next(Port, fun({event, log, Line}) -> {ok, Line}; (_) -> no end).
