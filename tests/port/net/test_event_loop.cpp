#define BOOST_TEST_MODULE event_loop
#include "net/event_loop.hpp"
#include "net/sockets.hpp"
#include "net/watched.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace net = etls::net;
using namespace std::chrono_literals;

namespace {

using bytes = std::array<char, 64>;

struct told : net::event_loop::watcher {
    std::function<void(int, std::uint32_t)> events = [](int, std::uint32_t) {};
    std::function<void()> turn = [] {};
    std::function<void()> timer = [] {};
    void on_events(int fd, std::uint32_t what) override { events(fd, what); }
    void on_turn() override { turn(); }
    void on_timer() override { timer(); }
};

struct pair {
    pair()
    {
        auto made = net::open_pair();
        BOOST_REQUIRE(made);
        std::tie(ours, peers) = std::move(*made);
    }
    void peer_sends(const std::string& text) const
    {
        BOOST_REQUIRE_EQUAL(::send(peers.get(), text.data(), text.size(), MSG_NOSIGNAL),
                            static_cast<ssize_t>(text.size()));
    }
    net::unique_fd ours;
    net::unique_fd peers;
};

} // namespace

BOOST_AUTO_TEST_CASE(work_of_other_threads_is_done_in_order_and_stop_ends_the_loop)
{
    net::event_loop loop;
    std::vector<int> done;
    std::thread other{[&] {
        for (int i = 0; i < 1000; ++i)
            loop.post([&done, i] { done.push_back(i); });
        loop.stop();
    }};
    loop.run();
    other.join();
    BOOST_REQUIRE_EQUAL(done.size(), 1000U);
    BOOST_TEST(std::is_sorted(done.begin(), done.end()));
}

BOOST_AUTO_TEST_CASE(a_task_wakes_a_loop_that_sleeps)
{
    net::event_loop loop;
    std::thread runner{[&] { loop.run(); }};
    for (int i = 0; i < 100; ++i) {
        std::atomic<bool> done{false};
        loop.post([&] {
            done = true;
            done.notify_one();
        });
        done.wait(false);
    }
    loop.stop();
    runner.join();
}

BOOST_AUTO_TEST_CASE(the_end_behind_the_last_data_is_not_lost_after_a_short_read)
{
    // Both come as one edge: whoever reads the data short must read once more, to see the end.
    net::event_loop loop;
    pair ends;
    ends.peer_sends("last words");
    ::shutdown(ends.peers.get(), SHUT_WR);
    net::watched socket{std::move(ends.ours), net::watched::output::when_blocked};
    const auto who = std::make_shared<told>();
    std::string got;
    bool ended = false;
    who->events = [&](int, std::uint32_t events) {
        socket.note(events);
        while (socket.readable() && !ended) {
            bytes room{};
            const auto n = ::recv(socket.fd(), room.data(), room.size(), 0);
            BOOST_REQUIRE_GE(n, 0);
            got.append(room.data(), static_cast<std::size_t>(n));
            ended = n == 0;
            socket.drained();
        }
        if (ended)
            loop.stop();
    };
    BOOST_REQUIRE(socket.begin(loop, who));
    loop.run();
    BOOST_TEST(got == "last words");
    socket.close();
}

BOOST_AUTO_TEST_CASE(after_a_short_read_more_data_are_told_again)
{
    net::event_loop loop;
    pair ends;
    net::watched socket{std::move(ends.ours), net::watched::output::when_blocked};
    const auto who = std::make_shared<told>();
    int reads = 0;
    who->events = [&](int, std::uint32_t events) {
        socket.note(events);
        bytes room{};
        BOOST_REQUIRE_EQUAL(::recv(socket.fd(), room.data(), room.size(), 0), 1);
        socket.drained();
        BOOST_TEST(!socket.readable());
        if (++reads == 100)
            loop.stop();
        else
            ends.peer_sends("x");
    };
    BOOST_REQUIRE(socket.begin(loop, who));
    ends.peer_sends("x");
    loop.run();
    BOOST_TEST(reads == 100);
    socket.close();
}

BOOST_AUTO_TEST_CASE(room_for_output_is_told_after_a_write_that_did_not_fit_and_only_then)
{
    net::event_loop loop;
    pair ends;
    net::watched socket{std::move(ends.ours), net::watched::output::when_blocked};
    const auto who = std::make_shared<told>();
    int told_of_room = 0;
    who->events = [&](int, std::uint32_t events) {
        BOOST_TEST(!socket.writable());
        socket.note(events);
        if (socket.writable()) {
            ++told_of_room;
            loop.stop();
        }
    };
    BOOST_REQUIRE(socket.begin(loop, who));
    loop.post([&] {
        const std::string block(4096, 'x');
        while (::send(socket.fd(), block.data(), block.size(), MSG_NOSIGNAL) > 0) {
        }
        socket.blocked();
        std::array<char, 65536> room{};
        while (::recv(ends.peers.get(), room.data(), room.size(), MSG_DONTWAIT) > 0) {
        }
    });
    loop.run();
    BOOST_TEST(told_of_room == 1);
    socket.close();
}

BOOST_AUTO_TEST_CASE(a_descriptor_forgotten_in_a_batch_is_not_told_of_later_in_it_even_if_its_number_comes_back)
{
    net::event_loop loop;
    pair first;
    pair second;
    pair quiet;
    first.peer_sends("x");
    second.peer_sends("x");
    net::watched a{std::move(first.ours), net::watched::output::when_blocked};
    net::watched b{std::move(second.ours), net::watched::output::when_blocked};
    const auto who = std::make_shared<told>();
    const auto newcomer = std::make_shared<told>();
    int events = 0;
    int wrong = 0;
    net::unique_fd reused;
    newcomer->events = [&](int, std::uint32_t) { ++wrong; };
    who->events = [&](int fd, std::uint32_t) {
        ++events;
        const int other = fd == a.fd() ? b.fd() : a.fd();
        a.close();
        b.close();
        // A quiet descriptor takes the number whose event is still in the batch.
        reused.reset(::dup2(quiet.ours.get(), other));
        BOOST_TEST(loop.watch(reused.get(), newcomer, false));
        loop.call_again(who);
    };
    who->turn = [&] { loop.stop(); };
    BOOST_REQUIRE(a.begin(loop, who));
    BOOST_REQUIRE(b.begin(loop, who));
    loop.run();
    BOOST_TEST(events == 1);
    BOOST_TEST(wrong == 0);
    loop.forget(reused.get());
    reused.reset();
}

BOOST_AUTO_TEST_CASE(timers_go_off_in_their_order_and_not_when_cancelled_or_their_owner_is_gone)
{
    net::event_loop loop;
    std::string order;
    const auto make = [&](char name) {
        auto who = std::make_shared<told>();
        who->timer = [&order, name] { order.push_back(name); };
        return who;
    };
    const auto a = make('a');
    const auto b = make('b');
    const auto c = make('c');
    const auto last = std::make_shared<told>();
    last->timer = [&] { loop.stop(); };
    loop.start_timer(2ms, b);
    loop.start_timer(1ms, a);
    const auto never = loop.start_timer(1ms, c);
    loop.start_timer(1ms, std::make_shared<told>()); // gone at once
    loop.start_timer(3ms, last);
    loop.cancel(never);
    loop.cancel(loop.no_timer());
    loop.run();
    BOOST_TEST(order == "ab");
}

BOOST_AUTO_TEST_CASE(a_loop_that_ends_lets_go_of_its_watchers)
{
    std::weak_ptr<told> watcher;
    pair ends;
    {
        net::event_loop loop;
        const auto who = std::make_shared<told>();
        watcher = who;
        BOOST_REQUIRE(loop.watch(ends.ours.get(), who, true));
        loop.call_again(who);
        loop.post([who] {});
    }
    BOOST_TEST(watcher.expired());
}
