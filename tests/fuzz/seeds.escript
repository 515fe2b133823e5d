#!/usr/bin/env escript
%% seeds.escript CORPUS DICTIONARY: whole sessions for the fuzzer to begin with, as the port would
%% carry them, and the protocol's atoms in external format. Both are kept in the repository: to be
%% run after a change of the wire only.
-mode(compile).
-include("../../proto/version.hrl").

main([Corpus, Dictionary]) ->
    [
        ok = file:write_file(filename:join(Corpus, atom_to_list(Name)), [frame(T) || T <- Terms])
     || {Name, Terms} <- sessions()
    ],
    Atoms = lists:usort(atoms(sessions()) ++ more_atoms()),
    ok = file:write_file(Dictionary, [entry(Atom) || Atom <- Atoms]).

frame({distributed, Control, Payload}) ->
    framed([112, term_to_binary(Control), Payload]);
frame(Term) ->
    framed(term_to_binary(Term)).

framed(Bytes) -> [<<(iolist_size(Bytes)):32>>, Bytes].

%% Without the version byte, as libFuzzer wants it.
entry(Atom) ->
    <<131, Bytes/binary>> = term_to_binary(Atom),
    [$", [io_lib:format("\\x~2.16.0B", [Byte]) || <<Byte>> <= Bytes], "\"\n"].

atoms(Atom) when is_atom(Atom) -> [Atom];
atoms(List) when is_list(List) -> lists:flatmap(fun atoms/1, List);
atoms(Tuple) when is_tuple(Tuple) -> atoms(tuple_to_list(Tuple));
atoms(Map) when is_map(Map) -> atoms(maps:to_list(Map));
atoms(_) -> [].

more_atoms() ->
    [abort, bind, cacertfile, cacerts, chain, crls, debug, fail_if_no_peer_cert, false, filter] ++
        [inet, inet6, ipv6_v6only, keyfile, local, log_level, names, notice, reload, warning] ++
        [verify_client_once].

%% Listeners and connections of a session are numbered together, from 1 (see fuzz_link.cpp).
sessions() ->
    [
        {seed_echo, opened() ++ handshakes() ++ attached() ++ talk() ++ closes(graceful)},
        {seed_abort, opened() ++ handshakes() ++ attached() ++ talk() ++ closes(abort)},
        {seed_half_close,
            opened() ++ handshakes() ++ attached() ++ [{eof, 2}, {credit, 3, 1}, {eof, 3}]},
        {seed_hangup,
            opened() ++ attached() ++ handshakes() ++
                [{data, 2, <<"x">>}, {hangup, 2}, {hangup, 3}]},
        {seed_attach_twice, opened() ++ attached() ++ attached()},
        {seed_no_lane,
            opened() ++ handshakes() ++
                [{data, 2, <<"x">>}, {credit, 9, 1}, {eof, 9}, {hangup, 9}]},
        {seed_options, opened() ++ options()},
        {seed_cancel, [
            listen(),
            accept(1),
            accept(2),
            request(3, cancel, #{request => id(1)}),
            close_listener()
        ]},
        {seed_ids,
            [listen(), accept(1), accept(1), connect(1), request(1, cancel, #{request => id(1)})]},
        {seed_local, [
            listen(#{address => {local, <<"/tmp/x">>}}),
            connect(2, #{host => {local, <<"/tmp/x">>}})
        ]},
        {seed_alpn, [
            listen(#{}, #{alpn => [<<"h2">>]}),
            connect(1, #{}, #{alpn => [<<"h2">>, <<"http/1.1">>]}),
            accept(2)
            | handshakes()
        ]},
        {seed_verify, [
            listen(#{}, #{verify => peer, cacertfile => <<"/c.pem">>}),
            connect(1),
            accept(2)
            | handshakes()
        ]},
        {seed_versions,
            [listen(#{}, #{versions => ['tlsv1.2']}), connect(1), accept(2)] ++ handshakes()},
        {seed_senseless, [
            request(1, fly, #{}),
            request(2, info, #{conn => x}),
            {request, 3},
            4,
            request(5, stop, #{})
        ]},
        {seed_hello, [
            request(1, hello, #{protocol => ?ETLS_PROTOCOL_VERSION}),
            request(2, hello, #{protocol => 1})
        ]},
        {seed_distribution, distribution()}
    ].

%% By number: REG_SEND, SEND_SENDER, LINK, UNLINK_ID, EXIT, EXIT2, MONITOR_P.
distribution() ->
    Ref = make_ref(),
    Request = term_to_binary(request(1, stats, #{})),
    [
        {distributed, {6, self(), '', etlsd}, Request},
        {distributed, {22, self(), self()}, Request},
        {distributed, {1, self(), self()}, []},
        {distributed, {35, 7, self(), self()}, []},
        {distributed, {3, self(), self(), normal}, []},
        {distributed, {8, self(), self(), normal}, []},
        {distributed, {19, self(), etlsd, Ref}, []}
    ].

id(N) -> {<<"<0.99.0>">>, N}.

request(N, Command, Args) -> {request, id(N), Command, Args}.

listen() -> listen(#{}).
listen(More) -> listen(More, #{}).
listen(More, Tls) ->
    Own = #{address => {{127, 0, 0, 1}, 0}, tcp => #{nodelay => true, backlog => 8}},
    request(100, listen, maps:merge(Own#{tls => Tls#{certfile => <<"/c.pem">>}}, More)).

connect(N) -> connect(N, #{}).
connect(N, More) -> connect(N, More, #{}).
connect(N, More, Tls) ->
    Own = #{host => {127, 0, 0, 1}, port => 1, family => any, server_name => <<"localhost">>},
    request(N, connect, maps:merge(Own#{tls => Tls#{verify => none}}, More)).

accept(N) -> request(N, accept, #{listener => 1}).

%% Listener 1, and the two ends of one connection: 2 and 3.
opened() -> [listen(), connect(101), accept(102)].

handshakes() -> [request(N, handshake, #{conn => N, subject => id(N + 10)}) || N <- [2, 3]].

attached() -> [request(N + 20, attach, #{conn => N}) || N <- [2, 3]].

talk() ->
    [
        {credit, 2, 524288},
        {credit, 3, 10},
        {data, 2, <<"hello">>},
        {data, 3, <<"hello yourself">>},
        {credit, 3, 100},
        request(110, info, #{conn => 2}),
        request(111, stats, #{})
    ].

closes(Mode) ->
    [request(N + 30, close, #{conn => N, mode => Mode, stall => 1000}) || N <- [2, 3]] ++
        [close_listener()].

close_listener() -> request(120, close, #{listener => 1}).

options() ->
    Tcp = #{
        nodelay => false, keepalive => true, sndbuf => 4096, recbuf => 4096, linger => {true, 0}
    },
    [
        request(130, set_options, #{conn => 2, tcp => Tcp}),
        request(131, set_options, #{listener => 1, tcp => Tcp}),
        request(132, get_options, #{conn => 3, names => [nodelay, linger, sndbuf, reuseaddr]}),
        request(133, cipher_suites, #{filter => <<"HIGH">>}),
        request(134, log_level, #{level => error})
    ].
