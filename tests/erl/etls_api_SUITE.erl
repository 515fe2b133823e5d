%% Each function's shapes and each option's effect, as the libraries that etls replaces had them.
-module(etls_api_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([the_originals_snippets_work/1, connect_without_timeout_waits_for_ever/1,
         every_kind_of_host_is_taken/1, ipv6_is_as_good_as_ipv4/1, a_local_path_is_a_host/1,
         an_ipv6_listener_takes_both_families_unless_told/1, a_refused_connect_says_econnrefused/1,
         an_unknown_name_says_nxdomain/1, an_address_in_use_says_eaddrinuse/1,
         port_zero_is_told_by_sockname/1, a_listener_binds_to_the_ip_it_was_given/1,
         a_client_binds_to_the_ip_and_port_it_was_given/1, accept_answers_before_any_tls/1,
         addresses_agree_on_both_sides/1, a_certificate_is_shown_to_the_other_side/1,
         a_chain_is_shown_leaf_first/1, the_chain_option_adds_certificates/1,
         without_client_certificate_there_is_none/1, connection_information_tells_the_protocol/1,
         connection_information_names_the_items_asked/1, the_versions_option_is_obeyed/1,
         versions_without_overlap_are_refused/1, alpn_is_negotiated/1,
         alpn_without_overlap_is_refused/1, without_alpn_no_protocol_is_told/1,
         server_name_is_sent_for_names_only/1, server_name_is_sent_as_told/1,
         cipher_suites_are_listed_and_filtered/1, ciphers_decide_the_suite/1,
         ciphers_without_overlap_are_refused/1, getstat_counts_the_wire/1,
         socket_options_are_read_back/1, tcp_options_reach_the_daemons_socket/1,
         listener_options_are_inherited/1, setopts_is_all_or_nothing/1,
         wrong_options_are_named/1, wrong_files_are_named/1, secrets_are_not_echoed/1,
         files_may_be_relative_and_binaries/1, certificate_and_key_may_share_a_file/1,
         what_is_no_list_is_einval/1, a_users_mistakes_are_not_logged/1, log/2,
         reasons_are_told_in_words/1, before_the_handshake_nothing_is_told/1,
         after_close_everything_says_closed/1, closing_twice_is_fine/1,
         a_second_handshake_is_refused/1, a_handshake_on_a_closed_socket_says_closed/1,
         closing_a_listener_ends_waiting_accepts/1, start_and_stop_may_be_repeated/1,
         plaintext_on_a_tls_port_is_refused_with_an_alert/1, a_tls_port_survives_port_scanners/1,
         renewed_certificate_files_are_read_by_the_next_listen/1, nothing_is_left_behind/1]).

-import(etls_test_lib, [pair/1, pair/2, pair/3, ssl_pair/3, listen/1, listen/2, port/1, file/2,
                        credentials/1, credentials/2, der/2, read/2, accept_in_background/2,
                        accepted/1, in_process/1, result/1, no_messages/0]).

-define(LOCAL, {127, 0, 0, 1}).
-define(BOUND, 5000).

suite() -> [{timetrap, {seconds, 30}}].

all() -> etls_test_lib:all().

groups() ->
    etls_test_lib:combined(etls_test_lib:cases(?MODULE) ++ [nothing_is_left_behind]).

init_per_suite(Config) -> etls_test_lib:prepare(Config).
end_per_suite(_Config) -> ok.
init_per_group(Name, Config) -> etls_test_lib:enter(Name, Config).
end_per_group(_Name, Config) -> etls_test_lib:leave(Config).

init_per_testcase(Case, Config) ->
    ok = etls_test_lib:watch(Case),
    Config.

end_per_testcase(_Case, _Config) -> ok.

the_originals_snippets_work(Config) ->
    Test = self(),
    Server = in_process(
               fun() ->
                       {ok, ListenSocket} =
                           etls:listen(9999, [{certfile, file(Config, "ecdsa.pem")},
                                              {keyfile, file(Config, "ecdsa.key")},
                                              {reuseaddr, true}]),
                       Test ! listening,
                       {ok, Socket} = etls:accept(ListenSocket),
                       ok = etls:handshake(Socket),
                       ok = etls:setopts(Socket, [{active, once}]),
                       receive {etls, Socket, Data} -> Data end
               end),
    receive listening -> ok end,
    {ok, Socket} = etls:connect("localhost", 9999, [], infinity),
    ok = etls:send(Socket, "foo"),
    ?assertEqual(<<"foo">>, result(Server)).

connect_without_timeout_waits_for_ever(Config) ->
    {Listener, Port} = listen(Config),
    Accepting = accept_in_background(Listener, self()),
    {ok, Client} = etls:connect("localhost", Port, []),
    Server = accepted(Accepting),
    ok = etls:send(Client, <<"x">>),
    ?assertEqual({ok, <<"x">>}, etls:recv(Server, 0)).

every_kind_of_host_is_taken(Config) ->
    {Listener, Port} = listen(Config),
    [begin
         Accepting = accept_in_background(Listener, self()),
         {ok, Client} = etls:connect(Host, Port, [], ?BOUND),
         Server = accepted(Accepting),
         ok = etls:send(Client, "x"),
         ?assertEqual({Host, {ok, <<"x">>}}, {Host, etls:recv(Server, 0, ?BOUND)}),
         ok = etls:close(Client)
     end || Host <- ["localhost", <<"localhost">>, localhost, "127.0.0.1", <<"127.0.0.1">>,
                     ?LOCAL]].

ipv6_is_as_good_as_ipv4(Config) ->
    {Listener, Port} = listen(Config, [inet6, {ip, {0, 0, 0, 0, 0, 0, 0, 1}}]),
    [begin
         Accepting = accept_in_background(Listener, self()),
         {ok, Client} = etls:connect(Host, Port, Options, ?BOUND),
         Server = accepted(Accepting),
         {ok, {PeerIp, Port}} = etls:peername(Client),
         ?assertEqual({0, 0, 0, 0, 0, 0, 0, 1}, PeerIp),
         ok = etls:send(Server, "x"),
         ?assertEqual({ok, <<"x">>}, etls:recv(Client, 0, ?BOUND)),
         ok = etls:close(Client)
     end || {Host, Options} <- [{{0, 0, 0, 0, 0, 0, 0, 1}, []}, {"::1", []}, {"::1", [inet6]},
                                %% Where the machine has "localhost" for it.
                                {"localhost", [inet6]}],
            Host =/= "localhost" orelse inet:getaddr(Host, inet6) =/= {error, nxdomain}].

a_local_path_is_a_host(Config) ->
    Path = filename:join("/tmp", "etls-api-" ++ os:getpid()),
    {ok, Listener} = etls:listen(0, [{ip, {local, Path}} | credentials(Config)]),
    try
        Accepting = accept_in_background(Listener, self()),
        {ok, Client} = etls:connect({local, Path}, 0, [], ?BOUND),
        Server = accepted(Accepting),
        ok = etls:send(Client, "over a path"),
        ?assertEqual({ok, <<"over a path">>}, etls:recv(Server, 11, ?BOUND)),
        {ok, {local, Bound}} = etls:sockname(Listener),
        ?assertEqual(Path, unicode:characters_to_list(Bound)),
        ?assertMatch({ok, {local, _}}, etls:peername(Client))
    after
        etls:close(Listener),
        file:delete(Path)
    end.

an_ipv6_listener_takes_both_families_unless_told(Config) ->
    Both = listen(Config, [inet6, {ipv6_v6only, false}]),
    Only = listen(Config, [inet6, {ipv6_v6only, true}]),
    Connect = fun({Listener, Port}, Host) ->
                      Accepting = accept_in_background(Listener, self()),
                      Result = etls:connect(Host, Port, [], ?BOUND),
                      {Pid, Monitor, _} = Accepting,
                      case Result of
                          {ok, Client} -> _ = accepted(Accepting), etls:close(Client), ok;
                          Error ->
                              exit(Pid, kill),
                              demonitor(Monitor, [flush]),
                              Error
                      end
              end,
    ?assertEqual(ok, Connect(Both, ?LOCAL)),
    ?assertEqual(ok, Connect(Both, "::1")),
    ?assertEqual(ok, Connect(Only, "::1")),
    ?assertEqual({error, econnrefused}, Connect(Only, ?LOCAL)).

a_refused_connect_says_econnrefused(_Config) ->
    Port = etls_test_peer:free_port(),
    ?assertEqual({error, econnrefused}, etls:connect(?LOCAL, Port, [], ?BOUND)),
    ?assertEqual({error, econnrefused}, etls:connect("localhost", Port, [], ?BOUND)),
    ?assertEqual({error, enoent}, etls:connect({local, "/tmp/no such socket"}, 0, [], ?BOUND)).

an_unknown_name_says_nxdomain(_Config) ->
    ?assertEqual({error, nxdomain}, etls:connect("no-such-host.invalid", 443, [], 20000)).

an_address_in_use_says_eaddrinuse(Config) ->
    {_Listener, Port} = listen(Config),
    ?assertEqual({error, eaddrinuse}, etls:listen(Port, credentials(Config))),
    ?assertEqual({error, eaddrnotavail},
                 etls:listen(0, [{ip, {192, 0, 2, 1}} | credentials(Config)])).

port_zero_is_told_by_sockname(Config) ->
    {ok, Listener} = etls:listen(0, credentials(Config)),
    {ok, {Ip, Port}} = etls:sockname(Listener),
    ?assertEqual({0, 0, 0, 0}, Ip),
    ?assert(Port > 0),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, []),
    ok = gen_tcp:close(Tcp).

a_listener_binds_to_the_ip_it_was_given(Config) ->
    {Listener, Port} = listen(Config, [{ip, {127, 0, 0, 2}}]),
    ?assertEqual({ok, {{127, 0, 0, 2}, Port}}, etls:sockname(Listener)),
    ?assertEqual({error, econnrefused}, gen_tcp:connect(?LOCAL, Port, [])).

a_client_binds_to_the_ip_and_port_it_was_given(Config) ->
    Own = etls_test_peer:free_port(),
    {Client, Server} = pair(Config, [{ip, {127, 0, 0, 3}}, {port, Own}]),
    ?assertEqual({ok, {{127, 0, 0, 3}, Own}}, etls:sockname(Client)),
    ?assertEqual({ok, {{127, 0, 0, 3}, Own}}, etls:peername(Server)).

accept_answers_before_any_tls(Config) ->
    {Listener, Port} = listen(Config),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, [binary, {active, false}]),
    {ok, Socket} = etls:accept(Listener, ?BOUND),
    {ok, Local} = inet:sockname(Tcp),
    ?assertEqual({ok, Local}, etls:peername(Socket)),
    ok = etls:close(Socket),
    ?assertEqual({error, closed}, gen_tcp:recv(Tcp, 0, ?BOUND)).

addresses_agree_on_both_sides(Config) ->
    {Client, Server} = pair(Config),
    {ok, ClientAddress} = etls:sockname(Client),
    {ok, ServerAddress} = etls:sockname(Server),
    ?assertEqual({ok, ServerAddress}, etls:peername(Client)),
    ?assertEqual({ok, ClientAddress}, etls:peername(Server)),
    ?assertMatch({?LOCAL, _}, ClientAddress).

a_certificate_is_shown_to_the_other_side(Config) ->
    {Client, Server} = pair(Config, [{verify_type, verify_peer},
                                     {cacerts, [read(Config, "ca.pem")]}],
                            credentials(Config, "client")),
    ?assertEqual({ok, der(Config, "ecdsa.pem")}, etls:peercert(Client)),
    ?assertEqual({ok, der(Config, "client.pem")}, etls:peercert(Server)).

a_chain_is_shown_leaf_first(Config) ->
    {Client, _} = pair(Config, [{certfile, file(Config, "intermediate-chain.pem")},
                                {keyfile, file(Config, "intermediate-leaf.key")}], []),
    ?assertEqual({ok, [der(Config, "intermediate-leaf.pem"), der(Config, "intermediate.pem")]},
                 etls:certificate_chain(Client)),
    ?assertEqual({ok, der(Config, "intermediate-leaf.pem")}, etls:peercert(Client)).

the_chain_option_adds_certificates(Config) ->
    [begin
         {Client, _} = pair(Config, [{chain, [Intermediate]} |
                                     credentials(Config, "intermediate-leaf")], []),
         ?assertEqual({ok, [der(Config, "intermediate-leaf.pem"), der(Config, "intermediate.pem")]},
                      etls:certificate_chain(Client))
     end || Intermediate <- [read(Config, "intermediate.pem"), der(Config, "intermediate.pem")]].

without_client_certificate_there_is_none(Config) ->
    {_, Server} = pair(Config),
    ?assertEqual({error, no_peercert}, etls:peercert(Server)),
    ?assertEqual({ok, []}, etls:certificate_chain(Server)).

connection_information_tells_the_protocol(Config) ->
    [begin
         {Client, Server} = pair(Config, [{versions, [Version]}]),
         [begin
              {ok, Information} = etls:connection_information(Socket),
              ?assertEqual(Version, proplists:get_value(protocol, Information)),
              ?assertMatch(#{cipher := _, key_exchange := Exchange, mac := aead, prf := _},
                           proplists:get_value(selected_cipher_suite, Information)),
              ?assertEqual(false, proplists:get_value(session_resumption, Information))
          end || Socket <- [Client, Server]]
     end || {Version, Exchange} <- [{'tlsv1.2', ecdhe_ecdsa}, {'tlsv1.3', any}]].

connection_information_names_the_items_asked(Config) ->
    {Client, _} = pair(Config, [{versions, ['tlsv1.3']}]),
    ?assertEqual({ok, [{protocol, 'tlsv1.3'}]}, etls:connection_information(Client, [protocol])).

the_versions_option_is_obeyed(Config) ->
    [begin
         {Client, _} = pair(Config, [{versions, Server}], [{versions, Own}]),
         {ok, Information} = etls:connection_information(Client),
         ?assertEqual(Expected, proplists:get_value(protocol, Information))
     end || {Server, Own, Expected} <-
                [{['tlsv1.2', 'tlsv1.3'], ['tlsv1.3', 'tlsv1.2'], 'tlsv1.3'},
                 {['tlsv1.2'], ['tlsv1.2', 'tlsv1.3'], 'tlsv1.2'},
                 {['tlsv1.2', 'tlsv1.3'], ['tlsv1.2'], 'tlsv1.2'}]].

versions_without_overlap_are_refused(Config) ->
    ?assertMatch({{error, {tls_alert, {protocol_version, _}}},
                  {error, {tls_alert, {protocol_version, _}}}},
                 failed(Config, [{versions, ['tlsv1.2']}], [{versions, ['tlsv1.3']}])),
    ?assertMatch({{error, {tls_alert, {protocol_version, _}}},
                  {error, {tls_alert, {protocol_version, _}}}},
                 failed(Config, [{versions, ['tlsv1.3']}], [{versions, ['tlsv1.2']}])).

alpn_is_negotiated(Config) ->
    {Client, Server} = pair(Config, [{alpn_preferred_protocols, [<<"h2">>, <<"http/1.1">>]}],
                            [{alpn_advertised_protocols, [<<"http/1.1">>, <<"h2">>]}]),
    ?assertEqual({ok, <<"h2">>}, etls:negotiated_protocol(Client)),
    ?assertEqual({ok, <<"h2">>}, etls:negotiated_protocol(Server)).

alpn_without_overlap_is_refused(Config) ->
    ?assertMatch({{error, {tls_alert, {no_application_protocol, _}}},
                  {error, {tls_alert, {no_application_protocol, _}}}},
                 failed(Config, [{alpn_preferred_protocols, [<<"h2">>]}],
                        [{alpn_advertised_protocols, [<<"spdy">>]}])).

without_alpn_no_protocol_is_told(Config) ->
    {Client, Server} = pair(Config, [{alpn_preferred_protocols, [<<"h2">>]}], []),
    ?assertEqual({error, protocol_not_negotiated}, etls:negotiated_protocol(Client)),
    ?assertEqual({error, protocol_not_negotiated}, etls:negotiated_protocol(Server)).

server_name_is_sent_for_names_only(Config) ->
    {Listener, Port} = listen(Config),
    [begin
         Accepting = accept_in_background(Listener, self()),
         {ok, Client} = etls:connect(Host, Port, [], ?BOUND),
         Server = accepted(Accepting),
         ?assertEqual({Host, Expected}, {Host, server_name(Server)}),
         ok = etls:close(Client)
     end || {Host, Expected} <- [{"localhost", "localhost"}, {<<"localhost">>, "localhost"},
                                 {"127.0.0.1", undefined}, {?LOCAL, undefined}]].

server_name_is_sent_as_told(Config) ->
    [begin
         {_, Server} = pair(Config, [{server_name_indication, Given}]),
         ?assertEqual(Expected, server_name(Server))
     end || {Given, Expected} <- [{"www.etls.example", "www.etls.example"}, {disable, undefined}]].

server_name(Socket) ->
    {ok, Information} = etls:connection_information(Socket),
    proplists:get_value(sni_hostname, Information, undefined).

cipher_suites_are_listed_and_filtered(_Config) ->
    All = etls:cipher_suites(),
    ?assert(lists:member("ECDHE-RSA-AES128-SHA", All)),
    ?assert(lists:member("TLS_AES_128_GCM_SHA256", All)),
    ?assertEqual({error, {options, {ciphers, {invalid, []}}}}, etls:cipher_suites("")),
    ?assertEqual({error, {options, {ciphers, no_match}}}, etls:cipher_suites("no such cipher")),
    Strong = etls:cipher_suites("AES256"),
    ?assert(lists:member("ECDHE-RSA-AES256-GCM-SHA384", Strong)),
    ?assertNot(lists:member("ECDHE-RSA-AES128-SHA", Strong)).

ciphers_decide_the_suite(Config) ->
    Name = "ECDHE-ECDSA-AES256-GCM-SHA384",
    [begin
         {Client, Server} = pair(Config, Options ++ [{versions, ['tlsv1.2']}],
                                 [{versions, ['tlsv1.2']}]),
         [?assertMatch(#{key_exchange := ecdhe_ecdsa, cipher := aes_256_gcm, mac := aead,
                         prf := sha384}, suite(Socket)) || Socket <- [Client, Server]]
     end || Options <- [[{ciphers, Name}], [{ciphers, [Name]}], [{ciphers, list_to_binary(Name)}]]],
    {Client, _} = pair(Config, [{ciphers, ["TLS_CHACHA20_POLY1305_SHA256"]}]),
    ?assertMatch(#{cipher := chacha20_poly1305}, suite(Client)).

suite(Socket) ->
    {ok, Information} = etls:connection_information(Socket),
    proplists:get_value(selected_cipher_suite, Information).

ciphers_without_overlap_are_refused(Config) ->
    ?assertMatch({{error, {tls_alert, {handshake_failure, _}}},
                  {error, {tls_alert, {handshake_failure, _}}}},
                 failed(Config,
                        [{versions, ['tlsv1.2']}, {ciphers, "ECDHE-ECDSA-AES256-GCM-SHA384"}],
                        [{versions, ['tlsv1.2']}, {ciphers, "ECDHE-ECDSA-AES128-GCM-SHA256"}])),
    ?assertMatch({error, {options, {ciphers, _}}},
                 etls:connect(?LOCAL, 1, [{ciphers, "NO-SUCH-SUITE"}], ?BOUND)).

getstat_counts_the_wire(Config) ->
    {Client, Server} = pair(Config),
    {ok, Before} = etls:getstat(Client, [send_oct, send_cnt]),
    ok = etls:send(Client, binary:copy(<<"x">>, 1000)),
    {ok, _} = etls:recv(Server, 1000, ?BOUND),
    {ok, After} = etls:getstat(Client, [send_oct, send_cnt]),
    Sent = proplists:get_value(send_oct, After) - proplists:get_value(send_oct, Before),
    ?assert(Sent > 1000),
    ?assert(Sent < 1200),
    ?assert(proplists:get_value(send_cnt, After) > proplists:get_value(send_cnt, Before)),
    {ok, All} = etls:getstat(Server),
    ?assertEqual([recv_avg, recv_cnt, recv_dvi, recv_max, recv_oct,
                  send_avg, send_cnt, send_max, send_oct, send_pend],
                 lists:sort(proplists:get_keys(All))),
    ?assert(proplists:get_value(recv_oct, All) > 1000).

socket_options_are_read_back(Config) ->
    {Client, _} = pair(Config),
    {ok, Defaults} = etls:getopts(Client, [active, packet, mode, exit_on_close, nodelay,
                                           packet_size, send_timeout, send_timeout_close]),
    ?assertEqual([{active, false}, {packet, 0}, {mode, binary}, {exit_on_close, true},
                  {nodelay, true}, {packet_size, 0}, {send_timeout, infinity},
                  {send_timeout_close, false}],
                 [case Option of {packet, raw} -> {packet, 0}; _ -> Option end
                  || Option <- Defaults]),
    [begin
         ok = etls:setopts(Client, [Option]),
         ?assertEqual({ok, [Option]}, etls:getopts(Client, [element(1, Option)]))
     end || Option <- [{packet, 4}, {packet, line}, {mode, list}, {packet_size, 100},
                       {exit_on_close, false}, {send_timeout, 1000}, {send_timeout_close, true},
                       {nodelay, false}, {keepalive, true}, {active, once}, {active, true},
                       {active, 5}, {active, false}, {linger, {true, 3}}]].

tcp_options_reach_the_daemons_socket(Config) ->
    {Client, Server} = pair(Config, [{sndbuf, 20000}], [{recbuf, 30000}, {keepalive, true}]),
    %% Linux doubles what it is given.
    ?assertMatch({ok, [{recbuf, 60000}, {keepalive, true}]},
                 etls:getopts(Client, [recbuf, keepalive])),
    ?assertMatch({ok, [{sndbuf, 40000}]}, etls:getopts(Server, [sndbuf])),
    ok = etls:setopts(Client, [{sndbuf, 25000}]),
    ?assertMatch({ok, [{sndbuf, 50000}]}, etls:getopts(Client, [sndbuf])).

listener_options_are_inherited(Config) ->
    {Client, Server} = pair(Config, [{packet, 2}, {active, true}, {mode, list}, {nodelay, false}],
                            [{packet, 2}]),
    ?assertEqual({ok, [{packet, 2}, {active, true}, {mode, list}, {nodelay, false}]},
                 etls:getopts(Server, [packet, active, mode, nodelay])),
    ok = etls:send(Client, "inherited"),
    receive {etls, Server, "inherited"} -> ok after ?BOUND -> error(timeout) end.

setopts_is_all_or_nothing(Config) ->
    {Client, _} = pair(Config),
    ?assertEqual({error, {options, {packet, {invalid, 3}}}},
                 etls:setopts(Client, [{active, true}, {nodelay, false}, {packet, 3}])),
    ?assertEqual({ok, [{active, false}, {nodelay, true}]},
                 etls:getopts(Client, [active, nodelay])),
    ?assertEqual({error, {options, {no_such_option, unknown}}},
                 etls:setopts(Client, [{no_such_option, 1}])),
    ?assertEqual({error, {options, {no_such_option, unknown}}},
                 etls:getopts(Client, [no_such_option])).

wrong_options_are_named(Config) ->
    Wrong = [{{active, 'maybe'}, active}, {{active, 40000}, active}, {{packet, 3}, packet},
             {{packet_size, -1}, packet_size}, {{mode, text}, mode},
             {{exit_on_close, 1}, exit_on_close}, {{send_timeout, -1}, send_timeout},
             {{send_timeout_close, x}, send_timeout_close}, {{nodelay, x}, nodelay},
             {{keepalive, x}, keepalive}, {{sndbuf, x}, sndbuf}, {{recbuf, -1}, recbuf},
             {{buffer, x}, buffer}, {{ip, {1, 2, 3}}, ip}, {{linger, x}, linger},
             {{verify_type, x}, verify_type}, {{verify, x}, verify},
             {{fail_if_no_peer_cert, x}, fail_if_no_peer_cert},
             {{verify_client_once, x}, verify_client_once},
             {{rfc2818_verification_hostname, 1}, rfc2818_verification_hostname},
             {{cacerts, x}, cacerts}, {{crls, [x]}, crls}, {{chain, [1]}, chain},
             {{certfile, 1}, certfile}, {{keyfile, 1}, keyfile}, {{cacertfile, 1}, cacertfile},
             {{ciphers, 1}, ciphers}, {{versions, ['sslv3']}, versions}, {{versions, []}, versions},
             {{server_name_indication, 1}, server_name_indication},
             {{alpn_advertised_protocols, [x]}, alpn_advertised_protocols},
             {{alpn_preferred_protocols, x}, alpn_preferred_protocols}],
    %% What may hold a key or is long is not echoed.
    Quiet = [cacerts, crls, chain, certfile, keyfile, cacertfile],
    [begin
         Reason = case lists:member(Name, Quiet) of
                      true -> invalid;
                      false -> {invalid, element(2, Option)}
                  end,
         Expected = {Option, {error, {options, {Name, Reason}}}},
         ?assertEqual(Expected, {Option, etls:connect(?LOCAL, 1, [Option], ?BOUND)}),
         ?assertEqual(Expected, {Option, etls:listen(0, [Option | credentials(Config)])})
     end || {Option, Name} <- Wrong],
    ?assertEqual({error, {options, {no_such_option, unknown}}},
                 etls:connect(?LOCAL, 1, [{no_such_option, true}], ?BOUND)),
    ?assertEqual({error, {options, {no_such_option, unknown}}},
                 etls:listen(0, [{no_such_option, true} | credentials(Config)])),
    ?assertEqual({error, {options, {certfile, required}}}, etls:listen(0, [])),
    ?assertMatch({error, {options, {_, _}}},
                 etls:connect(?LOCAL, 1, [{verify, verify_peer}, {verify_type, verify_none}],
                              ?BOUND)),
    ?assertMatch({error, _}, etls:connect(?LOCAL, 70000, [], ?BOUND)),
    ?assertMatch({error, _}, etls:listen(-1, credentials(Config))).

wrong_files_are_named(Config) ->
    Missing = file(Config, "missing.pem"),
    Garbage = file(Config, "garbage.pem"),
    Directory = ?config(certs, Config),
    Good = file(Config, "ecdsa.pem"),
    Key = file(Config, "ecdsa.key"),
    Refused = fun(Options) ->
                      {error, {options, {Name, Reason}}} = etls:listen(0, Options),
                      ?assertEqual({error, {options, {Name, Reason}}},
                                   etls:connect(?LOCAL, 1, Options, ?BOUND)),
                      %% The words for it name the option and the file too.
                      Words = etls:format_error({options, {Name, Reason}}),
                      ?assertNotEqual(nomatch, string:find(Words, atom_to_list(Name))),
                      {Name, Reason}
              end,
    ?assertEqual({certfile, {enoent, Missing}}, Refused([{certfile, Missing}, {keyfile, Key}])),
    ?assertEqual({keyfile, {enoent, Missing}}, Refused([{certfile, Good}, {keyfile, Missing}])),
    ?assertEqual({cacertfile, {enoent, Missing}},
                 Refused([{certfile, Good}, {keyfile, Key}, {cacertfile, Missing}])),
    ?assertEqual({certfile, {eisdir, Directory}},
                 Refused([{certfile, Directory}, {keyfile, Key}])),
    ?assertEqual({keyfile, {eisdir, Directory}},
                 Refused([{certfile, Good}, {keyfile, Directory}])),
    ?assertEqual({cacertfile, {eisdir, Directory}},
                 Refused([{certfile, Good}, {keyfile, Key}, {cacertfile, Directory}])),
    ?assertMatch({certfile, {_, Garbage}}, Refused([{certfile, Garbage}, {keyfile, Key}])),
    ?assertMatch({keyfile, {_, Garbage}}, Refused([{certfile, Good}, {keyfile, Garbage}])),
    ?assertMatch({cacertfile, {_, Garbage}},
                 Refused([{certfile, Good}, {keyfile, Key}, {cacertfile, Garbage}])),
    %% Without keyfile the key is looked for in certfile, which has none here.
    ?assertMatch({_, {_, Good}}, Refused([{certfile, Good}])),
    Other = file(Config, "rsa.key"),
    ?assertEqual({keyfile, {key_mismatch, Other}}, Refused([{certfile, Good}, {keyfile, Other}])),
    OtherEc = file(Config, "expired.key"),
    ?assertEqual({keyfile, {key_mismatch, OtherEc}},
                 Refused([{certfile, Good}, {keyfile, OtherEc}])),
    [?assertMatch({Name, _}, Refused([{Name, [<<"garbage">>]} | credentials(Config)]))
     || Name <- [cacerts, crls, chain]].

secrets_are_not_echoed(Config) ->
    Pem = read(Config, "ecdsa.key"),
    [begin
         {error, Reason} = etls:connect(?LOCAL, 1, [{Option, Pem}], ?BOUND),
         Shown = io_lib:format("~p ~s", [Reason, etls:format_error(Reason)]),
         ?assertEqual(nomatch, string:find(Shown, "PRIVATE"))
     end || Option <- [keyfile, certfile]].

files_may_be_relative_and_binaries(Config) ->
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(?config(certs, Config)),
    try
        {Listener, _} = listen(Config, [{certfile, "ecdsa.pem"}, {keyfile, <<"ecdsa.key">>}]),
        ok = etls:close(Listener)
    after
        file:set_cwd(Before)
    end.

certificate_and_key_may_share_a_file(Config) ->
    [begin
         {Client, Server} = pair(Config, [{certfile, file(Config, Name)}], []),
         ok = etls:send(Server, "x"),
         ?assertEqual({ok, <<"x">>}, etls:recv(Client, 1, ?BOUND))
     end || Name <- ["ecdsa-both.pem", "rsa-both.pem"]].

what_is_no_list_is_einval(Config) ->
    {Client, _} = pair(Config),
    {Listener, _} = listen(Config),
    [?assertEqual({Name, Value, {error, einval}}, {Name, Value, apply(etls, Name, [On, Value])})
     || {Name, On} <- [{getopts, Client}, {getopts, Listener}, {setopts, Client},
                       {setopts, Listener}, {getstat, Client}, {connection_information, Client}],
        Value <- [no_list, [active | recv_oct]]].

%% Each is told to who made it; a log full of them would hide what an operator must see.
a_users_mistakes_are_not_logged(Config) ->
    {Client, _} = pair(Config),
    {Listener, _} = listen(Config),
    ok = logger:add_handler(?MODULE, ?MODULE, #{level => warning, config => self()}),
    Long = "/" ++ lists:duplicate(200, $a),
    Mistakes = [fun() -> etls:send(Client, not_iodata) end,
                fun() -> etls:send(Client, [256]) end,
                fun() -> etls:recv(Client, -1) end,
                fun() -> etls:setopts(Client, [{packet, 3}]) end,
                fun() -> etls:getopts(Client, [backlog]) end,
                fun() -> etls:getopts(Listener, [backlog]) end,
                fun() -> etls:shutdown(Client, all) end,
                fun() -> etls:controlling_process(Client, nobody) end,
                fun() -> etls:cipher_suites("") end,
                fun() -> etls:cipher_suites("no such cipher") end,
                fun() -> etls:connect({local, Long}, 0, []) end,
                fun() -> etls:connect(?LOCAL, 1, [{ip, {local, Long}}]) end,
                fun() -> etls:connect(?LOCAL, 1, [{ciphers, <<"A", 0>>}]) end,
                fun() -> etls:connect(?LOCAL, 1, [{crls, [binary:copy(<<0>>, 17000000)]}]) end,
                fun() -> etls:listen(0, [{ip, {local, Long}} | credentials(Config)]) end],
    try
        [?assertMatch({error, _}, Mistake()) || Mistake <- Mistakes],
        no_messages()
    after
        logger:remove_handler(?MODULE)
    end.

%% logger's handler of the case above.
log(Event, #{config := Test}) ->
    Test ! {logged, Event}.

reasons_are_told_in_words(_Config) ->
    [begin
         Words = etls:format_error(Reason),
         ?assert(io_lib:printable_unicode_list(Words)),
         ?assertNotEqual("", Words)
     end || Reason <- [timeout, closed, econnrefused, nxdomain, econnaborted, enotconn, not_owner,
                       no_peercert, protocol_not_negotiated, {tls_alert, {unknown_ca, "why"}},
                       {options, {certfile, {enoent, "/x"}}}, {options, {certfile, required}},
                       {options, {x, unknown}}, {options, {packet, {invalid, 3}}},
                       {something, 'else'}]],
    ?assertNotEqual(nomatch,
                    string:find(etls:format_error({options, {certfile, {enoent, "/x"}}}), "/x")),
    ?assertNotEqual(nomatch, string:find(etls:format_error({tls_alert, {unknown_ca, "why"}}),
                                         "why")),
    ?assertEqual(etls:format_error(econnrefused), etls:format_error({error, econnrefused})).

before_the_handshake_nothing_is_told(Config) ->
    {Listener, Port} = listen(Config),
    {ok, _Tcp} = gen_tcp:connect(?LOCAL, Port, []),
    {ok, Socket} = etls:accept(Listener, ?BOUND),
    ?assertEqual({error, enotconn}, etls:send(Socket, "x")),
    ?assertEqual({error, enotconn}, etls:recv(Socket, 0, 100)),
    ?assertEqual({error, enotconn}, etls:connection_information(Socket)),
    ?assertMatch({error, _}, etls:peercert(Socket)),
    ?assertMatch({error, _}, etls:negotiated_protocol(Socket)).

after_close_everything_says_closed(Config) ->
    {Client, _} = pair(Config),
    ok = etls:close(Client),
    [?assertEqual({Name, {error, closed}}, {Name, apply(etls, Name, [Client | More])})
     || {Name, More} <- [{send, ["x"]}, {recv, [0]}, {recv, [0, 10]}, {setopts, [[{active, true}]]},
                         {getopts, [[active]]}, {getstat, []}, {getstat, [[recv_oct]]},
                         {peername, []}, {sockname, []}, {peercert, []}, {certificate_chain, []},
                         {connection_information, []}, {negotiated_protocol, []},
                         {shutdown, [write]}, {controlling_process, [self()]}]],
    no_messages().

closing_twice_is_fine(Config) ->
    {Client, _} = pair(Config),
    {Listener, _} = listen(Config),
    ?assertEqual(ok, etls:close(Client)),
    ?assertEqual(ok, etls:close(Client)),
    ?assertEqual(ok, etls:close(Listener)),
    ?assertEqual(ok, etls:close(Listener)),
    ?assertEqual({error, closed}, etls:accept(Listener, 100)),
    ?assertEqual({error, closed}, etls:sockname(Listener)).

a_second_handshake_is_refused(Config) ->
    {Client, Server} = pair(Config),
    ?assertMatch({error, _}, etls:handshake(Server, 1000)),
    ?assertMatch({error, _}, etls:handshake(Client)),
    ok = etls:send(Client, "still open"),
    ?assertEqual({ok, <<"still open">>}, etls:recv(Server, 10, ?BOUND)).

a_handshake_on_a_closed_socket_says_closed(Config) ->
    {Listener, Port} = listen(Config),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, []),
    {ok, Socket} = etls:accept(Listener, ?BOUND),
    ok = gen_tcp:close(Tcp),
    ?assertEqual({error, closed}, etls:handshake(Socket, ?BOUND)),
    ?assertEqual({error, closed}, etls:handshake(Socket, ?BOUND)).

closing_a_listener_ends_waiting_accepts(Config) ->
    {Listener, _} = listen(Config),
    Before = maps:get(accepts_waiting, etls_test_lib:stats()),
    Waiting = [in_process(fun() -> etls:accept(Listener) end) || _ <- [1, 2]],
    etls_test_lib:eventually(
      fun() -> ?assertEqual(Before + 2, maps:get(accepts_waiting, etls_test_lib:stats())) end),
    ok = etls:close(Listener),
    ?assertEqual([{error, closed}, {error, closed}], [result(W) || W <- Waiting]).

start_and_stop_may_be_repeated(_Config) ->
    ?assertEqual(ok, etls:start()),
    ?assertEqual(ok, etls:stop()),
    ?assertMatch({error, _}, etls:connect(?LOCAL, 1, [], 1000)),
    ?assertEqual(ok, etls:start()),
    ?assertEqual({error, econnrefused}, etls:connect(?LOCAL, 1, [], 1000)).

plaintext_on_a_tls_port_is_refused_with_an_alert(Config) ->
    {Listener, Port} = listen(Config),
    {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Tcp, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    {ok, Socket} = etls:accept(Listener, ?BOUND),
    ?assertMatch({error, {tls_alert, {_, _}}}, etls:handshake(Socket, ?BOUND)).

a_tls_port_survives_port_scanners(Config) ->
    {Listener, Port} = listen(Config),
    [begin
         {ok, Tcp} = gen_tcp:connect(?LOCAL, Port, [binary, {linger, {true, Linger}}]),
         ok = gen_tcp:send(Tcp, Bytes),
         ok = gen_tcp:close(Tcp),
         case etls:accept(Listener, ?BOUND) of
             {ok, Socket} -> ?assertMatch({error, _}, etls:handshake(Socket, ?BOUND));
             %% Gone, by RST, before it was taken: whether it is told at all is the kernel's choice.
             {error, econnaborted} -> ok
         end
     end || Linger <- [0, 1], Bytes <- [<<>>, <<22>>, <<22, 3, 1, 255, 255>>, <<0:800>>,
                                        <<22, 3, 1, 0, 4, 1, 0, 0, 0>>]],
    Accepting = accept_in_background(Listener, self()),
    {ok, Client} = etls:connect(?LOCAL, Port, [], ?BOUND),
    _ = accepted(Accepting),
    ok = etls:close(Client).

renewed_certificate_files_are_read_by_the_next_listen(Config) ->
    Cert = file(Config, "renewed.pem"),
    Key = file(Config, "renewed.key"),
    [begin
         {ok, _} = file:copy(file(Config, Name ++ ".pem"), Cert),
         {ok, _} = file:copy(file(Config, Name ++ ".key"), Key),
         {Client, _} = pair(Config, [{certfile, Cert}, {keyfile, Key}], []),
         ?assertEqual({ok, der(Config, Name ++ ".pem")}, etls:peercert(Client))
     end || Name <- ["ecdsa", "rsa", "self-signed"]].

nothing_is_left_behind(_Config) ->
    etls_test_lib:nothing_left_behind().

%% {client's error, server's error} of a handshake that must fail.
failed(Config, ServerOptions, ClientOptions) ->
    {Listener, Port} = listen(Config, ServerOptions),
    Server = in_process(fun() ->
                                {ok, Socket} = etls:accept(Listener, ?BOUND),
                                etls:handshake(Socket, ?BOUND)
                        end),
    Client = etls:connect(?LOCAL, Port, ClientOptions, ?BOUND),
    Result = {Client, result(Server)},
    ok = etls:close(Listener),
    Result.
