// Where a cookie may come from, and which ones are refused, always without telling them.
#define BOOST_TEST_MODULE cookie
#include <boost/test/unit_test.hpp>

#include "cli/cookie.hpp"
#include "tls/authority.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <string>

using namespace etls;

namespace {

std::string path_of(test::scratch_directory& in, const std::string& text, mode_t mode)
{
    const auto path = in.write("cookie", text);
    BOOST_REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
}

std::string why(const std::optional<std::string>& file)
{
    const auto got = cli::read_cookie(file);
    const auto* none = std::get_if<cli::no_cookie>(&got);
    return none != nullptr ? none->why : std::string{};
}

} // namespace

BOOST_AUTO_TEST_CASE(a_file_of_its_owner_is_read_without_its_line_end)
{
    test::scratch_directory files;
    for (const mode_t mode : {0600u, 0400u})
        BOOST_TEST(std::get<std::string>(cli::read_cookie(path_of(files, "SECRET\n", mode))) == "SECRET");
}

BOOST_AUTO_TEST_CASE(a_file_that_others_can_read_is_refused)
{
    test::scratch_directory files;
    for (const mode_t mode : {0644u, 0640u, 0604u, 0660u}) {
        const auto told = why(path_of(files, "SECRET", mode));
        BOOST_TEST(told.find("chmod 600") != std::string::npos);
        BOOST_TEST(told.find("SECRET") == std::string::npos);
    }
}

BOOST_AUTO_TEST_CASE(what_is_no_cookie_is_refused)
{
    test::scratch_directory files;
    BOOST_TEST(why("/nowhere/cookie").find("No such file") != std::string::npos);
    BOOST_TEST(why("/dev/null").find("not a file") != std::string::npos);
    for (const auto& text : {std::string{}, std::string{" \n"}, std::string{"two\nlines"}, std::string(256, 'x'),
                             std::string(100000, 'x'), std::string{"a\0b", 3}}) {
        const auto told = why(path_of(files, text, 0600));
        BOOST_TEST(!told.empty(), "of " << text.size() << " bytes");
        BOOST_TEST(told.find("xx") == std::string::npos);
    }
}

BOOST_AUTO_TEST_CASE(the_environment_gives_one_and_loses_it)
{
    ::setenv("ETLSD_COOKIE", "FROM_ENV", 1);
    BOOST_TEST(std::get<std::string>(cli::read_cookie(std::nullopt)) == "FROM_ENV");
    BOOST_TEST(std::getenv("ETLSD_COOKIE") == nullptr);
    BOOST_TEST(why(std::nullopt).find("--cookie-file") != std::string::npos);
}
