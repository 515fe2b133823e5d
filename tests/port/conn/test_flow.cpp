#define BOOST_TEST_MODULE flow
#include <boost/test/unit_test.hpp>

#include "conn/flow.hpp"

#include <array>
#include <ostream>

using etls::conn::flow;
using step = flow::step;

namespace etls::conn {

std::ostream& operator<<(std::ostream& out, flow::step what)
{
    static constexpr std::array names{"none",     "tell_handshake", "tell_ended", "shut_lane", "say_close_notify",
                                      "send_fin", "tell_closed",    "drop_lane",  "finish"};
    return out << names[static_cast<std::size_t>(what)];
}

std::ostream& operator<<(std::ostream& out, flow::deadline what)
{
    static constexpr std::array names{"none", "attach", "stall", "linger"};
    return out << names[static_cast<std::size_t>(what)];
}

std::ostream& operator<<(std::ostream& out, const flow::interest& want)
{
    return out << (want.read_tcp ? "Rt" : "") << (want.write_tcp ? "Wt" : "") << (want.read_lane ? "Rl" : "")
               << (want.write_lane ? "Wl" : "") << (want.watch_lane ? "Hl" : "");
}

} // namespace etls::conn

namespace {

/// What the shell does to the facts when it performs a step and nothing goes wrong.
void perform(flow& it, step what)
{
    switch (what) {
    case step::tell_handshake:
        it.handshake_told = true;
        break;
    case step::tell_ended:
        it.end_told = true;
        break;
    case step::shut_lane:
        it.lane_out_shut = true;
        break;
    case step::say_close_notify:
        it.close_notify_said = true;
        break;
    case step::send_fin:
        it.fin_sent = true;
        break;
    case step::tell_closed:
        it.closed_told = true;
        break;
    case step::drop_lane:
        it.lane = flow::lane_phase::dropped;
        break;
    case step::none:
    case step::finish:
        break;
    }
}

/// One frame of the film: the machine must ask for exactly these steps, in order, and then for nothing.
void expect(flow& it, std::initializer_list<step> steps)
{
    for (const auto each : steps) {
        const auto got = it.next();
        BOOST_REQUIRE_EQUAL(got, each);
        perform(it, got);
    }
    if (steps.size() == 0 || *(steps.end() - 1) != step::finish)
        BOOST_REQUIRE_EQUAL(it.next(), step::none);
}

flow streaming()
{
    flow it;
    it.handshake = flow::handshake_phase::done;
    it.handshake_asked = it.handshake_told = true;
    it.lane = flow::lane_phase::attached;
    return it;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_server_waits_for_its_handshake_to_be_asked_for)
{
    flow it;
    expect(it, {});
    BOOST_TEST(!it.wanted().read_tcp); // the ClientHello stays in the kernel
    BOOST_TEST(it.limit() == flow::deadline::attach);
    it.lane = flow::lane_phase::attached;
    BOOST_TEST(it.wanted().read_lane); // to see the VM's goodbye
    BOOST_TEST(it.limit() == flow::deadline::none);
    it.handshake_asked = true;
    it.handshake = flow::handshake_phase::running;
    BOOST_TEST(it.wanted().read_tcp);
    it.handshake = flow::handshake_phase::done;
    expect(it, {step::tell_handshake});
}

BOOST_AUTO_TEST_CASE(early_data_of_the_lane_are_not_looked_at_again_and_again)
{
    flow it;
    it.lane = flow::lane_phase::attached;
    it.lane_early = true;
    BOOST_TEST(!it.wanted().read_lane);
    BOOST_TEST(it.wanted().watch_lane); // the VM may die all the same
    it.handshake = flow::handshake_phase::done;
    BOOST_TEST(it.wanted().read_lane);
    BOOST_TEST(!it.wanted().watch_lane);
}

BOOST_AUTO_TEST_CASE(a_clients_outcome_waits_for_the_question)
{
    flow it;
    it.handshake = flow::handshake_phase::done;
    it.lane = flow::lane_phase::attached;
    it.end = flow::peer_end::close_notify;
    it.to_lane = true;
    expect(it, {}); // neither the outcome nor the end may be told yet
    it.handshake_asked = true;
    expect(it, {step::tell_handshake, step::tell_ended});
}

BOOST_AUTO_TEST_CASE(no_data_are_taken_from_the_peer_while_the_lane_is_full)
{
    auto it = streaming();
    BOOST_TEST(it.wanted().read_tcp);
    it.to_lane = true;
    BOOST_TEST(!it.wanted().read_tcp);
    BOOST_TEST(it.wanted().write_lane);
    it.lane = flow::lane_phase::awaited;
    it.to_lane = false;
    BOOST_TEST(!it.wanted().read_tcp);
}

BOOST_AUTO_TEST_CASE(no_data_are_taken_from_the_lane_while_the_peer_is_full)
{
    auto it = streaming();
    it.to_peer = true;
    BOOST_TEST(!it.wanted().read_lane);
    BOOST_TEST(it.wanted().write_tcp);
}

BOOST_AUTO_TEST_CASE(nothing_overtakes_what_the_session_holds)
{
    auto it = streaming();
    it.held = true;
    BOOST_TEST(!it.wanted().read_lane);
    BOOST_TEST(it.wanted().read_tcp); // the peer has to finish its message
    it.lane_eof = true;
    expect(it, {step::say_close_notify});
    it.held = false;
    expect(it, {step::send_fin});
}

BOOST_AUTO_TEST_CASE(the_lane_is_shut_only_behind_all_plaintext)
{
    auto it = streaming();
    it.end = flow::peer_end::close_notify;
    it.to_lane = true;
    expect(it, {step::tell_ended}); // why, at once; that it is over, behind the data
    it.to_lane = false;
    expect(it, {step::shut_lane});
    BOOST_TEST(it.wanted().read_lane); // the VM may go on sending
    BOOST_TEST(it.can_send());
}

BOOST_AUTO_TEST_CASE(the_vms_half_close_becomes_close_notify_then_fin)
{
    auto it = streaming();
    it.lane_eof = true;
    it.to_peer = true;
    expect(it, {step::say_close_notify}); // queued behind the data
    BOOST_TEST(!it.can_send());
    BOOST_TEST(it.limit() == flow::deadline::none); // a slow peer is no fault
    it.to_peer = false;
    expect(it, {step::send_fin});
    BOOST_TEST(it.wanted().read_tcp); // the peer may go on sending
    it.end = flow::peer_end::close_notify;
    it.tcp_eof = true;
    expect(it, {step::tell_ended, step::shut_lane});
    it.lane_hung_up = true; // both halves of an AF_UNIX pair shut look like a hang-up
    expect(it, {step::drop_lane, step::finish});
}

BOOST_AUTO_TEST_CASE(a_graceful_close_sends_everything_first)
{
    auto it = streaming();
    it.closing = flow::closing_mode::graceful;
    expect(it, {});
    BOOST_TEST(it.wanted().read_lane);
    BOOST_TEST(it.limit() == flow::deadline::stall);
    it.lane_eof = true;
    it.to_peer = true;
    expect(it, {step::say_close_notify});
    it.to_peer = false;
    expect(it, {step::send_fin, step::tell_closed, step::drop_lane});
    BOOST_TEST(it.wanted().read_tcp); // so that its data in flight do not become a RST
    BOOST_TEST(it.limit() == flow::deadline::linger);
    it.tcp_eof = true;
    expect(it, {step::finish});
}

BOOST_AUTO_TEST_CASE(a_graceful_close_of_what_the_peer_has_ended_does_not_wait)
{
    auto it = streaming();
    it.end = flow::peer_end::truncated;
    it.tcp_eof = true;
    expect(it, {step::tell_ended, step::shut_lane});
    it.closing = flow::closing_mode::graceful;
    it.lane_eof = true;
    expect(it, {step::say_close_notify, step::send_fin, step::tell_closed, step::drop_lane, step::finish});
}

BOOST_AUTO_TEST_CASE(an_abort_answers_whoever_waits_and_frees_at_once)
{
    flow it;
    it.handshake = flow::handshake_phase::running;
    it.handshake_asked = true;
    it.closing = flow::closing_mode::abort;
    expect(it, {step::tell_handshake, step::tell_closed, step::finish});
    BOOST_TEST(it.wanted() == flow::interest{});
}

BOOST_AUTO_TEST_CASE(a_failed_handshake_says_its_alert_then_lingers)
{
    flow it;
    it.handshake = flow::handshake_phase::failed;
    it.handshake_asked = true;
    it.lane = flow::lane_phase::attached;
    it.to_peer = true;
    expect(it, {step::tell_handshake});
    BOOST_TEST(it.limit() == flow::deadline::stall);
    it.to_peer = false;
    expect(it, {step::send_fin, step::drop_lane});
    BOOST_TEST(it.limit() == flow::deadline::linger);
    it.tcp_eof = true;
    expect(it, {step::finish});
}

BOOST_AUTO_TEST_CASE(a_failed_handshake_nobody_asked_about_is_kept_until_somebody_does)
{
    flow it;
    it.handshake = flow::handshake_phase::failed;
    it.tcp_eof = it.tcp_broken = true;
    expect(it, {});
    BOOST_TEST(it.limit() == flow::deadline::attach); // bounded all the same
    it.handshake_asked = true;
    expect(it, {step::tell_handshake, step::finish});
}

BOOST_AUTO_TEST_CASE(an_alert_ends_the_connection_behind_the_data)
{
    auto it = streaming();
    it.end = flow::peer_end::failed;
    it.to_lane = true;
    expect(it, {step::tell_ended, step::send_fin});
    BOOST_TEST(it.wanted().write_lane);
    BOOST_TEST(it.wanted().read_lane); // dropped, but the VM's sender must not hang
    it.to_lane = false;
    expect(it, {step::shut_lane});
    BOOST_TEST(it.wanted().read_lane); // until the VM, having read all, ends it
    it.lane_eof = true;
    it.lane_hung_up = true;
    it.tcp_eof = true;
    expect(it, {step::drop_lane, step::finish});
}

BOOST_AUTO_TEST_CASE(a_reset_ends_the_connection_behind_the_data)
{
    auto it = streaming();
    it.end = flow::peer_end::failed;
    it.tcp_eof = it.tcp_broken = true;
    it.to_lane = true;
    expect(it, {step::tell_ended});
    it.to_lane = false;
    expect(it, {step::shut_lane});
    it.closing = flow::closing_mode::graceful;
    expect(it, {step::tell_closed, step::drop_lane, step::finish});
}

BOOST_AUTO_TEST_CASE(a_peer_that_takes_nothing_is_still_read_from)
{
    auto it = streaming();
    it.tcp_broken = true;
    expect(it, {});
    BOOST_TEST(it.wanted().read_tcp);
    BOOST_TEST(!it.can_send());
}

BOOST_AUTO_TEST_CASE(a_peer_that_provokes_answers_and_takes_none_is_not_read_from)
{
    auto it = streaming();
    it.to_peer = it.glutted = true;
    BOOST_TEST(!it.wanted().read_tcp);
    BOOST_TEST(it.wanted().write_tcp);
    it.closing = flow::closing_mode::graceful;
    BOOST_TEST(!it.wanted().read_tcp);
    BOOST_TEST(it.limit() == flow::deadline::stall);
    it.to_peer = it.glutted = false;
    BOOST_TEST(it.wanted().read_tcp);
}

BOOST_AUTO_TEST_CASE(the_vms_death_closes_gracefully)
{
    auto it = streaming();
    it.lane_eof = true;
    it.lane_hung_up = true;
    expect(it, {step::say_close_notify, step::send_fin, step::drop_lane});
    it.tcp_eof = true;
    expect(it, {step::finish});
}

/// Whatever facts come in whatever order, the machine never asks for a step twice, never waits for a socket it has
/// given up, and once the VM has let go and the peer is gone, it ends.
BOOST_AUTO_TEST_CASE(every_history_of_facts_comes_to_an_end)
{
    constexpr int facts = 8;
    const auto happen = [](flow& it, int what) {
        const bool done = it.handshake == flow::handshake_phase::done;
        switch (what) {
        case 0:
            if (it.lane == flow::lane_phase::awaited)
                it.lane = flow::lane_phase::attached;
            break;
        case 1:
            it.handshake_asked = true;
            if (it.handshake == flow::handshake_phase::idle)
                it.handshake = flow::handshake_phase::running;
            break;
        case 2:
            if (it.handshake == flow::handshake_phase::running)
                it.handshake = flow::handshake_phase::done;
            break;
        case 3:
            if (done && it.end == flow::peer_end::none)
                it.end = flow::peer_end::close_notify;
            break;
        case 4:
            if (done && it.lane == flow::lane_phase::attached)
                it.lane_eof = true;
            break;
        case 5:
            if (it.handshake == flow::handshake_phase::running)
                it.handshake = flow::handshake_phase::failed;
            else if (done && it.end == flow::peer_end::none)
                it.end = flow::peer_end::failed;
            break;
        case 6:
            it.closing = done ? flow::closing_mode::graceful : flow::closing_mode::abort;
            break;
        case 7:
            it.tcp_broken = it.tcp_eof = true;
            if (it.handshake != flow::handshake_phase::done)
                it.handshake = flow::handshake_phase::failed;
            else if (it.end == flow::peer_end::none)
                it.end = flow::peer_end::failed;
            break;
        default:
            break;
        }
    };
    const auto settle = [](flow& it) {
        for (int steps = 0; steps <= 9; ++steps) {
            const auto next = it.next();
            if (next == step::none || next == step::finish)
                return next;
            perform(it, next);
        }
        BOOST_FAIL("asks for more steps than there are");
        return step::none;
    };
    int histories = 0;
    for (int code = 0; code < facts * facts * facts * facts * facts; ++code) {
        flow it;
        bool finished = false;
        for (int rest = code, n = 0; n < 5 && !finished; ++n, rest /= facts) {
            happen(it, rest % facts);
            finished = settle(it) == step::finish;
        }
        if (!finished) {
            // The VM goes: closes, ends its lane; then the peer goes.
            it.closing =
                it.handshake == flow::handshake_phase::done ? flow::closing_mode::graceful : flow::closing_mode::abort;
            it.lane_eof = true;
            finished = settle(it) == step::finish;
        }
        if (!finished) {
            BOOST_TEST(it.limit() != flow::deadline::none, "nothing bounds history " << code);
            it.tcp_eof = it.tcp_broken = true;
            finished = settle(it) == step::finish;
        }
        BOOST_TEST(finished, "history " << code << " never ends");
        ++histories;
    }
    BOOST_TEST(histories == 32768);
}
