#define BOOST_TEST_MODULE leftovers
#include <boost/test/unit_test.hpp>

#include "lane/leftovers.hpp"
#include "net/sockets.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using etls::lane::remove_leftovers;

namespace {

/// A directory of its own for each case, gone behind it.
struct scratch {
    scratch()
    {
        std::string name = (fs::temp_directory_path() / "etls-test-XXXXXX").string();
        BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
        base = name;
    }
    ~scratch() { fs::remove_all(base); }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;

    /// As a daemon makes it; its descriptor is the daemon's life.
    etls::net::unique_fd daemon(const std::string& name) const
    {
        fs::create_directory(base / name);
        const auto at = etls::net::address::local((base / name / "lane").string());
        auto fd = etls::net::open_listener(at.value(), {});
        BOOST_REQUIRE(static_cast<bool>(fd));
        return std::move(*fd);
    }

    fs::path base;
};

} // namespace

BOOST_AUTO_TEST_CASE(what_the_dead_left_is_removed_and_the_living_are_left_alone)
{
    const scratch at;
    const auto living = at.daemon("etlsd-living");
    at.daemon("etlsd-killed");                       // the descriptor is closed at once, the socket's file stays
    fs::create_directory(at.base / "etlsd-halfway"); // died before it made a socket
    BOOST_TEST(remove_leftovers(at.base.string(), 0s) == 2);
    BOOST_TEST(fs::exists(at.base / "etlsd-living" / "lane"));
    BOOST_TEST(!fs::exists(at.base / "etlsd-killed"));
    BOOST_TEST(!fs::exists(at.base / "etlsd-halfway"));
}

BOOST_AUTO_TEST_CASE(the_young_and_the_strange_are_left_alone)
{
    const scratch at;
    at.daemon("etlsd-young");
    fs::create_directory(at.base / "others");
    std::ofstream{at.base / "etlsd-file"} << "x";
    fs::create_directory(at.base / "etlsd-full");
    std::ofstream{at.base / "etlsd-full" / "precious"} << "x";
    BOOST_TEST(remove_leftovers(at.base.string()) == 0);
    BOOST_TEST(fs::exists(at.base / "etlsd-young"));
    BOOST_TEST(remove_leftovers(at.base.string(), 0s) == 1); // only what was young
    BOOST_TEST(fs::exists(at.base / "others"));
    BOOST_TEST(fs::exists(at.base / "etlsd-file"));
    BOOST_TEST(fs::exists(at.base / "etlsd-full" / "precious"));
}

BOOST_AUTO_TEST_CASE(a_base_that_is_not_there_has_no_leftovers)
{
    BOOST_TEST(remove_leftovers("/nonexistent/etls") == 0);
}
