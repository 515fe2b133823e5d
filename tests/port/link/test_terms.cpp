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

BOOST_AUTO_TEST_CASE(atoms_are_of_255_characters_at_most_and_of_good_utf8)
{
    using namespace std::string_literals;
    const auto small = [](const std::string& text) { return "\x83w"s + static_cast<char>(text.size()) + text; };
    const auto large = [](const std::string& text) {
        return "\x83v"s + static_cast<char>(text.size() >> 8) + static_cast<char>(text.size()) + text;
    };
    for (const auto& good : {""s, "a"s, "\xc3\xa9"s, "\xe2\x82\xac"s, "\xf0\x9f\x98\x80"s, "\xf4\x8f\xbf\xbf"s})
        BOOST_TEST(well_formed(small(good)));
    for (const auto& bad : {"\x80"s, "\xc3"s, "\xc3x"s, "\xc0\x80"s, "\xe0\x80\x80"s, "\xed\xa0\x80"s,
                            "\xf0\x80\x80\x80"s, "\xf4\x90\x80\x80"s, "\xf8\x88\x80\x80\x80"s, "a\xff"s})
        BOOST_TEST(!well_formed(small(bad)));
    std::string most;
    for (int i = 0; i < 255; ++i)
        most += "\xf0\x9f\x98\x80";
    BOOST_TEST(well_formed(large(most)));
    BOOST_TEST(!well_formed(large(most + 'a')));
    BOOST_TEST(!well_formed(large(std::string(256, 'a'))));
    BOOST_TEST(!well_formed("\x83"
                            "d\x01\x00"s +
                            std::string(256, 'a')));
}

BOOST_AUTO_TEST_CASE(whatever_is_well_formed_can_be_echoed)
{
    using namespace std::string_literals;
    // A bit string, which ei does not skip; a node name, a reference, a big number that it has no C type for.
    for (const auto& term : {"M\0\0\0\1\3\xe0"s, "Xw\1n\0\0\0\1\0\0\0\2\0\0\0\3"s, "Z\0\1w\1n\0\0\0\1\0\0\0\2"s,
                             "o\0\0\0\2\1\xff\xff"s, "l\0\0\0\1a\1a\2"s, "k\0\2ab"s, "F\x40\0\0\0\0\0\0\0"s}) {
        const auto bytes = "\x83h\2"s + term + "w\4last";
        BOOST_REQUIRE(well_formed(bytes));
        term_reader in{bytes};
        BOOST_TEST(in.tuple().value() == 2);
        BOOST_TEST(in.any() == term);
        BOOST_TEST(in.atom().value() == "last");
    }
    for (const auto& bad : {"M\0\0\0\1\0\xff"s, "M\0\0\0\1\x09\xff"s, "M\0\0\0\0\1"s})
        BOOST_TEST(!well_formed('\x83' + bad));
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
