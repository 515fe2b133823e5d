#define BOOST_TEST_MODULE context
#include "tls/authority.hpp"
#include "tls/context.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

using namespace etls;
using namespace etls::test;

using tls::role;

/// Which options make a context, and how the others are refused.
namespace {

struct world {
    identity root = issue({.name = "root", .alternatives = {}, .authority = true});
    identity one = issue({.name = "one", .alternatives = {}}, &root);
    identity other = issue({.name = "other", .alternatives = {}}, &root);
    identity rsa = issue({.name = "rsa", .alternatives = {}, .key = key_kind::rsa}, &root);
    scratch_directory files;
    std::string one_file = files.write("one.pem", one);

    static world& get()
    {
        static world the;
        return the;
    }
};

/// "option: kind detail", or "made".
std::string outcome(role side, const tls::context_options& options)
{
    auto made = tls::context::make(side, options);
    if (made)
        return "made";
    const auto& why = std::get<option_error>(made.error());
    return why.option + ": " + why.kind + (why.detail.empty() ? "" : " " + why.detail);
}

tls::context_options with_certfile(std::string path)
{
    tls::context_options options;
    options.certfile = std::move(path);
    return options;
}

tls::context_options with_keyfile(std::string path)
{
    auto options = with_certfile(world::get().one_file);
    options.keyfile = std::move(path);
    return options;
}

bool has(const std::vector<std::string>& names, const std::string& name)
{
    return std::find(names.begin(), names.end(), name) != names.end();
}

} // namespace

BOOST_AUTO_TEST_CASE(a_client_needs_no_options)
{
    BOOST_TEST(outcome(role::client, {}) == "made");
}

BOOST_AUTO_TEST_CASE(a_server_needs_a_certificate)
{
    BOOST_TEST(outcome(role::server, {}) == "certfile: required");
    BOOST_TEST(outcome(role::server, with_certfile(world::get().one_file)) == "made");
}

BOOST_AUTO_TEST_CASE(a_key_or_chain_without_a_certificate_is_no_use)
{
    tls::context_options options;
    options.keyfile = world::get().one_file;
    BOOST_TEST(outcome(role::client, options) == "certfile: required");
    options = {};
    options.chain = {world::get().root.pem()};
    BOOST_TEST(outcome(role::client, options) == "certfile: required");
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_read_are_named)
{
    auto& files = world::get().files;
    const auto missing = files.path("missing.pem");
    const auto directory = files.path(".");
    BOOST_TEST(outcome(role::server, with_certfile(missing)) == "certfile: enoent " + missing);
    BOOST_TEST(outcome(role::server, with_certfile(directory)) == "certfile: eisdir " + directory);
    BOOST_TEST(outcome(role::server, with_certfile(world::get().one_file + "/x")) ==
               "certfile: enotdir " + world::get().one_file + "/x");
    BOOST_TEST(outcome(role::server, with_keyfile(missing)) == "keyfile: enoent " + missing);
    tls::context_options options;
    options.cacertfile = missing;
    BOOST_TEST(outcome(role::client, options) == "cacertfile: enoent " + missing);
    if (::geteuid() != 0) { // nothing is forbidden to root
        const auto secret = files.write("secret.pem", world::get().one);
        ::chmod(secret.c_str(), 0);
        BOOST_TEST(outcome(role::server, with_certfile(secret)) == "certfile: eacces " + secret);
    }
}

BOOST_AUTO_TEST_CASE(a_fifo_does_not_hang_the_daemon)
{
    const auto fifo = world::get().files.path("fifo");
    BOOST_TEST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    BOOST_TEST(outcome(role::server, with_certfile(fifo)) == "certfile: no_certificate " + fifo);
    BOOST_TEST(outcome(role::server, with_certfile("/dev/zero")) == "certfile: efbig /dev/zero");
}

BOOST_AUTO_TEST_CASE(files_that_hold_something_else)
{
    auto& files = world::get().files;
    const auto empty = files.write("empty.pem", "");
    const auto prose = files.write("prose.pem", "This is not a certificate.");
    const auto broken =
        files.write("broken.pem", "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n");
    const auto torn = files.write("torn.pem", world::get().one.pem().substr(0, 200));
    BOOST_TEST(outcome(role::server, with_certfile(empty)) == "certfile: no_certificate " + empty);
    BOOST_TEST(outcome(role::server, with_certfile(prose)) == "certfile: no_certificate " + prose);
    BOOST_TEST(outcome(role::server, with_certfile(broken)) == "certfile: bad_certificate " + broken);
    BOOST_TEST(outcome(role::server, with_certfile(torn)) == "certfile: bad_certificate " + torn);
    BOOST_TEST(outcome(role::server, with_keyfile(prose)) == "keyfile: no_private_key " + prose);
    const auto bad_key =
        files.write("key.pem", "-----BEGIN PRIVATE KEY-----\nbm90IGEga2V5\n-----END PRIVATE KEY-----\n");
    BOOST_TEST(outcome(role::server, with_keyfile(bad_key)) == "keyfile: bad_private_key " + bad_key);
    const auto no_key = files.write("nokey.pem", world::get().one.pem());
    BOOST_TEST(outcome(role::server, with_certfile(no_key)) == "certfile: no_private_key " + no_key);
}

BOOST_AUTO_TEST_CASE(a_key_of_another_certificate)
{
    auto& files = world::get().files;
    const auto other = files.write("other.key", world::get().other.key_pem());
    const auto rsa = files.write("rsa.key", world::get().rsa.key_pem());
    BOOST_TEST(outcome(role::server, with_keyfile(other)) == "keyfile: key_mismatch " + other);
    BOOST_TEST(outcome(role::server, with_keyfile(rsa)) == "keyfile: key_mismatch " + rsa);
    const auto mixed = files.write("mixed.pem", world::get().one.pem() + world::get().other.key_pem());
    BOOST_TEST(outcome(role::server, with_certfile(mixed)) == "certfile: key_mismatch " + mixed);
}

BOOST_AUTO_TEST_CASE(an_encrypted_key_is_refused_and_nobody_is_asked)
{
    const auto key = world::get().files.write("locked.key", world::get().one.encrypted_key_pem());
    BOOST_TEST(outcome(role::server, with_keyfile(key)) == "keyfile: encrypted " + key);
}

BOOST_AUTO_TEST_CASE(certificates_and_keys_may_be_der)
{
    auto options = with_certfile(world::get().files.write("one.der", world::get().one.der()));
    options.keyfile = world::get().files.write("one.key.der", world::get().one.key_der());
    options.chain = {world::get().root.der()};
    options.cacerts = {world::get().root.der(), world::get().root.pem()};
    BOOST_TEST(outcome(role::server, options) == "made");
}

BOOST_AUTO_TEST_CASE(a_key_may_come_before_its_certificate_and_beside_others)
{
    auto& the = world::get();
    const auto key_first = the.files.write("keyfirst.pem", the.one.key_pem() + the.one.pem() + the.root.pem());
    BOOST_TEST(outcome(role::server, with_certfile(key_first)) == "made");
}

BOOST_AUTO_TEST_CASE(given_bytes_are_named_by_their_option)
{
    tls::context_options options;
    options.cacerts = {"nonsense"};
    BOOST_TEST(outcome(role::client, options) == "cacerts: no_certificate");
    options.cacerts = {world::get().root.der() + "x"};
    BOOST_TEST(outcome(role::client, options) == "cacerts: bad_certificate");
    options = {};
    options.crls = {""};
    BOOST_TEST(outcome(role::client, options) == "crls: no_crl");
    options.crls = {world::get().root.der()};
    BOOST_TEST(outcome(role::client, options) == "crls: bad_crl");
    options = with_certfile(world::get().one_file);
    options.chain = {"nonsense"};
    BOOST_TEST(outcome(role::server, options) == "chain: no_certificate");
}

BOOST_AUTO_TEST_CASE(protocol_names_have_1_to_255_bytes)
{
    tls::context_options options = with_certfile(world::get().one_file);
    for (const auto& name : {std::string{}, std::string(256, 'x')}) {
        options.alpn = {"h2", name};
        BOOST_TEST(outcome(role::client, options) == "alpn_advertised_protocols: bad_protocol_name");
        BOOST_TEST(outcome(role::server, options) == "alpn_preferred_protocols: bad_protocol_name");
    }
    options.alpn = {std::string(255, 'x')};
    BOOST_TEST(outcome(role::client, options) == "made");
    options.alpn.assign(256, std::string(255, 'x'));
    BOOST_TEST(outcome(role::client, options) == "alpn_advertised_protocols: too_long");
}

BOOST_AUTO_TEST_CASE(at_least_one_version_must_be_left)
{
    const auto with = [](std::vector<tls::protocol_version> versions, const char* ciphers) {
        tls::context_options options;
        options.versions = std::move(versions);
        if (ciphers != nullptr)
            options.ciphers = ciphers;
        return outcome(role::client, options);
    };
    using enum tls::protocol_version;
    BOOST_TEST(with({}, nullptr) == "versions: empty");
    BOOST_TEST(with({tls_1_3, tls_1_2}, nullptr) == "made");
    BOOST_TEST(with({tls_1_3}, "ECDHE-RSA-AES128-GCM-SHA256") == "ciphers: no_match");
    BOOST_TEST(with({tls_1_2}, "TLS_AES_128_GCM_SHA256") == "ciphers: no_match");
    BOOST_TEST(with({tls_1_2, tls_1_3}, "TLS_AES_128_GCM_SHA256") == "made");
    BOOST_TEST(with({tls_1_2, tls_1_3}, "no-such-suite") == "ciphers: no_match");
    BOOST_TEST(with({tls_1_2, tls_1_3}, "no-such-suite:ECDHE-RSA-AES128-GCM-SHA256") == "made");
    BOOST_TEST(with({tls_1_2, tls_1_3}, "NOSUCHKEYWORD") == "ciphers: no_match");
    BOOST_TEST(with({tls_1_2, tls_1_3}, "") == "ciphers: no_match");
    BOOST_TEST(with({tls_1_3}, "HIGH:!aNULL") == "made");
}

BOOST_AUTO_TEST_CASE(cipher_texts_are_lists_of_names_or_expressions)
{
    BOOST_TEST((tls::parse_ciphers("TLS_AES_128_GCM_SHA256:AES128-SHA, AES256-SHA") ==
                tls::cipher_choice{"AES128-SHA:AES256-SHA", "TLS_AES_128_GCM_SHA256", true}));
    BOOST_TEST(
        (tls::parse_ciphers("HIGH:!aNULL:-AES128-SHA") == tls::cipher_choice{"HIGH:!aNULL:-AES128-SHA", "", false}));
    BOOST_TEST((tls::parse_ciphers("TLS_RSA_WITH_AES_128_CBC_SHA") == tls::cipher_choice{"AES128-SHA", "", true}));
}

BOOST_AUTO_TEST_CASE(cipher_suites_are_told_by_name)
{
    const auto all = tls::cipher_suites({}).value();
    BOOST_TEST(has(all, "ECDHE-RSA-AES128-SHA"));
    BOOST_TEST(has(all, "TLS_AES_128_GCM_SHA256"));
    const auto some = tls::cipher_suites("AES256").value();
    BOOST_TEST(has(some, "ECDHE-RSA-AES256-GCM-SHA384"));
    BOOST_TEST(!has(some, "ECDHE-RSA-AES128-SHA"));
    BOOST_TEST(!has(some, "TLS_AES_128_GCM_SHA256"));
    const std::vector<std::string> named{"TLS_AES_256_GCM_SHA384", "ECDHE-RSA-AES128-SHA"};
    BOOST_TEST(tls::cipher_suites("TLS_AES_256_GCM_SHA384:ECDHE-RSA-AES128-SHA").value() == named,
               boost::test_tools::per_element());
    const auto none = tls::cipher_suites("NOSUCHKEYWORD");
    BOOST_TEST((std::get<option_error>(none.error()) == option_error{"ciphers", "no_match", {}}));
}

BOOST_AUTO_TEST_CASE(a_server_names_its_authorities_to_clients)
{
    auto options = with_certfile(world::get().one_file);
    options.cacerts = {world::get().root.pem()};
    options.verify_peer = true;
    const auto made = tls::context::make(role::server, options).value();
    BOOST_TEST(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(made->native())) == 1);
}
