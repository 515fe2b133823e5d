// Control messages as a VM of OTP 25 sends them, and what we send; and bytes that are none.
#define BOOST_TEST_MODULE distribution
#include <boost/test/unit_test.hpp>

#include "link/distribution.hpp"
#include "link/term_check.hpp"
#include "link/term_reader.hpp"
#include "link/term_writer.hpp"

#include <string>

using namespace etls;
using link::distribution_message;
using link::term_writer;
using kind = link::distribution_message::kind;

namespace {

/// A pid without the version byte.
std::string pid(unsigned number)
{
    erlang_pid out{};
    std::string{"a@localhost"}.copy(out.node, sizeof out.node - 1);
    out.num = number;
    out.creation = 7;
    return std::string{term_writer{}.pid(out).bytes().substr(1)};
}

std::string framed(const term_writer& control, const std::string& payload = {})
{
    return '\x70' + std::string{control.bytes()} + payload;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_message_to_a_name_has_a_sender_a_name_and_a_payload)
{
    const std::string payload{term_writer{}.atom("hello").bytes()};
    term_writer control;
    control.tuple(4).integer(6).encoded(pid(1)).atom("").atom("etlsd");
    const auto frame = framed(control, payload);
    const auto got = link::read_distribution(frame);
    BOOST_REQUIRE(got.has_value());
    BOOST_TEST((got->what == kind::to_name));
    BOOST_TEST(got->name == "etlsd");
    BOOST_TEST((got->from == pid(1)));
    BOOST_TEST((got->payload == payload));
}

BOOST_AUTO_TEST_CASE(links_exits_and_monitors_name_who)
{
    const auto read = [](const term_writer& control) { return link::read_distribution(framed(control)).value(); };
    term_writer link_;
    BOOST_TEST((read(link_.tuple(3).integer(1).encoded(pid(1)).encoded(pid(2))).what == kind::link));
    term_writer exit;
    const auto ended = read(exit.tuple(4).integer(3).encoded(pid(1)).encoded(pid(2)).atom("killed"));
    BOOST_TEST((ended.what == kind::exit));
    BOOST_TEST((ended.from == pid(1)));
    term_writer unlink;
    const auto undone = read(unlink.tuple(4).integer(35).integer(99).encoded(pid(1)).encoded(pid(2)));
    BOOST_TEST((undone.what == kind::unlink));
    BOOST_TEST((undone.from == pid(1)));
    term_writer monitor;
    const auto watched = read(monitor.tuple(4).integer(19).encoded(pid(1)).atom("nobody").atom("a_reference"));
    BOOST_TEST((watched.what == kind::monitor));
    BOOST_TEST(watched.name == "nobody");
    term_writer other;
    BOOST_TEST((read(other.tuple(2).integer(29).atom("spawn")).what == kind::other));
}

BOOST_AUTO_TEST_CASE(what_is_no_message_is_refused)
{
    term_writer short_;
    short_.tuple(2).integer(6).encoded(pid(1));
    term_writer no_number;
    no_number.tuple(1).atom("x");
    term_writer whole;
    whole.tuple(4).integer(6).encoded(pid(1)).atom("").atom("etlsd");
    const auto good = framed(whole);
    for (const auto& frame :
         {std::string{}, std::string{"\x70"}, std::string{"\x70\x83"}, std::string{"\x44\x83j"},
          std::string{"\x70\x83j"}, framed(short_), framed(no_number), good.substr(0, good.size() - 1)})
        BOOST_TEST(!link::read_distribution(frame).has_value(), "of " << frame.size() << " bytes");
}

BOOST_AUTO_TEST_CASE(what_we_send_is_well_formed)
{
    for (const auto& message : {link::send_envelope(pid(1)), link::unlink_acknowledgement("a\x05", pid(2), pid(1)),
                                link::link_refusal(pid(2), pid(1)), link::monitor_refusal(pid(2), pid(1), "a\x05")}) {
        BOOST_TEST(message.front() == '\x70');
        BOOST_TEST(link::well_formed(std::string_view{message}.substr(1)));
    }
}
