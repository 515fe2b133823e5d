#define BOOST_TEST_MODULE verification
#include "tls/authority.hpp"
#include "tls/pair.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <array>

using namespace etls;
using namespace etls::test;

namespace data = boost::unit_test::data;

/// Who is accepted and who is refused, with which alert, and what each side gets to know of it.
namespace {

constexpr std::array versions{tls::protocol_version::tls_1_2, tls::protocol_version::tls_1_3};

struct world {
    identity root = issue({.name = "root", .alternatives = {}, .authority = true});
    identity stranger = issue({.name = "stranger", .alternatives = {}, .authority = true});
    identity middle = issue({.name = "middle", .alternatives = {}, .authority = true}, &root);
    identity good = issue({.name = "good", .alternatives = names}, &root);
    identity below = issue({.name = "below", .alternatives = names}, &middle);
    identity strange = issue({.name = "strange", .alternatives = names}, &stranger);
    identity own = issue({.name = "own", .alternatives = names});
    identity expired = issue({.name = "old", .alternatives = names, .from_day = -10, .until_day = -1}, &root);
    identity future = issue({.name = "new", .alternatives = names, .from_day = 1}, &root);
    scratch_directory files;

    static world& get()
    {
        static world the;
        return the;
    }

    static constexpr const char* names = "DNS:localhost,DNS:*.example.com,IP:127.0.0.1,IP:::1";
};

/// A meeting: what the server shows and whom the client trusts, and the same the other way.
struct meeting {
    explicit meeting(tls::protocol_version version)
    {
        client.versions = server.versions = {version};
        client.verify_peer = true;
        client.cacerts = {world::get().root.pem()};
        shows(world::get().good);
    }

    meeting& shows(const identity& who, const std::string& further = {})
    {
        server.certfile = world::get().files.write("server.pem", who, further);
        return *this;
    }
    meeting& client_shows(const identity& who)
    {
        client.certfile = world::get().files.write("client.pem", who);
        return *this;
    }
    meeting& expecting(std::string name)
    {
        of_client.hostname = std::move(name);
        return *this;
    }
    meeting& server_verifies(bool required)
    {
        server.verify_peer = true;
        server.fail_if_no_peer_cert = required;
        server.cacerts = {world::get().root.pem()};
        return *this;
    }

    pair happens()
    {
        pair both{make_context(tls::role::client, client), make_context(tls::role::server, server), of_client,
                  of_server};
        both.carry();
        return both;
    }

    void succeeds()
    {
        const auto both = happens();
        BOOST_TEST(both.client.now() == state::established, both.client.text());
        BOOST_TEST(both.server.now() == state::established, both.server.text());
    }

    void client_refuses(const std::string& alert, const std::string& reason)
    {
        const auto both = happens();
        BOOST_TEST(both.client.alert() == alert);
        BOOST_TEST(both.client.text() == "TLS client: sent fatal alert " + alert + ": " + reason);
        BOOST_TEST(both.server.alert() == alert);
        BOOST_TEST(both.server.text() == "TLS server: received fatal alert " + alert);
    }

    void server_refuses(const std::string& alert, const std::string& reason)
    {
        const auto both = happens();
        BOOST_TEST(both.server.alert() == alert);
        BOOST_TEST(both.server.text() == "TLS server: sent fatal alert " + alert + ": " + reason);
        BOOST_TEST(both.client.alert() == alert);
        BOOST_TEST(both.client.text() == "TLS client: received fatal alert " + alert);
    }

    tls::context_options client;
    tls::context_options server;
    tls::session_options of_client;
    tls::session_options of_server;
};

} // namespace

// ---- chains

BOOST_DATA_TEST_CASE(a_certificate_of_a_trusted_authority, data::make(versions), version)
{
    meeting{version}.succeeds();
}

BOOST_DATA_TEST_CASE(a_self_signed_certificate, data::make(versions), version)
{
    meeting{version}.shows(world::get().own).client_refuses("unknown_ca", "self-signed certificate");
}

BOOST_DATA_TEST_CASE(a_self_signed_certificate_that_is_trusted, data::make(versions), version)
{
    meeting one{version};
    one.client.cacerts = {world::get().own.der()};
    one.shows(world::get().own).succeeds();
}

BOOST_DATA_TEST_CASE(a_self_signed_authority_in_the_chain, data::make(versions), version)
{
    meeting{version}
        .shows(world::get().strange, world::get().stranger.pem())
        .client_refuses("unknown_ca", "self-signed certificate in certificate chain");
}

BOOST_DATA_TEST_CASE(an_untrusted_authority, data::make(versions), version)
{
    meeting{version}.shows(world::get().strange).client_refuses("unknown_ca", "unable to get local issuer certificate");
}

BOOST_DATA_TEST_CASE(an_expired_certificate, data::make(versions), version)
{
    meeting{version}.shows(world::get().expired).client_refuses("certificate_expired", "certificate has expired");
}

BOOST_DATA_TEST_CASE(a_certificate_not_yet_valid, data::make(versions), version)
{
    meeting{version}.shows(world::get().future).client_refuses("certificate_expired", "certificate is not yet valid");
}

BOOST_DATA_TEST_CASE(a_missing_intermediate, data::make(versions), version)
{
    meeting{version}.shows(world::get().below).client_refuses("unknown_ca", "unable to get local issuer certificate");
}

BOOST_DATA_TEST_CASE(an_intermediate_from_the_certificate_file, data::make(versions), version)
{
    auto both = meeting{version}.shows(world::get().below, world::get().middle.pem()).happens();
    BOOST_TEST(both.client.now() == state::established);
    const auto chain = both.client.session.info().peer_chain;
    BOOST_TEST_REQUIRE(chain.size() == 2u);
    BOOST_TEST((chain[0] == world::get().below.der()));
    BOOST_TEST((chain[1] == world::get().middle.der()));
}

BOOST_DATA_TEST_CASE(an_intermediate_from_the_chain_option, data::make(versions), version)
{
    meeting one{version};
    one.server.chain = {world::get().middle.der()};
    one.shows(world::get().below).succeeds();
}

BOOST_DATA_TEST_CASE(an_intermediate_from_the_servers_own_authorities, data::make(versions), version)
{
    meeting one{version};
    one.server.cacerts = {world::get().middle.pem() + world::get().root.pem()};
    one.shows(world::get().below);
    auto both = one.happens();
    BOOST_TEST(both.client.now() == state::established, both.client.text());
    BOOST_TEST(both.client.session.info().peer_chain.size() == 2u); // the root is not sent
}

BOOST_DATA_TEST_CASE(an_intermediate_that_is_trusted_itself, data::make(versions), version)
{
    meeting one{version};
    one.client.cacerts = {world::get().middle.pem()};
    one.shows(world::get().below).succeeds();
}

BOOST_DATA_TEST_CASE(several_authorities_in_one_text_and_in_a_file, data::make(versions), version)
{
    meeting one{version};
    one.client.cacerts = {world::get().stranger.pem() + world::get().root.pem()};
    one.succeeds();
    one.client.cacerts.clear();
    one.client.cacertfile = world::get().files.write("cas.pem", world::get().stranger.pem() + world::get().root.pem());
    one.succeeds();
}

BOOST_DATA_TEST_CASE(without_verification_everything_is_accepted, data::make(versions), version)
{
    meeting one{version};
    one.client.verify_peer = false;
    one.client.cacerts.clear();
    one.shows(world::get().expired).expecting("elsewhere.org").succeeds();
}

BOOST_DATA_TEST_CASE(the_systems_authorities_do_not_know_ours, data::make(versions), version)
{
    meeting one{version};
    one.client.cacerts.clear();
    one.client_refuses("unknown_ca", "unable to get local issuer certificate");
}

// ---- names

BOOST_DATA_TEST_CASE(names_and_addresses_of_the_certificate,
                     data::make(versions) * data::make({"localhost", "LOCALHOST", "localhost.", "www.example.com",
                                                        "127.0.0.1", "::1", "0:0:0:0:0:0:0:1"}),
                     version, name)
{
    meeting{version}.expecting(name).succeeds();
}

BOOST_DATA_TEST_CASE(another_host_name,
                     data::make(versions) * data::make({"elsewhere.org", "example.com", "a.b.example.com", "good"}),
                     version, name)
{
    meeting{version}.expecting(name).client_refuses("bad_certificate", "hostname mismatch");
}

BOOST_DATA_TEST_CASE(another_address, data::make(versions) * data::make({"127.0.0.2", "::2"}), version, address)
{
    meeting{version}.expecting(address).client_refuses("bad_certificate", "IP address mismatch");
}

// ---- revocation

BOOST_DATA_TEST_CASE(a_revoked_certificate, data::make(versions), version)
{
    meeting one{version};
    one.client.crls = {revoke(world::get().root, {&world::get().good})};
    one.client_refuses("certificate_revoked", "certificate revoked");
}

BOOST_DATA_TEST_CASE(another_certificate_revoked, data::make(versions), version)
{
    meeting one{version};
    one.client.crls = {revoke(world::get().root, {&world::get().expired})};
    one.succeeds();
}

BOOST_DATA_TEST_CASE(a_revoked_client, data::make(versions), version)
{
    meeting one{version};
    one.server_verifies(true).client_shows(world::get().good);
    one.server.crls = {revoke(world::get().root, {&world::get().good})};
    one.server_refuses("certificate_revoked", "certificate revoked");
}

BOOST_DATA_TEST_CASE(the_list_of_another_authority_does_not_do, data::make(versions), version)
{
    meeting one{version};
    one.client.crls = {revoke(world::get().stranger, {})};
    one.client_refuses("unknown_ca", "unable to get certificate CRL");
}

// ---- the client's certificate

BOOST_DATA_TEST_CASE(a_client_certificate_required_and_absent, data::make(versions), version)
{
    meeting{version}.server_verifies(true).server_refuses(
        version == tls::protocol_version::tls_1_3 ? "certificate_required" : "handshake_failure",
        "peer did not return a certificate");
}

BOOST_DATA_TEST_CASE(a_client_certificate_wished_for_and_absent, data::make(versions), version)
{
    meeting{version}.server_verifies(false).succeeds();
}

BOOST_DATA_TEST_CASE(a_client_certificate_of_an_untrusted_authority, data::make(versions), version)
{
    meeting{version}
        .server_verifies(true)
        .client_shows(world::get().strange)
        .server_refuses("unknown_ca", "unable to get local issuer certificate");
}

BOOST_DATA_TEST_CASE(an_untrusted_client_certificate_is_refused_even_where_none_would_do, data::make(versions), version)
{
    meeting{version}
        .server_verifies(false)
        .client_shows(world::get().own)
        .server_refuses("unknown_ca", "self-signed certificate");
}

BOOST_DATA_TEST_CASE(a_good_client_certificate, data::make(versions), version)
{
    auto one = meeting{version}.server_verifies(true).client_shows(world::get().good);
    const auto both = one.happens();
    BOOST_TEST(both.client.now() == state::established, both.client.text());
    BOOST_TEST(both.server.now() == state::established, both.server.text());
    const auto chain = both.server.session.info().peer_chain;
    BOOST_TEST_REQUIRE(chain.size() == 1u);
    BOOST_TEST((chain[0] == world::get().good.der()));
}

BOOST_DATA_TEST_CASE(the_name_of_a_client, data::make(versions), version)
{
    auto one = meeting{version}.server_verifies(true).client_shows(world::get().good);
    one.of_server.hostname = "localhost";
    one.succeeds();
    one.of_server.hostname = "elsewhere.org";
    one.server_refuses("bad_certificate", "hostname mismatch");
}

BOOST_AUTO_TEST_CASE(a_client_may_think_itself_connected_before_it_is_refused)
{
    auto one = meeting{tls::protocol_version::tls_1_3}.server_verifies(true);
    pair both{make_context(tls::role::client, one.client), make_context(tls::role::server, one.server)};
    both.server.hear(taken(both.client.out));
    BOOST_TEST(both.client.hear(taken(both.server.out)) == state::established);
    both.client.say("hello?");
    BOOST_TEST(both.server.hear(taken(both.client.out)) == state::failed);
    BOOST_TEST(both.server.heard.empty());
    BOOST_TEST(both.client.hear(taken(both.server.out)) == state::failed);
    BOOST_TEST(both.client.alert() == "certificate_required");
}
