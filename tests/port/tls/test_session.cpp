#define BOOST_TEST_MODULE session
#include "tls/authority.hpp"
#include "tls/pair.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <random>
#include <utility>

using namespace etls;
using namespace etls::test;

namespace data = boost::unit_test::data;

namespace {

constexpr std::array versions{tls::protocol_version::tls_1_2, tls::protocol_version::tls_1_3};
constexpr std::array kinds{key_kind::rsa, key_kind::ecdsa, key_kind::ed25519};

const char* name_of(tls::protocol_version version)
{
    return version == tls::protocol_version::tls_1_2 ? "tlsv1.2" : "tlsv1.3";
}

/// One CA and what it vouches for, made once for all tests.
struct world {
    identity root = issue({.name = "root", .alternatives = {}, .authority = true});
    identity localhost =
        issue({.name = "server", .alternatives = "DNS:localhost,DNS:*.example.com,IP:127.0.0.1,IP:::1"}, &root);
    scratch_directory files;
    std::string server_file = files.write("server.pem", localhost);

    static world& get()
    {
        static world the;
        return the;
    }
};

tls::context_options serving(tls::protocol_version version)
{
    tls::context_options options;
    options.versions = {version};
    options.certfile = world::get().server_file;
    return options;
}

tls::context_options trusting(tls::protocol_version version)
{
    tls::context_options options;
    options.versions = {version};
    options.verify_peer = true;
    options.cacerts = {world::get().root.pem()};
    return options;
}

/// The contexts most tests need, made once per version.
std::pair<std::shared_ptr<const tls::context>, std::shared_ptr<const tls::context>>
contexts(tls::protocol_version version)
{
    static std::map<tls::protocol_version,
                    std::pair<std::shared_ptr<const tls::context>, std::shared_ptr<const tls::context>>>
        made;
    auto& both = made[version];
    if (!both.first)
        both = {make_context(tls::role::client, trusting(version)), make_context(tls::role::server, serving(version))};
    return both;
}

pair introduced(tls::protocol_version version)
{
    const auto [for_client, for_server] = contexts(version);
    return {for_client, for_server, {"localhost", "localhost"}, {}};
}

pair shaken(tls::protocol_version version)
{
    auto both = introduced(version);
    both.carry();
    BOOST_TEST_REQUIRE(both.client.now() == state::established);
    BOOST_TEST_REQUIRE(both.server.now() == state::established);
    return both;
}

} // namespace

// ---- handshake and data

BOOST_DATA_TEST_CASE(a_handshake_agrees_on_everything, data::make(versions) * data::make(kinds), version, kind)
{
    const auto root = issue({.name = "root", .alternatives = {}, .authority = true, .key = kind});
    const auto leaf = issue({.name = "leaf", .alternatives = "DNS:localhost", .key = kind}, &root);
    scratch_directory files;
    tls::context_options server;
    server.versions = {version};
    server.certfile = files.write("leaf.pem", leaf);
    tls::context_options client;
    client.versions = {version};
    client.verify_peer = true;
    client.cacerts = {root.der()};

    pair both{make_context(tls::role::client, client),
              make_context(tls::role::server, server),
              {"localhost", "localhost"},
              {}};
    BOOST_TEST(both.client.now() == state::handshaking); // it has said hello
    BOOST_TEST(!both.client.out.empty());
    BOOST_TEST(both.server.out.empty()); // a server waits
    both.carry();
    BOOST_TEST(both.client.now() == state::established);
    BOOST_TEST(both.server.now() == state::established);

    const auto of_client = both.client.session.info();
    const auto of_server = both.server.session.info();
    BOOST_TEST(of_client.version == name_of(version));
    BOOST_TEST(of_server.version == name_of(version));
    BOOST_TEST(of_client.cipher == of_server.cipher);
    BOOST_TEST(of_client.cipher_standard.starts_with("TLS_"));
    BOOST_TEST(!of_client.resumed);
    BOOST_TEST_REQUIRE(of_client.peer_chain.size() == 1u);
    BOOST_TEST((of_client.peer_chain[0] == leaf.der()));
    BOOST_TEST(of_server.peer_chain.empty());
    BOOST_TEST(of_client.server_name.value() == "localhost");
    BOOST_TEST(of_server.server_name.value() == "localhost");
    BOOST_TEST(!of_client.alpn.has_value());
}

BOOST_DATA_TEST_CASE(bytes_may_come_one_by_one, data::make(versions), version)
{
    auto both = introduced(version);
    both.client.close(); // too early: says nothing
    const auto trickle = [](actor& from, actor& to) {
        const auto sent = taken(from.out);
        for (const char one : sent)
            to.hear({&one, 1});
        return !sent.empty();
    };
    for (bool said = true; said;) {
        said = trickle(both.client, both.server);
        said = trickle(both.server, both.client) || said;
    }
    BOOST_TEST(both.client.now() == state::established);
    BOOST_TEST(both.server.now() == state::established);
    both.client.say("ping");
    trickle(both.client, both.server);
    BOOST_TEST(both.server.heard == "ping");
    both.server.say("pong");
    both.server.close();
    trickle(both.server, both.client);
    BOOST_TEST(both.client.heard == "pong");
    BOOST_TEST(both.client.now() == state::ended);
}

BOOST_DATA_TEST_CASE(data_of_every_size_comes_back,
                     data::make(versions) * data::make({0, 1, 16383, 16384, 16385, 1024 * 1024}), version, size)
{
    auto both = shaken(version);
    const auto text = some_text(static_cast<std::size_t>(size));
    both.client.say(text);
    both.carry();
    BOOST_TEST((both.server.heard == text));
    both.server.say(both.server.heard);
    both.carry();
    BOOST_TEST((both.client.heard == text));
}

BOOST_DATA_TEST_CASE(many_small_messages_come_in_order, data::make(versions), version)
{
    auto both = shaken(version);
    std::string all;
    for (std::size_t size = 0; size < 300; ++size) {
        const auto text = some_text(size);
        both.client.say(text);
        all += text;
    }
    both.carry();
    BOOST_TEST((both.server.heard == all));
}

BOOST_DATA_TEST_CASE(both_sides_talk_at_once, data::make(versions), version)
{
    auto both = shaken(version);
    const auto one = some_text(300'000);
    const auto other = some_text(200'001);
    std::size_t from_client = 0;
    std::size_t from_server = 0;
    while (from_client < one.size() || from_server < other.size()) {
        both.client.say(std::string_view{one}.substr(from_client, 10'007));
        both.server.say(std::string_view{other}.substr(from_server, 70'001));
        from_client = std::min(one.size(), from_client + 10'007);
        from_server = std::min(other.size(), from_server + 70'001);
        auto crossing = taken(both.server.out);
        both.server.hear(taken(both.client.out)); // the two cross on the wire
        both.client.hear(crossing);
    }
    BOOST_TEST((both.server.heard == one));
    BOOST_TEST((both.client.heard == other));
}

BOOST_DATA_TEST_CASE(the_end_of_a_handshake_and_data_may_share_one_call, data::make(versions), version)
{
    auto both = introduced(version);
    while (both.client.now() == state::handshaking) {
        if (!both.client.out.empty())
            both.server.hear(taken(both.client.out));
        both.client.hear(taken(both.server.out));
    }
    both.client.say("at once");
    both.client.close();
    both.server.hear(taken(both.client.out)); // 1.3: Finished, data and close_notify in one
    BOOST_TEST(both.server.heard == "at once");
    BOOST_TEST(both.server.now() == state::ended);
}

// ---- the end

BOOST_DATA_TEST_CASE(after_the_peers_end_one_may_still_send, data::make(versions), version)
{
    auto both = shaken(version);
    both.client.say("last words");
    both.client.close();
    both.carry();
    BOOST_TEST(both.server.heard == "last words");
    BOOST_TEST(both.server.now() == state::ended);

    both.server.say(some_text(40'000));
    both.carry();
    BOOST_TEST((both.client.heard == some_text(40'000)));
    BOOST_TEST(both.client.now() == state::established); // the server has not closed yet
    both.server.close();
    both.carry();
    BOOST_TEST(both.client.now() == state::ended);
}

BOOST_DATA_TEST_CASE(closing_is_said_once_and_nothing_after_it, data::make(versions), version)
{
    auto both = shaken(version);
    both.client.close();
    both.carry();
    both.client.close();
    both.client.say("too late");
    BOOST_TEST(both.client.out.empty());
    both.server.hear("what comes after the end is dropped");
    BOOST_TEST(both.server.now() == state::ended);
    BOOST_TEST(both.server.heard.empty());
}

BOOST_DATA_TEST_CASE(both_may_close_at_once, data::make(versions), version)
{
    auto both = shaken(version);
    both.client.close();
    both.server.close();
    both.carry();
    BOOST_TEST(both.client.now() == state::ended);
    BOOST_TEST(both.server.now() == state::ended);
}

BOOST_AUTO_TEST_CASE(close_notify_during_the_handshake_is_a_failure_by_that_name)
{
    auto both = introduced(tls::protocol_version::tls_1_2);
    BOOST_TEST(both.client.hear({"\x15\x03\x03\x00\x02\x01\x00", 7}) == state::failed);
    BOOST_TEST(both.client.alert() == "close_notify");
}

BOOST_DATA_TEST_CASE(data_before_an_alert_is_delivered_first, data::make(versions), version)
{
    auto both = shaken(version);
    both.client.say("this will be bent");
    auto bent = taken(both.client.out);
    bent.back() = static_cast<char>(bent.back() ^ 1);
    both.server.say("said before");
    both.server.hear(bent);
    BOOST_TEST(both.server.alert() == "bad_record_mac");
    BOOST_TEST(both.server.heard.empty());
    both.carry();
    BOOST_TEST(both.client.heard == "said before");
    BOOST_TEST(both.client.alert() == "bad_record_mac");
    BOOST_TEST(both.client.text() == "TLS client: received fatal alert bad_record_mac");
    both.client.say("into the void");
    both.client.close();
    BOOST_TEST(both.client.out.empty());
}

// ---- keys

BOOST_AUTO_TEST_CASE(keys_may_be_updated_at_any_time)
{
    auto both = shaken(tls::protocol_version::tls_1_3);
    for (const bool both_ways : {false, true}) {
        BOOST_TEST(both.client.session.update_keys(both_ways, both.client.out) == state::established);
        BOOST_TEST(!both.client.out.empty());
        both.client.say("under new keys");
        both.carry();
        both.server.say("here too");
        both.carry();
    }
    BOOST_TEST(both.server.heard == "under new keysunder new keys");
    BOOST_TEST(both.client.heard == "here toohere too");
}

BOOST_AUTO_TEST_CASE(tls_1_2_has_no_keys_to_update)
{
    auto both = shaken(tls::protocol_version::tls_1_2);
    BOOST_TEST(both.client.session.update_keys(true, both.client.out) == state::established);
    BOOST_TEST(both.client.out.empty());
}

BOOST_AUTO_TEST_CASE(what_is_sent_while_the_peer_is_halfway_through_a_message_is_held)
{
    // A ticket with the client's certificate in it, cut into several records.
    constexpr auto version = tls::protocol_version::tls_1_3;
    auto& all = world::get();
    auto server = serving(version);
    server.verify_peer = true;
    server.cacerts = {all.root.pem()};
    auto client = trusting(version);
    client.certfile = all.server_file;
    const auto for_server = make_context(tls::role::server, server);
    SSL_CTX_set_max_send_fragment(for_server->native(), 512);

    pair both{make_context(tls::role::client, client), for_server};
    both.server.hear(taken(both.client.out));
    both.client.hear(taken(both.server.out));
    both.server.hear(taken(both.client.out));
    BOOST_TEST_REQUIRE(both.client.now() == state::established);
    BOOST_TEST_REQUIRE(both.server.now() == state::established);
    const auto tickets = taken(both.server.out);
    BOOST_TEST_REQUIRE(tickets.size() > 600u);

    both.client.hear(std::string_view{tickets}.substr(0, tickets.size() - 1));
    both.client.say("held ");
    both.client.say("back");
    both.client.close();
    BOOST_TEST(both.client.session.held() == 9u);
    BOOST_TEST(both.client.out.empty());

    both.client.hear(std::string_view{tickets}.substr(tickets.size() - 1));
    BOOST_TEST(both.client.session.held() == 0u);
    both.carry();
    BOOST_TEST(both.server.heard == "held back");
    BOOST_TEST(both.server.now() == state::ended);
}

// ---- resumption

namespace {

/// A client of OpenSSL's own that remembers its session: ours do not resume.
struct returning_client {
    explicit returning_client(tls::protocol_version version)
    {
        const int only = version == tls::protocol_version::tls_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION;
        SSL_CTX_set_min_proto_version(context.get(), only);
        SSL_CTX_set_max_proto_version(context.get(), only);
        const auto& me = world::get().localhost;
        SSL_CTX_use_certificate(context.get(), me.certificate.get());
        SSL_CTX_use_PrivateKey(context.get(), me.key.get());
    }
    ~returning_client() { SSL_SESSION_free(remembered); }
    returning_client(const returning_client&) = delete;
    returning_client& operator=(const returning_client&) = delete;

    /// Whether the server resumed.
    bool visits(std::shared_ptr<const tls::context> at, const tls::session_options& options)
    {
        actor server{std::move(at), options};
        const tls::ssl_ptr ssl{SSL_new(context.get())};
        BIO* in = BIO_new(BIO_s_mem());
        BIO* out = BIO_new(BIO_s_mem());
        BIO_set_mem_eof_return(in, -1);
        SSL_set_bio(ssl.get(), in, out);
        SSL_set_connect_state(ssl.get());
        if (remembered != nullptr)
            SSL_set_session(ssl.get(), remembered);
        for (int flight = 0; flight < 4; ++flight) {
            char nothing = 0;
            SSL_read(ssl.get(), &nothing, 1); // shakes hands, then takes tickets
            char* said = nullptr;
            const long size = BIO_get_mem_data(out, &said);
            server.hear({said, static_cast<std::size_t>(size)});
            static_cast<void>(BIO_reset(out));
            const auto answer = taken(server.out);
            BIO_write(in, answer.data(), static_cast<int>(answer.size()));
        }
        BOOST_TEST_REQUIRE(server.now() == state::established, server.text());
        SSL_SESSION_free(remembered);
        remembered = SSL_get1_session(ssl.get());
        SSL_shutdown(ssl.get());
        const auto info = server.session.info();
        BOOST_TEST(info.peer_chain.size() == 1u); // known of a resumed client too
        return info.resumed;
    }

    tls::ssl_ctx_ptr context{SSL_CTX_new(TLS_client_method())};
    SSL_SESSION* remembered = nullptr;
};

} // namespace

BOOST_DATA_TEST_CASE(a_client_returns_but_not_under_another_expected_name, data::make(versions), version)
{
    auto options = serving(version);
    options.verify_peer = options.fail_if_no_peer_cert = true;
    options.cacerts = {world::get().root.pem()};
    const auto context = make_context(tls::role::server, options);
    returning_client client{version};
    BOOST_TEST(!client.visits(context, {{}, "localhost"}));
    BOOST_TEST(client.visits(context, {{}, "localhost"}));
    BOOST_TEST(!client.visits(context, {{}, "127.0.0.1"})); // its certificate has to be looked at again
    BOOST_TEST(!client.visits(make_context(tls::role::server, options), {{}, "127.0.0.1"})); // nor in another context
}

// ---- cut and bent wires

namespace {

/// Two actors shake hands, say their line and close, over wires that decide what of each portion gets through.
struct play {
    using wire = std::function<std::string(std::string)>;

    play(tls::protocol_version version, const wire& to_server, const wire& to_client) : both{introduced(version)}
    {
        const auto carry = [&] {
            while (!both.client.out.empty() || !both.server.out.empty()) {
                if (!both.client.out.empty())
                    both.server.hear(to_server(taken(both.client.out)));
                if (!both.server.out.empty())
                    both.client.hear(to_client(taken(both.server.out)));
            }
        };
        carry();
        both.client.say(line);
        both.server.say(line);
        carry();
        both.client.close();
        both.server.close();
        carry();
    }

    static inline const std::string line = some_text(100);
    pair both;
};

std::string whole(std::string portion)
{
    return portion;
}

/// Lets `budget` bytes through; `cut` tells whether that was not all.
play::wire cut_after(std::size_t& budget, bool& cut)
{
    return [&](std::string portion) {
        cut = cut || portion.size() > budget;
        portion.resize(std::min(portion.size(), budget));
        budget -= portion.size();
        return portion;
    };
}

/// Flips one bit of the byte at `at`; `bent` tells whether the stream was long enough.
play::wire bend_at(std::size_t at, std::size_t& passed, bool& bent)
{
    return [&, at](std::string portion) {
        if (at >= passed && at - passed < portion.size()) {
            auto& victim = portion[at - passed];
            victim = static_cast<char>(victim ^ (1 << (at % 8)));
            bent = true;
        }
        passed += portion.size();
        return portion;
    };
}

bool starts(const std::string& heard)
{
    return play::line.starts_with(heard);
}

} // namespace

BOOST_DATA_TEST_CASE(a_stream_cut_anywhere_is_never_taken_for_ended, data::make(versions) * data::make({false, true}),
                     version, towards_client)
{
    bool cut = true;
    std::size_t offsets = 0;
    for (std::size_t at = 0; cut; ++at, ++offsets) {
        cut = false;
        std::size_t budget = at;
        const auto wire = cut_after(budget, cut);
        play scene{version, towards_client ? whole : wire, towards_client ? wire : whole};
        const auto& hearer = towards_client ? scene.both.client : scene.both.server;
        // One remark per offset would drown the log: only what is wrong is told.
        if (hearer.now() == state::failed)
            BOOST_ERROR("failed when cut at " << at << ": " << hearer.text());
        if (!starts(hearer.heard))
            BOOST_ERROR("wrong plaintext when cut at " << at);
        if (cut == (hearer.now() == state::ended))
            BOOST_ERROR("cut at " << at << " and " << hearer.now());
        if (!cut && hearer.heard != play::line)
            BOOST_ERROR("data missing at the orderly end");
    }
    BOOST_TEST(offsets > 300u);
}

BOOST_DATA_TEST_CASE(a_bent_bit_is_noticed_or_harmless, data::make(versions) * data::make({false, true}), version,
                     towards_client)
{
    bool bent = true;
    std::size_t failures = 0;
    for (std::size_t at = 0; bent; ++at) {
        bent = false;
        std::size_t passed = 0;
        const auto wire = bend_at(at, passed, bent);
        play scene{version, towards_client ? whole : wire, towards_client ? wire : whole};
        for (const auto* who : {&scene.both.client, &scene.both.server}) {
            if (!starts(who->heard))
                BOOST_ERROR("wrong plaintext when bent at " << at);
            if (who->now() == state::ended && who->heard != play::line)
                BOOST_ERROR("data lost when bent at " << at);
            if (who->now() == state::failed) {
                ++failures;
                if (who->text().empty() || who->alert() == "unsupported/unknown_alert")
                    BOOST_ERROR("failed without a reason when bent at " << at << ": " << who->text());
            }
        }
    }
    BOOST_TEST(failures > 300u);
}

BOOST_AUTO_TEST_CASE(an_http_request_is_an_unexpected_message)
{
    auto both = introduced(tls::protocol_version::tls_1_3);
    BOOST_TEST(both.server.hear("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == state::failed);
    BOOST_TEST(both.server.alert() == "unexpected_message");
    BOOST_TEST(both.server.text() == "TLS server: failed with unexpected_message: http request");
    BOOST_TEST(both.server.hear("more") == state::failed);
}

BOOST_AUTO_TEST_CASE(a_peer_of_another_protocol_is_a_failure_for_a_client)
{
    auto both = introduced(tls::protocol_version::tls_1_3);
    BOOST_TEST(both.client.hear("220 mail.example.com ESMTP\r\n") == state::failed);
    BOOST_TEST(both.client.alert() == "protocol_version");
}

BOOST_AUTO_TEST_CASE(garbage_never_gets_further_than_the_handshake)
{
    std::mt19937 random{20240229};
    for (int round = 0; round < 2000; ++round) {
        auto both = introduced(versions[round % 2]);
        auto& hearer = round % 4 < 2 ? both.client : both.server;
        std::string garbage(random() % 600 + 1, '\0');
        for (auto& one : garbage)
            one = static_cast<char>(random());
        if (round % 3 != 0) // looks like a handshake record at least
            garbage.replace(0, std::min<std::size_t>(garbage.size(), 3),
                            std::string_view{"\x16\x03\x03"}.substr(0, garbage.size()));
        hearer.hear(garbage);
        hearer.hear(garbage);
        BOOST_TEST_REQUIRE((hearer.now() == state::failed || hearer.now() == state::handshaking));
        BOOST_TEST_REQUIRE(hearer.heard.empty());
    }
}

// ---- names of protocols and servers

namespace {

pair with_protocols(tls::protocol_version version, std::vector<std::string> offered, std::vector<std::string> preferred)
{
    auto client = trusting(version);
    client.alpn = std::move(offered);
    auto server = serving(version);
    server.alpn = std::move(preferred);
    pair both{make_context(tls::role::client, client), make_context(tls::role::server, server)};
    both.carry();
    return both;
}

} // namespace

BOOST_DATA_TEST_CASE(the_server_takes_the_best_protocol_it_is_offered, data::make(versions), version)
{
    const auto both = with_protocols(version, {"http/1.1", "h2"}, {"h3", "h2", "http/1.1"});
    BOOST_TEST(both.client.session.info().alpn.value() == "h2");
    BOOST_TEST(both.server.session.info().alpn.value() == "h2");
}

BOOST_DATA_TEST_CASE(no_protocol_in_common_is_fatal, data::make(versions), version)
{
    const auto both = with_protocols(version, {"spdy"}, {"h2"});
    BOOST_TEST(both.client.alert() == "no_application_protocol");
    BOOST_TEST(both.server.alert() == "no_application_protocol");
    BOOST_TEST(both.client.text() == "TLS client: received fatal alert no_application_protocol");
    BOOST_TEST(both.server.text() == "TLS server: sent fatal alert no_application_protocol: no application protocol");
}

BOOST_DATA_TEST_CASE(one_side_alone_does_not_negotiate_protocols, data::make(versions), version)
{
    BOOST_TEST(!with_protocols(version, {"h2"}, {}).client.session.info().alpn.has_value());
    BOOST_TEST(!with_protocols(version, {}, {"h2"}).server.session.info().alpn.has_value());
}

BOOST_DATA_TEST_CASE(without_a_server_name_none_is_told, data::make(versions), version)
{
    const auto [for_client, for_server] = contexts(version);
    pair both{for_client, for_server};
    both.carry();
    BOOST_TEST(both.client.now() == state::established);
    BOOST_TEST(!both.client.session.info().server_name.has_value());
    BOOST_TEST(!both.server.session.info().server_name.has_value());
}

BOOST_AUTO_TEST_CASE(a_name_that_is_none_fails_before_a_byte_is_sent)
{
    const auto [for_client, for_server] = contexts(tls::protocol_version::tls_1_3);
    for (const auto& name : {std::string{}, std::string{"."}, std::string{"a\0b", 3}}) {
        for (const auto& options : {tls::session_options{name, {}}, tls::session_options{{}, name}}) {
            pair both{for_client, for_server, options, {}};
            BOOST_TEST(both.client.alert() == "internal_error");
            BOOST_TEST(both.client.out.empty());
        }
    }
}

// ---- versions and ciphers

BOOST_AUTO_TEST_CASE(no_version_in_common_is_told_to_both)
{
    pair both{contexts(tls::protocol_version::tls_1_2).first, contexts(tls::protocol_version::tls_1_3).second};
    both.carry();
    BOOST_TEST(both.client.alert() == "protocol_version");
    BOOST_TEST(both.server.alert() == "protocol_version");
}

BOOST_AUTO_TEST_CASE(a_list_of_names_allows_these_suites_and_no_others)
{
    const auto negotiated = [](const char* ciphers) {
        auto client = trusting(tls::protocol_version::tls_1_3);
        client.versions = {versions.begin(), versions.end()};
        client.ciphers = ciphers;
        auto server = serving(tls::protocol_version::tls_1_3);
        server.versions = client.versions;
        pair both{make_context(tls::role::client, client), make_context(tls::role::server, server)};
        both.carry();
        const auto info = both.client.session.info();
        return info.version + " " + info.cipher;
    };
    BOOST_TEST(negotiated("ECDHE-ECDSA-AES128-GCM-SHA256") == "tlsv1.2 ECDHE-ECDSA-AES128-GCM-SHA256");
    BOOST_TEST(negotiated("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384") == "tlsv1.2 ECDHE-ECDSA-AES256-GCM-SHA384");
    BOOST_TEST(negotiated("TLS_AES_128_GCM_SHA256, ECDHE-ECDSA-AES128-GCM-SHA256") == "tlsv1.3 TLS_AES_128_GCM_SHA256");
    BOOST_TEST(negotiated("TLS_CHACHA20_POLY1305_SHA256") == "tlsv1.3 TLS_CHACHA20_POLY1305_SHA256");
    BOOST_TEST(negotiated("HIGH:!aNULL") == "tlsv1.3 TLS_AES_256_GCM_SHA384");
}

BOOST_AUTO_TEST_CASE(no_suite_in_common_is_a_handshake_failure)
{
    auto client = trusting(tls::protocol_version::tls_1_2);
    client.ciphers = "ECDHE-RSA-AES128-GCM-SHA256"; // the server's key is another
    pair both{make_context(tls::role::client, client), contexts(tls::protocol_version::tls_1_2).second};
    both.carry();
    BOOST_TEST(both.client.alert() == "handshake_failure");
    BOOST_TEST(both.server.alert() == "handshake_failure");
}
