#define BOOST_TEST_MODULE port_link
#include <boost/test/unit_test.hpp>

#include "link/port_link.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>

using namespace etls;
using namespace std::chrono_literals;
using link::port_link;

namespace {

/// A link whose VM is the test, at the other ends of two pipes.
struct wired {
    wired()
    {
        BOOST_REQUIRE(::pipe2(down.data(), O_CLOEXEC) == 0);
        BOOST_REQUIRE(::pipe2(up.data(), O_CLOEXEC) == 0);
        ::fcntl(down[0], F_SETFL, O_NONBLOCK);
        ::fcntl(up[0], F_SETFL, O_NONBLOCK);
        link.emplace(loop, down[0], up[1]);
        control = std::make_shared<control::controller>(commons, link->out());
        log::set_sink([this](log::level at, std::string line) { link->tell_log(at, std::move(line)); });
        link->run(control, [this](port_link::end why) {
            over = why;
            link->drain(100ms);
            loop.stop();
        });
    }
    ~wired()
    {
        log::set_sink([](log::level, const std::string&) {});
        threads.stop();
        ::close(down[1]);
        ::close(up[0]);
    }
    wired(const wired&) = delete;
    wired& operator=(const wired&) = delete;

    void vm_writes(const std::string& bytes)
    {
        BOOST_REQUIRE(::write(down[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    }

    std::string vm_reads()
    {
        std::string all(64 * 1024, '\0');
        const auto n = ::read(up[0], all.data(), all.size());
        all.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
        return all;
    }

    std::array<int, 2> down{};
    std::array<int, 2> up{};
    net::io_threads threads{1};
    boost::asio::io_context loop{1};
    control::commons commons{loop, threads};
    std::optional<port_link> link;
    std::shared_ptr<control::controller> control;
    std::optional<port_link::end> over;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_frame_over_the_limit_ends_the_link_and_the_vm_hears_why)
{
    wired it;
    it.vm_writes("\x7f\xff\xff\xff");
    it.loop.run_for(5s);
    BOOST_REQUIRE(it.over.has_value());
    BOOST_CHECK(*it.over == port_link::end::corrupt);
    BOOST_TEST(it.vm_reads().find("a frame of 2147483647 bytes") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_vm_that_is_gone_ends_the_link)
{
    wired it;
    it.vm_writes(std::string{"\0\0\0\x64", 4} + "half a frame");
    ::close(it.down[1]);
    it.down[1] = -1;
    it.loop.run_for(5s);
    BOOST_REQUIRE(it.over.has_value());
    BOOST_CHECK(*it.over == port_link::end::vm_gone);
    BOOST_TEST(it.vm_reads().empty());
}

BOOST_AUTO_TEST_CASE(a_vm_that_does_not_read_ends_the_link)
{
    wired it;
    const std::string id(200, 'x');
    // {request, Id, stats, []}: refused, with the Id in the answer, which is longer than the question.
    const std::string term = std::string{"\x83h\4w\7requestm\0\0\0\xc8", 17} + id + "w\5statsj";
    std::string frames;
    for (int i = 0; i < 200; ++i)
        frames += std::string{"\0\0", 2} + static_cast<char>(term.size() >> 8) + static_cast<char>(term.size()) + term;
    ::fcntl(it.down[1], F_SETFL, O_NONBLOCK);
    std::size_t at = 0;
    for (const auto until = std::chrono::steady_clock::now() + 60s;
         !it.over && std::chrono::steady_clock::now() < until;) {
        if (const auto n = ::write(it.down[1], frames.data() + at, frames.size() - at); n > 0)
            at = (at + static_cast<std::size_t>(n)) % frames.size();
        it.loop.restart();
        it.loop.poll();
    }
    BOOST_REQUIRE(it.over.has_value());
    BOOST_CHECK(*it.over == port_link::end::stalled);
}
