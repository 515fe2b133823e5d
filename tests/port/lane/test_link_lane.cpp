// A link lane between a VM that is the test and a connection that is the other end of a socket pair.
#define BOOST_TEST_MODULE link_lane
#include <boost/test/unit_test.hpp>

#include "base/limits.hpp"
#include "lane/link_lane.hpp"
#include "net/sockets.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

using namespace etls;

namespace {

/// Keeps what the VM would hear, as text; takes data as long as `room`.
struct kept : lane::link_outbox {
    std::span<std::byte> begin_data(std::uint64_t, std::size_t most,
                                    const std::shared_ptr<lane::link_lane>& lane) override
    {
        if (!room) {
            parked = lane;
            return {};
        }
        frame.assign(most, std::byte{});
        return frame;
    }
    void end_data(std::size_t bytes) override
    {
        if (bytes == 0)
            return;
        largest = std::max(largest, bytes);
        data.append(reinterpret_cast<const char*>(frame.data()), bytes);
    }
    void put_credit(std::uint64_t, std::size_t bytes) override { credit += bytes; }
    void put_eof(std::uint64_t) override { said += "eof "; }
    void put_hangup(std::uint64_t) override { said += "hangup "; }

    bool room = true;
    std::vector<std::byte> frame;
    std::string data;
    std::string said;
    std::size_t credit = 0;
    std::size_t largest = 0;
    std::weak_ptr<lane::link_lane> parked;
};

struct attached {
    attached()
    {
        auto pair = net::open_pair();
        BOOST_REQUIRE(pair);
        connection = std::move(pair->second);
        lane = std::make_shared<lane::link_lane>(loop, 3, std::move(pair->first), out, [this] { ++gone; });
        lane->begin();
        settle();
    }

    void settle()
    {
        loop.restart();
        for (int i = 0; i < 100; ++i)
            loop.poll();
    }
    bool vm_sends(const std::string& bytes)
    {
        const bool fine = lane->data(std::as_bytes(std::span{bytes}));
        settle();
        return fine;
    }
    /// As much as there is.
    std::string connection_reads()
    {
        std::string all;
        std::string part(64 * 1024, '\0');
        for (;;) {
            const auto n = ::recv(connection.get(), part.data(), part.size(), 0);
            if (n <= 0) {
                at_end = n == 0;
                settle();
                return all;
            }
            all.append(part, 0, static_cast<std::size_t>(n));
            settle();
        }
    }
    void connection_sends(const std::string& bytes)
    {
        BOOST_REQUIRE(::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                      static_cast<ssize_t>(bytes.size()));
        settle();
    }

    boost::asio::io_context loop{1};
    std::shared_ptr<kept> out = std::make_shared<kept>();
    net::unique_fd connection;
    std::shared_ptr<lane::link_lane> lane;
    int gone = 0;
    bool at_end = false;
};

} // namespace

BOOST_AUTO_TEST_CASE(nothing_is_sent_before_it_is_granted_and_no_more_than_that)
{
    attached it;
    it.connection_sends("0123456789");
    BOOST_TEST(it.out->data.empty());
    it.lane->grant(4);
    it.settle();
    BOOST_TEST(it.out->data == "0123");
    it.lane->grant(1);
    it.lane->grant(100);
    it.settle();
    BOOST_TEST(it.out->data == "0123456789");
    it.connection_sends("more");
    BOOST_TEST(it.out->data == "0123456789more");
}

BOOST_AUTO_TEST_CASE(data_are_cut_to_the_limit_of_a_term)
{
    attached it;
    it.lane->grant(limits::lane_window_bytes);
    const std::string much(150 * 1024, 'x');
    it.connection_sends(much);
    BOOST_TEST(it.out->data.size() == much.size());
    BOOST_TEST(it.out->largest <= limits::lane_data_bytes);
}

BOOST_AUTO_TEST_CASE(a_window_for_a_connection_that_reads_nothing_is_all_that_is_held)
{
    attached it;
    const std::string piece(limits::lane_data_bytes, 'a');
    std::size_t sent = 0;
    std::string whole;
    // Credit comes back only for what the connection's socket took.
    while (sent + piece.size() <= limits::lane_window_bytes + it.out->credit) {
        BOOST_REQUIRE(it.vm_sends(piece));
        sent += piece.size();
    }
    BOOST_TEST(it.out->credit < sent);
    BOOST_TEST(it.connection_reads().size() == sent);
    BOOST_TEST(it.out->credit >= sent - limits::lane_window_bytes / 4);
    BOOST_TEST(it.out->said.empty());
}

BOOST_AUTO_TEST_CASE(more_than_the_credit_ends_the_lane)
{
    for (const bool one_frame : {true, false}) {
        attached it;
        if (one_frame) {
            BOOST_TEST(!it.vm_sends(std::string(limits::lane_data_bytes + 1, 'x')));
        } else {
            const std::string piece(limits::lane_data_bytes, 'x');
            bool fine = true;
            for (int i = 0; fine && i < 100; ++i)
                fine = it.lane->data(std::as_bytes(std::span{piece})); // the credit is not waited for
            BOOST_TEST(!fine);
        }
        it.settle();
        BOOST_TEST(it.out->said == "hangup ");
        BOOST_TEST(it.gone == 1);
        BOOST_TEST(it.vm_sends("late"), "what comes later does nothing");
    }
}

BOOST_AUTO_TEST_CASE(the_vms_end_comes_behind_all_its_data)
{
    attached it;
    BOOST_REQUIRE(it.vm_sends(std::string(60000, 'a')));
    BOOST_REQUIRE(it.vm_sends(std::string(60000, 'b')));
    it.lane->end();
    it.settle();
    const auto got = it.connection_reads();
    BOOST_TEST(got.size() == 120000u);
    BOOST_TEST(it.at_end);
    it.lane->grant(100);
    it.connection_sends("still");
    BOOST_TEST(it.out->data == "still");
}

BOOST_AUTO_TEST_CASE(the_connections_end_needs_no_credit_but_its_data_do)
{
    {
        attached it;
        ::shutdown(it.connection.get(), SHUT_WR);
        it.settle();
        BOOST_TEST(it.out->said == "eof ");
        BOOST_REQUIRE(it.vm_sends("still"));
        BOOST_TEST(it.connection_reads() == "still");
    }
    attached it;
    it.connection_sends("data");
    ::shutdown(it.connection.get(), SHUT_WR);
    it.settle();
    BOOST_TEST(it.out->said.empty());
    it.lane->grant(10);
    it.settle();
    BOOST_TEST(it.out->data == "data");
    BOOST_TEST(it.out->said == "eof ");
}

BOOST_AUTO_TEST_CASE(a_connection_that_goes_hangs_up_behind_its_data_and_takes_what_comes_as_read)
{
    attached it;
    it.connection_sends("last words");
    it.connection.reset();
    it.settle();
    BOOST_TEST(it.out->said.empty());
    for (int i = 0; i < 20; ++i) // a sender must not hang
        BOOST_REQUIRE(it.vm_sends(std::string(limits::lane_data_bytes, 'x')));
    it.lane->grant(100);
    it.settle();
    BOOST_TEST(it.out->data == "last words");
    BOOST_TEST(it.out->said == "eof hangup ");
    BOOST_TEST(it.gone == 1);
}

BOOST_AUTO_TEST_CASE(a_vm_that_hangs_up_is_carried_out_first)
{
    attached it;
    for (int i = 0; i < 8; ++i) // more than the socket takes
        BOOST_REQUIRE(it.vm_sends(std::string(limits::lane_data_bytes, 'x')));
    it.lane->hang_up();
    it.settle();
    BOOST_TEST(it.gone == 0);
    BOOST_TEST(it.connection_reads().size() == 8 * limits::lane_data_bytes);
    BOOST_TEST(it.at_end);
    BOOST_TEST(it.gone == 1);
    BOOST_TEST(it.out->said.empty());
}

BOOST_AUTO_TEST_CASE(a_busy_link_parks_the_lane_until_it_resumes)
{
    attached it;
    it.out->room = false;
    it.lane->grant(100);
    it.connection_sends("data");
    BOOST_TEST(it.out->data.empty());
    BOOST_REQUIRE(it.out->parked.lock());
    it.lane->grant(1);
    it.settle();
    BOOST_TEST(it.out->data.empty());
    it.out->room = true;
    it.out->parked.lock()->resume();
    it.settle();
    BOOST_TEST(it.out->data == "data");
}

BOOST_AUTO_TEST_CASE(credit_that_overflows_is_only_much)
{
    attached it;
    for (int i = 0; i < 4; ++i)
        it.lane->grant(~std::uint64_t{0});
    it.connection_sends("data");
    BOOST_TEST(it.out->data == "data");
}
