#define BOOST_TEST_MODULE context_cache
#include "tls/authority.hpp"
#include "tls/context_cache.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <thread>

using namespace etls;
using namespace etls::test;

using tls::role;

namespace {

const identity& somebody()
{
    static const identity who = issue({.name = "somebody", .alternatives = {}});
    return who;
}

const identity& somebody_else()
{
    static const identity who = issue({.name = "somebody else", .alternatives = {}});
    return who;
}

std::string leaf_of(const tls::context& made)
{
    return written([&](BIO* bio) { return i2d_X509_bio(bio, SSL_CTX_get0_certificate(made.native())); });
}

struct fixture {
    scratch_directory files;
    tls::context_options options;
    tls::context_cache cache;

    fixture() { options.certfile = files.write("server.pem", somebody()); }
};

} // namespace

BOOST_FIXTURE_TEST_CASE(equal_options_share_a_context, fixture)
{
    const auto first = cache.get(role::server, options).value();
    BOOST_TEST(cache.get(role::server, options).value() == first);
    BOOST_TEST(cache.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(other_options_and_roles_do_not, fixture)
{
    const auto first = cache.get(role::server, options).value();
    BOOST_TEST(cache.get(role::client, options).value() != first);
    options.alpn = {"h2"};
    BOOST_TEST(cache.get(role::server, options).value() != first);
    BOOST_TEST(cache.size() == 3u);
}

BOOST_FIXTURE_TEST_CASE(a_changed_file_is_read_again, fixture)
{
    const auto before = cache.get(role::server, options).value();
    files.write("server.pem", somebody_else());
    const auto after = cache.get(role::server, options).value();
    BOOST_TEST((leaf_of(*before) == somebody().der()));
    BOOST_TEST((leaf_of(*after) == somebody_else().der()));
}

BOOST_FIXTURE_TEST_CASE(a_replaced_file_is_read_again, fixture)
{
    static_cast<void>(cache.get(role::server, options).value());
    std::filesystem::rename(files.write("new.pem", somebody_else()), *options.certfile);
    BOOST_TEST((leaf_of(*cache.get(role::server, options).value()) == somebody_else().der()));
}

BOOST_FIXTURE_TEST_CASE(a_file_that_goes_is_missed_and_one_that_comes_is_found, fixture)
{
    static_cast<void>(cache.get(role::server, options).value());
    std::filesystem::remove(*options.certfile);
    for (int times = 0; times < 2; ++times) {
        const auto made = cache.get(role::server, options);
        BOOST_TEST_REQUIRE(!made);
        BOOST_TEST(std::get<option_error>(made.error()).kind == "enoent");
    }
    files.write("server.pem", somebody());
    BOOST_TEST(bool{cache.get(role::server, options)});
}

BOOST_FIXTURE_TEST_CASE(clearing_reads_everything_again, fixture)
{
    const auto before = cache.get(role::server, options).value();
    cache.clear();
    BOOST_TEST(cache.size() == 0u);
    BOOST_TEST(cache.get(role::server, options).value() != before);
}

BOOST_FIXTURE_TEST_CASE(the_least_recently_used_goes, fixture)
{
    const auto first = cache.get(role::server, options).value();
    auto varied = options;
    for (std::size_t at = 0; at < tls::context_cache::capacity; ++at) {
        varied.alpn = {std::to_string(at)};
        static_cast<void>(cache.get(role::server, varied).value());
        if (at + 1 < tls::context_cache::capacity)
            BOOST_TEST_REQUIRE(cache.get(role::server, options).value() == first); // used, so kept
    }
    BOOST_TEST(cache.size() == tls::context_cache::capacity);
    BOOST_TEST(cache.get(role::server, options).value() == first);
    varied.alpn = {"0"};
    const auto again = cache.get(role::server, varied).value();
    BOOST_TEST(cache.size() == tls::context_cache::capacity);
    BOOST_TEST(cache.get(role::server, varied).value() == again);
}

BOOST_FIXTURE_TEST_CASE(threads_get_the_same_context, fixture)
{
    std::vector<std::shared_ptr<const tls::context>> got(8);
    {
        std::vector<std::jthread> threads;
        for (auto& mine : got)
            threads.emplace_back([&] { mine = cache.get(role::server, options).value(); });
    }
    for (const auto& one : got)
        BOOST_TEST(one == got.front());
    BOOST_TEST(cache.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(the_systems_certificates_are_loaded_once, fixture)
{
    tls::context_options verifying;
    verifying.verify_peer = true;
    const auto one = cache.get(role::client, verifying).value();
    verifying.alpn = {"h2"};
    const auto other = cache.get(role::client, verifying).value();
    BOOST_TEST(SSL_CTX_get_cert_store(one->native()) == SSL_CTX_get_cert_store(other->native()));
}
