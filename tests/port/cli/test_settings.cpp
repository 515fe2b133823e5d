#define BOOST_TEST_MODULE settings
#include <boost/test/unit_test.hpp>

#include "cli/settings.hpp"

#include <string>
#include <vector>

using etls::cli::parse;
using etls::cli::settings;

namespace {

std::variant<settings, std::string> given(std::vector<const char*> words)
{
    words.insert(words.begin(), "etlsd");
    return parse(static_cast<int>(words.size()), words.data());
}

settings good(const std::vector<const char*>& words)
{
    auto got = given(words);
    if (const auto* wrong = std::get_if<std::string>(&got))
        BOOST_FAIL(*wrong);
    return std::get<settings>(got);
}

bool refused(const std::vector<const char*>& words)
{
    const auto got = given(words);
    const auto* wrong = std::get_if<std::string>(&got);
    return wrong != nullptr && !wrong->empty() && wrong->find('\n') == std::string::npos;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_vms_command_line)
{
    const auto got = good({"--port", "--threads", "3", "--log-level", "debug"});
    BOOST_CHECK(got.what == settings::mode::port);
    BOOST_TEST(got.threads == 3u);
    BOOST_CHECK(got.level == etls::log::level::debug);
}

BOOST_AUTO_TEST_CASE(an_echo_server)
{
    const auto got = good({"--listen", "[::1]:8443", "--cert", "c", "--key", "k", "--echo"});
    BOOST_CHECK(got.what == settings::mode::echo_server);
    BOOST_TEST(got.host == "::1");
    BOOST_TEST(got.port == "8443");
}

BOOST_AUTO_TEST_CASE(a_client)
{
    const auto got = good({"--connect", "example.org:443", "--verify", "--server-name", "x"});
    BOOST_CHECK(got.what == settings::mode::client);
    BOOST_TEST(got.host == "example.org");
    BOOST_TEST(got.verify);
    BOOST_TEST(got.server_name.value() == "x");
}

BOOST_AUTO_TEST_CASE(bad_command_lines_are_refused_in_one_line)
{
    BOOST_TEST(refused({}));
    BOOST_TEST(refused({"--nonsense"}));
    BOOST_TEST(refused({"--port", "stray"}));
    BOOST_TEST(std::get<std::string>(given({"--port", "stray"})).find("'stray'") != std::string::npos);
    BOOST_TEST(refused({"--help", "stray"}));
    BOOST_TEST(refused({"--connect", "a:1", "--server-name", ""}));
    BOOST_TEST(refused({"--port", "--connect", "a:1"}));
    BOOST_TEST(refused({"--port", "--threads", "0"}));
    BOOST_TEST(refused({"--port", "--threads", "-1"}));
    BOOST_TEST(refused({"--port", "--threads", "many"}));
    BOOST_TEST(refused({"--port", "--threads", "99999999"}));
    BOOST_TEST(refused({"--port", "--log-level", "loud"}));
    BOOST_TEST(refused({"--port", "--cert", "c"}));
    BOOST_TEST(refused({"--por"}));
    BOOST_TEST(refused({"--listen", "127.0.0.1:1", "--cert", "c"}));
    BOOST_TEST(refused({"--listen", "127.0.0.1:1", "--echo"}));
    for (const char* address : {"localhost", "localhost:", ":1", "::1:443", "h:65536", "h:x", "[]:1"})
        BOOST_TEST(refused({"--connect", address}), address);
    BOOST_TEST(refused({"--connect", "a:1", "--echo"}));
    BOOST_TEST(refused({"--connect", "a:1", "--key", "k"}));
}
