#define BOOST_TEST_MODULE controller
#include <boost/test/unit_test.hpp>

#include "control/controller.hpp"
#include "tls/authority.hpp"

#include <sys/socket.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace etls;
using namespace std::chrono_literals;
namespace commands = control::commands;
namespace replies = control::replies;

namespace {

/// Keeps every answer, by Id.
struct kept : control::outbox {
    void answer(const control::opaque& id, const control::reply& what) override { answers[id].push_back(what); }
    void tell_ended(const control::opaque&, const conn::end_of_data&) override {}
    std::span<std::byte> begin_data(std::uint64_t, std::size_t, const std::shared_ptr<lane::link_lane>&) override
    {
        return {};
    }
    void end_data(std::size_t) override {}
    void put_credit(std::uint64_t, std::size_t) override {}
    void put_eof(std::uint64_t) override {}
    void put_hangup(std::uint64_t) override {}

    std::map<std::string, std::vector<control::reply>> answers;
};

/// A controller that has been greeted, with one listener on the loopback.
struct served {
    served()
    {
        BOOST_REQUIRE(!commons.open());
        ask("hello", commands::hello{control::protocol_version});
        commands::listen wish;
        wish.address = net::address::ipv4({127, 0, 0, 1}, 0);
        test::certificate_wish own;
        own.name = "localhost";
        wish.tls.certfile = files.write("own.pem", test::issue(own));
        ask("listen", wish);
        const auto& made = std::get<replies::listening>(only("listen"));
        listener = made.listener;
        address = made.address;
    }
    ~served()
    {
        control->stop([&] { loop.stop(); });
        run(2s);
        threads.stop();
    }
    served(const served&) = delete;
    served& operator=(const served&) = delete;

    void ask(const std::string& id, control::command what) { control->handle({id, std::move(what)}); }

    void run(std::chrono::milliseconds most)
    {
        loop.restart();
        loop.run_for(most);
    }

    /// The one answer to `id`, waited for.
    const control::reply& only(const std::string& id)
    {
        for (int i = 0; i < 200 && out->answers[id].empty(); ++i)
            run(10ms);
        BOOST_REQUIRE_MESSAGE(out->answers[id].size() == 1, id << ": " << out->answers[id].size() << " answers");
        return out->answers[id].front();
    }

    net::unique_fd call()
    {
        net::unique_fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        BOOST_REQUIRE(::connect(fd.get(), address.native(), address.size()) == 0);
        return fd;
    }

    net::io_threads threads{1};
    boost::asio::io_context loop{1};
    control::commons commons{loop, threads};
    std::shared_ptr<kept> out = std::make_shared<kept>();
    std::shared_ptr<control::controller> control = std::make_shared<control::controller>(commons, out);
    test::scratch_directory files;
    control::listener_id listener = 0;
    net::address address;
};

bool is(const control::reply& what, const char* name)
{
    const auto* why = std::get_if<failure>(&what);
    const auto* named = why != nullptr ? std::get_if<named_error>(why) : nullptr;
    return named != nullptr && named->name == name;
}

bool is_done(const control::reply& what)
{
    return std::holds_alternative<replies::done>(what);
}

bool is_senseless(const control::reply& what)
{
    const auto* why = std::get_if<failure>(&what);
    return why != nullptr && std::holds_alternative<request_error>(*why);
}

} // namespace

BOOST_AUTO_TEST_CASE(whatever_is_asked_of_a_closing_connection_is_answered)
{
    for (const auto mode : {conn::flow::closing_mode::abort, conn::flow::closing_mode::graceful}) {
        served it;
        const auto peer = it.call();
        it.ask("accept", commands::accept{it.listener});
        const auto id = std::get<replies::opened>(it.only("accept")).connection;
        it.ask("close", commands::close{id, mode, 1000ms});
        it.ask("handshake", commands::handshake{id, "subject"});
        it.ask("close again", commands::close{id, mode, 1000ms});
        it.ask("set_options", commands::set_options{id, 0, {}});
        it.ask("get_options", commands::get_options{id, 0, {"nodelay"}});
        it.ask("info", commands::info{id});
        BOOST_TEST(is_done(it.only("close")));
        BOOST_TEST(is(it.only("handshake"), "closed"));
        BOOST_TEST(is_done(it.only("close again")));
        it.only("set_options");
        it.only("get_options");
        it.only("info");
    }
}

BOOST_AUTO_TEST_CASE(an_id_that_waits_is_not_taken_twice)
{
    served it;
    it.ask("first", commands::accept{it.listener});
    it.ask("first", commands::accept{it.listener});
    BOOST_TEST(is_senseless(it.only("first")));
    commands::connect wish;
    wish.host = it.address;
    it.out->answers.clear();
    it.ask("first", wish);
    BOOST_TEST(is_senseless(it.only("first")));
    it.out->answers.clear();
    it.ask("cancel", commands::cancel{"first"});
    BOOST_TEST(is_done(it.only("cancel")));
    BOOST_TEST(is(it.only("first"), "cancelled"));
}

BOOST_AUTO_TEST_CASE(a_listener_that_cannot_be_reloaded_does_not_keep_the_others_from_it)
{
    served it;
    test::certificate_wish own;
    own.name = "old";
    for (int i = 0; i < 3; ++i) {
        const auto name = "listen " + std::to_string(i);
        commands::listen wish;
        wish.address = net::address::ipv4({127, 0, 0, 1}, 0);
        wish.tls.certfile = it.files.write(name, test::issue(own));
        it.ask(name, wish);
        BOOST_REQUIRE(std::holds_alternative<replies::listening>(it.only(name)));
    }
    it.files.write("listen 1", "no certificate");
    it.ask("reload", commands::reload{});
    const auto* why = std::get_if<failure>(&it.only("reload"));
    BOOST_REQUIRE(why != nullptr);
    BOOST_TEST(std::get<option_error>(*why).detail == it.files.path("listen 1"));
    it.ask("stats", commands::stats{});
    // The first listener's, and two of these three: all read anew.
    BOOST_TEST(std::get<replies::stats>(it.only("stats")).contexts == 3u);
}

BOOST_AUTO_TEST_CASE(cancelling_what_is_not_there_is_done)
{
    served it;
    it.ask("cancel", commands::cancel{"nothing"});
    BOOST_TEST(is_done(it.only("cancel")));
}
