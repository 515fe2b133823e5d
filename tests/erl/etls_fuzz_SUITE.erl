%% Whatever comes over the link, the daemon answers or ends in an orderly way. Run on a build with
%% sanitizers (scripts/test address), what it reads or leaks wrongly ends it with another status.
%% scripts/fuzz looks deeper, into the decoder alone; this is the whole daemon.
-module(etls_fuzz_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([senseless_frames_are_survived/1, senseless_lane_terms_are_survived/1,
         a_broken_stream_ends_in_order/1, senseless_terms_to_a_node_are_survived/1]).

-import(proper_types, [any/0, binary/0, binary/1, frequency/1, integer/0, list/1, non_empty/1,
                       oneof/1, range/2, vector/2]).
%% Debian has proper.hrl in another package than PropEr itself.
-define(FORALL(Pattern, Type, Property),
        proper:forall(Type, fun(Pattern) -> holds(fun() -> Property end) end)).
-define(LET(Pattern, Type, Made), proper_types:bind(Type, fun(Pattern) -> Made end, false)).
-define(PROPERTY(Property, Tests), ?assert(proper:quickcheck(Property, [{to_file, user}, Tests]))).

-define(BOUND, 10000).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [senseless_frames_are_survived, senseless_lane_terms_are_survived,
     a_broken_stream_ends_in_order, senseless_terms_to_a_node_are_survived].

init_per_suite(Config) -> etls_test_lib:prepare(Config).
end_per_suite(Config) -> etls_test_lib:leave(Config).

%% PropEr 1.2 asks for the stack in a way that OTP 24 took away.
holds(Property) ->
    try Property()
    catch Class:Reason:Stack ->
            ct:pal("~p", [{Class, Reason, Stack}]),
            false
    end.

%%% Frames that make no sense, in a stream that is whole

senseless_frames_are_survived(_Config) ->
    Vectors = vectors(),
    ok = start(),
    ?PROPERTY(?FORALL(Frames, non_empty(list(frame(Vectors))), survived(Frames)), 300),
    ok = etls_test_raw:stop(get(daemon)).

survived(Frames) ->
    Port = get(daemon),
    _ = [catch port_command(Port, Frame) || Frame <- Frames],
    answers(Port).

%% One that fails is replaced: shrinking goes on.
start() ->
    process_flag(trap_exit, true),
    put(daemon, etls_test_raw:start()),
    ok.

answers(Port) ->
    Id = {<<"fuzz">>, erlang:unique_integer([positive])},
    _ = catch port_command(Port, term_to_binary({request, Id, stats, #{}})),
    answers(Port, Id).

answers(Port, Id) ->
    receive
        {Port, {data, Frame}} ->
            case catch binary_to_term(Frame) of
                {reply, Id, {ok, #{connections := _}}} -> true;
                {'EXIT', _} -> false;
                _ -> answers(Port, Id)
            end;
        {Port, {exit_status, Status}} ->
            ct:pal("the daemon ended with status ~b", [Status]),
            ok = start(),
            false;
        {'EXIT', Port, Reason} ->
            ct:pal("the daemon's port ended: ~p", [Reason]),
            ok = start(),
            false
    after ?BOUND -> false
    end.

frame(Vectors) ->
    frequency([{4, mutated(oneof(Vectors))}, {2, oneof(Vectors)}, {2, encoded(any())},
               {4, encoded(request())}, {2, encoded(lane_term(range(0, 3)))}, {1, binary()},
               {2, hostile()}]).

encoded(Type) -> ?LET(Term, Type, term_to_binary(Term)).

request() ->
    {request, oneof([integer(), binary(), any()]), command(), arguments()}.

command() ->
    oneof([hello, listen, accept, handshake, attach, cancel, close, set_options, get_options, info,
           stats, cipher_suites, log_level, reload, fly]).

arguments() ->
    frequency([{5, ?LET(Pairs, list({key(), value()}), maps:from_list(Pairs))}, {1, any()}]).

key() ->
    oneof([protocol, address, family, tcp, tls, hostname, listener, conn, subject, request, mode,
           stall, names, level, filter, other, nodelay, keepalive, sndbuf, recbuf, linger,
           reuseaddr, ipv6_v6only, backlog, versions, verify, cacerts, crls, chain, ciphers, alpn]).

value() ->
    oneof([integer(), range(0, 4), binary(), true, false, inet, inet6, none, peer, graceful, abort,
           debug, error, 'tlsv1.3', {{127, 0, 0, 1}, 0}, {true, 0}, [nodelay, sndbuf], [],
           1 bsl 63, -1, 1 bsl 80, 1.5, #{}, #{nodelay => true}, list(binary()),
           #{versions => ['tlsv1.2']}, <<"ALL:@SECLEVEL=0">>, any()]).

%% One change or several, of bytes that mostly stay what they were.
mutated(Frame) ->
    ?LET({Bytes, Changes}, {Frame, non_empty(list(change()))},
         lists:foldl(fun change/2, Bytes, Changes)).

change() ->
    oneof([{flip, range(0, 999), range(0, 7)}, {set, range(0, 999), range(0, 255)},
           {insert, range(0, 999), binary()}, {cut, range(0, 999), range(1, 8)},
           {truncate, range(0, 999)}, {repeat, range(0, 999), range(1, 20)}]).

change(_, <<>>) -> <<>>;
change(Change, Bytes) ->
    At = element(2, Change) rem byte_size(Bytes),
    <<Before:At/binary, Byte, After/binary>> = Bytes,
    case Change of
        {flip, _, Bit} -> <<Before/binary, (Byte bxor (1 bsl Bit)), After/binary>>;
        {set, _, Value} -> <<Before/binary, Value, After/binary>>;
        {insert, _, More} -> <<Before/binary, More/binary, Byte, After/binary>>;
        {cut, _, Count} -> <<Before/binary, (tail(After, Count))/binary>>;
        {truncate, _} -> Before;
        {repeat, _, Count} ->
            Piece = binary:part(After, 0, min(64, byte_size(After))),
            <<Before/binary, Byte, (binary:copy(Piece, Count))/binary, After/binary>>
    end.

tail(Bytes, Count) -> binary:part(Bytes, min(Count, byte_size(Bytes)),
                                  max(0, byte_size(Bytes) - Count)).

%% Terms that promise more than they hold, or are deeper than anybody needs.
hostile() ->
    oneof([?LET(Depth, range(1, 3000), <<131, (binary:copy(<<108, 1:32>>, Depth))/binary, 106>>),
           ?LET(Depth, range(1, 3000), <<131, (binary:copy(<<104, 1>>, Depth))/binary, 106>>),
           ?LET(Depth, range(1, 3000), <<131, (binary:copy(<<116, 1:32, 97, 1>>, Depth))/binary>>),
           ?LET({Tag, Size, Rest}, {oneof([105, 107, 108, 109, 111, 116, 77, 80]),
                                    oneof([16#ffffffff, 16#7fffffff, 16#80000000, 17000000]),
                                    binary()},
                <<131, Tag, Size:32, Rest/binary>>),
           ?LET(Bytes, binary(200), <<131, Bytes/binary>>),
           ?LET({Tag, Bytes}, {range(0, 255), binary(40)}, <<131, Tag, Bytes/binary>>),
           ?LET({Tag, Bytes}, {range(0, 255), binary(40)},
                <<131, 104, 4, 119, 7, "request", Tag, Bytes/binary>>),
           ?LET(Term, any(), term_to_binary(Term, [compressed])),
           ?LET(Size, range(250, 300),
                term_to_binary({request, binary:copy(<<"i">>, Size), stats, #{}}))]).

%%% Lane terms, on connections that are there

senseless_lane_terms_are_survived(Config) ->
    Certificate = etls_test_lib:file(Config, "ecdsa-both.pem"),
    ok = start(),
    ?PROPERTY(?FORALL(Steps, non_empty(list(step())), survived_on_lanes(Steps, Certificate)), 100),
    ok = etls_test_raw:stop(get(daemon)).

%% A connection is 1 or 2 of the pair of this test, or nobody's.
step() ->
    frequency([{10, lane_term(range(1, 2))}, {1, lane_term(oneof([0, 3, -1, 1 bsl 64, other]))},
               {1, {ask, close, #{conn => range(1, 2), mode => oneof([graceful, abort])}}},
               {1, {ask, oneof([attach, info]), #{conn => range(1, 2)}}}]).

lane_term(Conn) ->
    Sizes = [1, 16, 1000, 65535, 65536, 65537, 524288],
    frequency([{8, {data, Conn, ?LET(Size, oneof(Sizes), binary:copy(<<"x">>, Size))}},
               {1, {data, Conn, oneof([<<>>, binary(), integer(), any()])}},
               {6, {credit, Conn, oneof([1, 1000, 65536, 524288, 1 bsl 63 - 1])}},
               {1, {credit, Conn, oneof([0, -1, 1 bsl 64, any()])}},
               {1, {eof, Conn}}, {1, {hangup, Conn}}]).

survived_on_lanes(Steps, Certificate) ->
    Port = get(daemon),
    {Client, Server} = etls_test_raw:attached(Port, Certificate),
    _ = [catch port_command(Port, term_to_binary(on(Step, Client, Server))) || Step <- Steps],
    Alive = answers(Port),
    [ok = etls_test_raw:ask(get(daemon), close, #{conn => Conn, mode => abort})
     || Alive, Conn <- [Client, Server]],
    ok = flush(Port),
    Alive.

on({ask, Command, #{conn := Conn} = Arguments}, Client, Server) ->
    {request, 0, Command, Arguments#{conn := real(Conn, Client, Server)}};
on({Name, Conn}, Client, Server) -> {Name, real(Conn, Client, Server)};
on({Name, Conn, What}, Client, Server) -> {Name, real(Conn, Client, Server), What}.

real(1, Client, _Server) -> Client;
real(2, _Client, Server) -> Server;
real(3, _, _) -> 1 bsl 40;
real(Other, _, _) -> Other.

flush(Port) ->
    receive {Port, {data, _}} -> flush(Port) after 0 -> ok end.

%%% A stream that breaks off or is cut wrongly

a_broken_stream_ends_in_order(Config) ->
    Vectors = vectors(),
    File = filename:join(proplists:get_value(priv_dir, Config), "stream"),
    ?PROPERTY(?FORALL(Stream, stream(Vectors), ended_in_order(Stream, File)), 60).

stream(Vectors) ->
    Framed = ?LET(Frame, frame(Vectors), <<(byte_size(Frame)):32, Frame/binary>>),
    ?LET({Frames, Last}, {list(Framed), oneof([mutated(Framed), Framed, binary(),
                                               <<16777217:32>>, <<-1:32>>, <<16777216:32, 131>>])},
         iolist_to_binary([hello(), Frames, Last])).

hello() ->
    Hello = term_to_binary({request, 0, hello, #{protocol => etls_protocol:version()}}),
    <<(byte_size(Hello)):32, Hello/binary>>.

ended_in_order(Stream, File) ->
    ok = file:write_file(File, Stream),
    Said = os:cmd("timeout 30 '" ++ etls_test_daemon:etlsd() ++ "' --port <'" ++ File
                  ++ "' 2>&1 >/dev/null; echo \"=$?\""),
    [_, Status] = string:split(Said, "=", trailing),
    lists:member(string:trim(Status), ["0", "4"]) orelse begin ct:pal("~ts", [Said]), false end.

%%% The same terms from a node, where this VM frames them

senseless_terms_to_a_node_are_survived(Config) ->
    ok = etls_test_node:start(),
    Daemon = #{node := Node, peer := Peer} = etls_test_daemon:start(Config),
    Node = etls_test_raw:greet(Node),
    ?PROPERTY(?FORALL(Terms, non_empty(list(term())), survived_by_a_node(Terms, Node)), 200),
    ok = etls_test_raw:stop(Node),
    %% In order, so that a sanitizer tells what it has to tell.
    "" = os:cmd("kill -TERM " ++ etls_test_daemon:os_pid(Daemon)),
    ?assertEqual(0, etls_test_peer:exit_status(Peer, ?BOUND)).

%% Some of them ask as an operator does.
term() ->
    oneof([request(), lane_term(range(0, 3)), {'$self', any()}, {'$self', {log_level, any()}},
           any()]).

survived_by_a_node(Terms, Node) ->
    [etls_test_raw:send(Node, case Term of
                                  {'$self', Request} -> {self(), Request};
                                  _ -> Term
                              end) || Term <- Terms],
    {ok, #{connections := _}} = etls_test_raw:ask(Node, stats, #{}),
    _ = etls_test_lib:flush(),
    true.

%% What reaches out of this machine, or makes files, is not tried at random; what stops it neither.
vectors() ->
    Directory = filename:dirname(etls_test_lib:project_file("proto/vectors/requests/hello.etf")),
    Names = [Name || Name <- filelib:wildcard("*.etf", Directory),
                     Name =/= "stop.etf", not lists:prefix("connect", Name),
                     not lists:prefix("listen_local", Name)],
    [begin {ok, Bytes} = file:read_file(filename:join(Directory, Name)), Bytes end
     || Name <- Names].
