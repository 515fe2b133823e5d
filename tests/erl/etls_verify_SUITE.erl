%% Who is believed: every scenario of verification, accepted or refused, with the alert that both
%% sides tell. The side that refuses says why; the other one reports what it received.
-module(etls_verify_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_group/2,
         end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([a_trusted_server_is_accepted/1, trust_may_be_pem_der_or_a_file/1,
         a_self_signed_server_is_refused/1, a_self_signed_server_that_is_trusted_is_accepted/1,
         an_expired_server_is_refused/1, a_server_not_yet_valid_is_refused/1,
         an_untrusted_ca_is_refused/1, a_missing_intermediate_is_refused/1,
         an_intermediate_that_is_sent_is_accepted/1, an_intermediate_that_is_known_is_accepted/1,
         a_wrong_host_name_is_refused/1, a_wrong_ip_is_refused/1,
         a_right_host_name_is_accepted/1, a_wildcard_covers_one_label/1,
         a_right_ip_is_accepted/1, verify_type_checks_a_name_only_where_given/1,
         verify_checks_the_host_connected_to/1, disabled_server_name_checks_no_name/1,
         a_revoked_server_is_refused/1, a_server_not_revoked_is_accepted/1,
         without_verification_anything_is_accepted/1,
         the_systems_trust_store_does_not_know_us/1,
         a_required_client_certificate_that_is_absent_is_refused/1,
         an_optional_client_certificate_may_be_absent/1,
         an_untrusted_client_is_refused/1, an_expired_client_is_refused/1,
         a_revoked_client_is_refused/1, a_good_client_is_accepted/1,
         a_server_without_verification_asks_for_no_certificate/1,
         a_key_that_does_not_match_is_refused_at_once/1,
         otps_client_sees_the_alert_we_send/1, otps_server_sees_the_alert_we_send/1,
         we_see_the_alert_otp_sends/1]).
-export([nothing_is_left_behind/1]).

-import(etls_test_lib, [listen/2, ssl_listen/2, file/2, read/2, der/2, credentials/2, versions/1,
                        in_process/1, result/1]).

-define(LOCAL, {127, 0, 0, 1}).
-define(BOUND, 5000).

suite() -> [{timetrap, {seconds, 30}}].

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

%%% The server's certificate

a_trusted_server_is_accepted(Config) ->
    [accepted(Config, credentials(Config, Name), [{verify_type, verify_peer}, trust(Config)])
     || Name <- ["ecdsa", "rsa"]].

trust_may_be_pem_der_or_a_file(Config) ->
    [accepted(Config, credentials(Config, "ecdsa"), [{verify_type, verify_peer}, Trust])
     || Trust <- [{cacerts, [read(Config, "ca.pem")]}, {cacerts, [der(Config, "ca.pem")]},
                  {cacerts, [der(Config, "other-ca.pem"), read(Config, "ca.pem")]},
                  {cacertfile, file(Config, "ca.pem")}]].

a_self_signed_server_is_refused(Config) ->
    refused(unknown_ca, Config, credentials(Config, "self-signed"),
            [{verify_type, verify_peer}, trust(Config)]).

a_self_signed_server_that_is_trusted_is_accepted(Config) ->
    accepted(Config, credentials(Config, "self-signed"),
             [{verify, verify_peer}, {cacerts, [der(Config, "self-signed.pem")]}]).

an_expired_server_is_refused(Config) ->
    refused(certificate_expired, Config, credentials(Config, "expired"),
            [{verify_type, verify_peer}, trust(Config)]).

%% RFC 5246, 7.2.2, has this alert for what "is not currently valid".
a_server_not_yet_valid_is_refused(Config) ->
    refused(certificate_expired, Config, credentials(Config, "not-yet-valid"),
            [{verify_type, verify_peer}, trust(Config)]).

an_untrusted_ca_is_refused(Config) ->
    refused(unknown_ca, Config, credentials(Config, "untrusted"),
            [{verify_type, verify_peer}, trust(Config)]).

a_missing_intermediate_is_refused(Config) ->
    refused(unknown_ca, Config, credentials(Config, "intermediate-leaf"),
            [{verify_type, verify_peer}, trust(Config)]).

an_intermediate_that_is_sent_is_accepted(Config) ->
    InFile = [{certfile, file(Config, "intermediate-chain.pem")},
              {keyfile, file(Config, "intermediate-leaf.key")}],
    InOption = [{chain, [read(Config, "intermediate.pem")]} |
                credentials(Config, "intermediate-leaf")],
    [accepted(Config, Server, [{verify_type, verify_peer}, trust(Config)])
     || Server <- [InFile, InOption]].

an_intermediate_that_is_known_is_accepted(Config) ->
    accepted(Config, credentials(Config, "intermediate-leaf"),
             [{verify_type, verify_peer},
              {cacerts, [der(Config, "ca.pem"), der(Config, "intermediate.pem")]}]),
    %% An intermediate that is trusted itself needs no root above it, as in OTP's ssl.
    accepted(Config, credentials(Config, "intermediate-leaf"),
             [{verify_type, verify_peer}, {cacerts, [der(Config, "intermediate.pem")]}]).

%%% Names

a_wrong_host_name_is_refused(Config) ->
    [refused(bad_certificate, Config, "localhost", credentials(Config, "wrong-host"),
             [trust(Config) | Options])
     || Options <- [[{verify, verify_peer}],
                    [{verify_type, verify_peer}, {rfc2818_verification_hostname, "localhost"}]]].

a_wrong_ip_is_refused(Config) ->
    [refused(bad_certificate, Config, Host, credentials(Config, "wrong-ip"),
             [trust(Config) | Options])
     || {Host, Options} <-
            [{?LOCAL, [{verify, verify_peer}]}, {"127.0.0.1", [{verify, verify_peer}]},
             {"localhost", [{verify_type, verify_peer},
                            {rfc2818_verification_hostname, "127.0.0.1"}]}]].

a_right_host_name_is_accepted(Config) ->
    [accepted(Config, "localhost", credentials(Config, Server), [trust(Config) | Options])
     || {Server, Options} <-
            [{"wrong-ip", [{verify, verify_peer}]},
             {"wrong-host", [{verify_type, verify_peer},
                             {rfc2818_verification_hostname, "elsewhere.example"}]},
             {"named", [{verify_type, verify_peer},
                        {rfc2818_verification_hostname, <<"www.etls.example">>}]},
             {"named", [{verify, verify_peer}, {server_name_indication, "WWW.etls.example"}]}]].

a_wildcard_covers_one_label(Config) ->
    Options = [{verify_type, verify_peer}, trust(Config)],
    accepted(Config, credentials(Config, "named"),
             [{rfc2818_verification_hostname, "any.wild.etls.example"} | Options]),
    [refused(bad_certificate, Config, credentials(Config, "named"),
             [{rfc2818_verification_hostname, Name} | Options])
     || Name <- ["two.labels.wild.etls.example", "wild.etls.example"]].

a_right_ip_is_accepted(Config) ->
    [accepted(Config, Host, credentials(Config, "wrong-host"), [trust(Config) | Options])
     || {Host, Options} <-
            [{?LOCAL, [{verify, verify_peer}]}, {"127.0.0.1", [{verify, verify_peer}]},
             {"localhost", [{verify_type, verify_peer},
                            {rfc2818_verification_hostname, "127.0.0.1"}]}]].

verify_type_checks_a_name_only_where_given(Config) ->
    accepted(Config, "localhost", credentials(Config, "wrong-host"),
             [{verify_type, verify_peer}, trust(Config)]).

verify_checks_the_host_connected_to(Config) ->
    refused(bad_certificate, Config, "localhost", credentials(Config, "wrong-host"),
            [{verify, verify_peer}, trust(Config)]).

disabled_server_name_checks_no_name(Config) ->
    accepted(Config, "localhost", credentials(Config, "wrong-host"),
             [{verify, verify_peer}, {server_name_indication, disable}, trust(Config)]).

%%% Revocation

a_revoked_server_is_refused(Config) ->
    [refused(certificate_revoked, Config, credentials(Config, "revoked"),
             [{verify_type, verify_peer}, trust(Config), {crls, [Crl]}])
     || Crl <- [read(Config, "ca.crl"), crl_der(Config)]],
    %% Without the list nobody knows.
    accepted(Config, credentials(Config, "revoked"), [{verify_type, verify_peer}, trust(Config)]).

a_server_not_revoked_is_accepted(Config) ->
    accepted(Config, credentials(Config, "ecdsa"),
             [{verify_type, verify_peer}, trust(Config), {crls, [read(Config, "ca.crl")]}]).

crl_der(Config) ->
    [{'CertificateList', Der, not_encrypted}] = public_key:pem_decode(read(Config, "ca.crl")),
    Der.

%%% None

without_verification_anything_is_accepted(Config) ->
    [accepted(Config, "localhost", credentials(Config, Name), Options)
     || Name <- ["self-signed", "expired", "not-yet-valid", "untrusted", "wrong-host"],
        Options <- [[], [{verify_type, verify_none}], [{verify, verify_none}, trust(Config)]]].

the_systems_trust_store_does_not_know_us(Config) ->
    refused(unknown_ca, Config, credentials(Config, "ecdsa"), [{verify, verify_peer}]).

%%% The client's certificate

a_required_client_certificate_that_is_absent_is_refused(Config) ->
    Alert = case ?config(version, Config) of
                'tlsv1.3' -> certificate_required;
                'tlsv1.2' -> handshake_failure
            end,
    client_refused(Alert, Config, [{fail_if_no_peer_cert, true}], []).

an_optional_client_certificate_may_be_absent(Config) ->
    accepted(Config, mutual(Config, [{fail_if_no_peer_cert, false}]), []),
    %% Which is the default.
    accepted(Config, mutual(Config, []), []).

an_untrusted_client_is_refused(Config) ->
    client_refused(unknown_ca, Config, [], credentials(Config, "client-untrusted")).

an_expired_client_is_refused(Config) ->
    client_refused(certificate_expired, Config, [], credentials(Config, "client-expired")).

a_revoked_client_is_refused(Config) ->
    client_refused(certificate_revoked, Config, [{crls, [read(Config, "ca.crl")]}],
                   credentials(Config, "client-revoked")).

a_good_client_is_accepted(Config) ->
    [accepted(Config, mutual(Config, Options), credentials(Config, "client"))
     || Options <- [[], [{fail_if_no_peer_cert, true}], [{verify_client_once, true}],
                    [{crls, [read(Config, "ca.crl")]}]]].

a_server_without_verification_asks_for_no_certificate(Config) ->
    accepted(Config, credentials(Config, "ecdsa"), credentials(Config, "client-untrusted")).

a_key_that_does_not_match_is_refused_at_once(Config) ->
    Key = file(Config, "rsa.key"),
    Options = [{certfile, file(Config, "ecdsa.pem")}, {keyfile, Key}],
    ?assertEqual({error, {options, {keyfile, {key_mismatch, Key}}}}, etls:listen(0, Options)),
    ?assertEqual({error, {options, {keyfile, {key_mismatch, Key}}}},
                 etls:connect(?LOCAL, 1, Options, ?BOUND)).

%%% The alert as another implementation sees it

otps_client_sees_the_alert_we_send(Config) ->
    {Listener, Port} = listen(Config, mutual(Config, [{fail_if_no_peer_cert, true}])),
    Server = in_process(fun() -> server(Listener) end),
    %% Active, because a passive OTP socket forgets an alert that comes before recv is called.
    Options = [binary, {active, true}, {verify, verify_none} | versions(Config)
               ++ credentials(Config, "client-untrusted")],
    Client = case ssl:connect(?LOCAL, Port, Options, ?BOUND) of
                 {ok, Socket} ->
                     receive {ssl_error, Socket, Reason} -> {error, Reason}
                     after ?BOUND -> timeout
                     end;
                 Error -> Error
             end,
    ?assertMatch({error, {tls_alert, {unknown_ca, _}}}, Client),
    ?assertMatch({error, {tls_alert, {unknown_ca, _}}}, result(Server)),
    ok = etls:close(Listener).

otps_server_sees_the_alert_we_send(Config) ->
    {Listener, Port} = ssl_listen(Config, credentials(Config, "expired")),
    Server = in_process(fun() -> ssl_server(Listener) end),
    ?assertMatch({error, {tls_alert, {certificate_expired, _}}},
                 etls:connect(?LOCAL, Port, [{verify_type, verify_peer}, trust(Config)
                                             | versions(Config)], ?BOUND)),
    Heard = case ?config(version, Config) of
                'tlsv1.2' -> certificate_expired;
                %% OpenSSL 3.0 clients send this alert in the clear, s_client too, and OTP 25 takes
                %% nothing in the clear by then.
                'tlsv1.3' -> bad_record_mac
            end,
    {error, {tls_alert, {Alert, _}}} = result(Server),
    ?assert(lists:member(Alert, [certificate_expired, Heard])),
    ok = ssl:close(Listener).

we_see_the_alert_otp_sends(Config) ->
    {Listener, Port} = listen(Config, credentials(Config, "expired")),
    Server = in_process(fun() -> server(Listener) end),
    {error, {tls_alert, {certificate_expired, _}}} =
        ssl:connect(?LOCAL, Port, [{verify, verify_peer}, {cacertfile, file(Config, "ca.pem")},
                                   {server_name_indication, disable} | versions(Config)], ?BOUND),
    ?assertMatch({error, {tls_alert, {certificate_expired, _}}}, result(Server)),
    ok = etls:close(Listener),
    {Mutual, MutualPort} = ssl_listen(Config, [{verify, verify_peer}, {fail_if_no_peer_cert, true},
                                               {cacertfile, file(Config, "ca.pem")}]),
    Peer = in_process(fun() -> ssl_server(Mutual) end),
    {error, {tls_alert, {Alert, Text}}} =
        outcome(etls:connect(?LOCAL, MutualPort, versions(Config), ?BOUND)),
    ?assert(lists:member(Alert, [certificate_required, handshake_failure])),
    ?assertNotEqual("", Text),
    _ = result(Peer),
    ok = ssl:close(Mutual).

nothing_is_left_behind(_Config) ->
    etls_test_lib:nothing_left_behind().

trust(Config) ->
    {cacerts, [read(Config, "ca.pem")]}.

mutual(Config, Options) ->
    [{verify_type, verify_peer}, trust(Config) | Options] ++ credentials(Config, "ecdsa").

accepted(Config, ServerOptions, ClientOptions) ->
    accepted(Config, ?LOCAL, ServerOptions, ClientOptions).

accepted(Config, Host, ServerOptions, ClientOptions) ->
    ?assertEqual({{ok, <<"hello">>}, ok}, try_it(Config, Host, ServerOptions, ClientOptions)).

refused(Alert, Config, ServerOptions, ClientOptions) ->
    refused(Alert, Config, ?LOCAL, ServerOptions, ClientOptions).

%% The client refuses the server.
refused(Alert, Config, Host, ServerOptions, ClientOptions) ->
    {{error, {tls_alert, {Client, Why}}}, {error, {tls_alert, {Server, What}}}} =
        try_it(Config, Host, ServerOptions, ClientOptions),
    ?assertEqual({Alert, Alert}, {Client, Server}),
    assert_texts(Why, What).

%% The server refuses the client. In TLS 1.3 the client's handshake is over when it hears.
client_refused(Alert, Config, ServerOptions, ClientOptions) ->
    {{error, {tls_alert, {Client, What}}}, {error, {tls_alert, {Server, Why}}}} =
        try_it(Config, ?LOCAL, mutual(Config, ServerOptions), ClientOptions),
    ?assertEqual({Alert, Alert}, {Client, Server}),
    assert_texts(Why, What).

%% Strings that say who is speaking: the one that refused, or the one that heard of it.
assert_texts(Why, What) ->
    ?assert(io_lib:printable_unicode_list(Why)),
    ?assert(io_lib:printable_unicode_list(What)),
    ?assertNotEqual(nomatch, string:find(What, "received")),
    ?assertEqual(nomatch, string:find(Why, "received")).

%% {what the client has in the end, what the server's handshake said}
try_it(Config, Host, ServerOptions, ClientOptions) ->
    {Listener, Port} = listen(Config, ServerOptions),
    Server = in_process(fun() -> server(Listener) end),
    Client = outcome(etls:connect(Host, Port, ClientOptions ++ versions(Config), ?BOUND)),
    Result = {Client, result(Server)},
    ok = etls:close(Listener),
    Result.

outcome({ok, Socket}) ->
    Result = etls:recv(Socket, 0, ?BOUND),
    ok = etls:close(Socket),
    Result;
outcome(Error) ->
    Error.

server(Listener) ->
    {ok, Socket} = etls:accept(Listener, ?BOUND),
    case etls:handshake(Socket, ?BOUND) of
        ok -> etls:send(Socket, <<"hello">>), etls:close(Socket);
        Error -> Error
    end.

ssl_server(Listener) ->
    {ok, Hello} = ssl:transport_accept(Listener, ?BOUND),
    case ssl:handshake(Hello, ?BOUND) of
        {ok, Socket} -> ssl:recv(Socket, 0, ?BOUND);
        Error -> Error
    end.
