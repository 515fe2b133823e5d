#define BOOST_TEST_MODULE terms
#include <boost/test/unit_test.hpp>

#include "link/term_check.hpp"
#include "link/term_reader.hpp"
#include "link/term_writer.hpp"

#include <cstdint>
#include <limits>
#include <random>
#include <string>

using etls::link::term_reader;
using etls::link::term_writer;
using etls::link::well_formed;

namespace {

std::string sample()
{
    term_writer out;
    out.tuple(4).atom("request").tuple(2).integer(-5).binary("id").atom("listen").map(2);
    out.atom("flags").list(2).flag(true).flag(false).nil();
    out.atom("big").unsigned_integer(std::numeric_limits<std::uint64_t>::max());
    return std::string{out.bytes()};
}

} // namespace

BOOST_AUTO_TEST_CASE(what_is_written_can_be_read)
{
    const auto bytes = sample();
    BOOST_REQUIRE(well_formed(bytes));
    term_reader in{bytes};
    BOOST_TEST(in.tuple().value() == 4);
    BOOST_TEST(in.atom().value() == "request");
    BOOST_TEST(in.any().size() > 0u);
    BOOST_TEST(in.atom().value() == "listen");
    BOOST_TEST(in.map().value() == 2);
    BOOST_TEST(in.atom().value() == "flags");
    BOOST_TEST(in.list().value() == 2);
    BOOST_TEST(in.flag().value());
    BOOST_TEST(!in.flag().value());
    BOOST_TEST(in.list_end());
}

BOOST_AUTO_TEST_CASE(a_read_of_the_wrong_kind_takes_nothing)
{
    term_writer out;
    out.tuple(1).atom("maybe");
    const std::string bytes{out.bytes()};
    term_reader in{bytes};
    BOOST_TEST(!in.map());
    BOOST_TEST(!in.integer());
    BOOST_TEST(in.tuple().value() == 1);
    BOOST_TEST(!in.flag());
    BOOST_TEST(!in.binary());
    BOOST_TEST(in.atom().value() == "maybe");
    BOOST_TEST(!in.atom()); // behind the end
}

BOOST_AUTO_TEST_CASE(every_truncation_is_noticed)
{
    const auto bytes = sample();
    for (std::size_t n = 0; n < bytes.size(); ++n)
        BOOST_TEST(!well_formed(std::string_view{bytes}.substr(0, n)), "cut at " << n);
    BOOST_TEST(!well_formed(bytes + 'x'));
}

BOOST_AUTO_TEST_CASE(lying_lengths_are_noticed)
{
    using namespace std::string_literals;
    BOOST_TEST(!well_formed("\x83"s + "m\xff\xff\xff\xff" + "ab"));            // binary
    BOOST_TEST(!well_formed("\x83"s + "t\xff\xff\xff\xff" + "ab"));            // map
    BOOST_TEST(!well_formed("\x83"s + "l\xff\xff\xff\xff" + "ab"));            // list
    BOOST_TEST(!well_formed("\x83"s + "i\xff\xff\xff\xff" + "ab"));            // tuple
    BOOST_TEST(!well_formed("\x83"s + "v\xff\xff" + std::string(65535, 'a'))); // atom longer than atoms are
    BOOST_TEST(!well_formed("\x83"s + "r\xff\xff"));                           // reference
}

BOOST_AUTO_TEST_CASE(deep_nesting_is_refused)
{
    std::string bytes = "\x83";
    for (int i = 0; i < 100000; ++i)
        bytes += "h\x01";
    bytes += "j";
    BOOST_TEST(!well_formed(bytes));
}

BOOST_AUTO_TEST_CASE(random_bytes_are_only_ever_accepted_when_they_can_be_walked)
{
    std::mt19937 random{42};
    const auto whole = sample();
    int accepted = 0;
    for (int i = 0; i < 200000; ++i) {
        auto bytes = whole;
        for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
            bytes[1 + random() % (bytes.size() - 1)] = static_cast<char>(random());
        if (!well_formed(bytes))
            continue;
        ++accepted;
        term_reader in{bytes};
        BOOST_REQUIRE_EQUAL(in.any().size(), bytes.size() - 1);
    }
    BOOST_TEST(accepted > 0);
}
