#include "cli/cnode_mode.hpp"

#include "base/log.hpp"
#include "cli/bounded_stderr.hpp"
#include "cli/cookie.hpp"
#include "cli/open_trace.hpp"
#include "control/commons.hpp"
#include "link/cnode_server.hpp"
#include "net/io_threads.hpp"
#include "tls/library.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>

#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <iostream>
#include <utility>

namespace etls::cli {

namespace asio = boost::asio;

namespace {

constexpr int bad_command_line = 2;
constexpr int failed_to_start = 3;

net::address loopback(std::uint16_t port)
{
    return net::address::ipv4({127, 0, 0, 1}, port);
}

/// Loopback, unless told otherwise. A host's name may stand for another address of it than 127.0.0.1 (Debian gives it
/// 127.0.1.1), and that is where nodes will look.
net::address where_to_listen(const settings& wish)
{
    constexpr std::uint8_t loopback_net = 127;
    auto found = net::resolve(wish.host, wish.dist_port, net::family::inet);
    const auto at = found && !found->empty() ? found->front() : loopback(wish.dist_port);
    if (at.v4()[0] == loopback_net)
        return at;
    log::notice("nodes will look for ", wish.host, " at ", at.text(),
                ", but this one listens on the loopback only (see --listen-address)");
    return loopback(wish.dist_port);
}

/// Standard input, read to its end.
class input_watch {
public:
    input_watch(asio::io_context& context, std::function<void()> at_end)
        : in_{context, ::dup(STDIN_FILENO)}, at_end_{std::move(at_end)}
    {
        read();
    }
    void close()
    {
        boost::system::error_code ignored;
        in_.close(ignored);
    }

private:
    void read()
    {
        in_.async_read_some(asio::buffer(dropped_), [this](const boost::system::error_code& ec, std::size_t) {
            if (!ec)
                read();
            else if (ec != asio::error::operation_aborted)
                at_end_();
        });
    }

    asio::posix::stream_descriptor in_;
    std::function<void()> at_end_;
    std::array<char, 64> dropped_{};
};

} // namespace

int run_cnode(const settings& wish)
{
    auto cookie = read_cookie(wish.cookie_file);
    if (const auto* none = std::get_if<no_cookie>(&cookie)) {
        std::cerr << "etlsd: " << none->why << std::endl;
        return bad_command_line;
    }
    const auto given =
        wish.listen_address ? net::address::parse_ip(*wish.listen_address, wish.dist_port) : std::nullopt;
    if (wish.listen_address && !given) {
        std::cerr << "etlsd: --listen-address: an IP address" << std::endl;
        return bad_command_line;
    }
    log::set_sink(bounded_stderr());
    tls::start_library(); // before anything else of OpenSSL's
    // In this order, so that connections die before the loops they wait on.
    net::io_threads threads{wish.threads};
    asio::io_context loop{1};
    auto trace = open_trace(wish, loop);
    if (const auto* wrong = std::get_if<std::string>(&trace)) {
        std::cerr << "etlsd: " << *wrong << std::endl;
        return failed_to_start;
    }
    control::commons commons{loop, threads};
    if (const auto wrong = commons.open()) {
        const auto* ec = std::get_if<boost::system::error_code>(&*wrong);
        std::cerr << "etlsd: no directory for the lane socket in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: "
                  << (ec != nullptr ? ec->message() : "?") << std::endl;
        return failed_to_start;
    }
    link::cnode_server server{commons,
                              {.name = wish.node,
                               .host = wish.host,
                               .cookie = std::move(std::get<std::string>(cookie)),
                               .listen = given ? *given : where_to_listen(wish),
                               .epmd = wish.epmd,
                               .ticktime = std::chrono::seconds{wish.ticktime_s}},
                              std::move(std::get<link::tracer>(trace))};
    if (const auto wrong = server.start()) {
        std::cerr << "etlsd: " << *wrong << std::endl;
        return failed_to_start;
    }
    asio::signal_set signals{loop, SIGTERM, SIGINT, SIGHUP};
    std::optional<input_watch> input;
    const auto stop = [&] {
        signals.cancel();
        if (input)
            input->close();
        commons.close();
        server.stop([&] { loop.stop(); });
    };
    signals.async_wait([&](const boost::system::error_code& ec, int) {
        if (!ec)
            stop();
    });
    if (wish.until_eof) {
        // A VM's own child: its VM's `stop` is the daemon's end, as on a port.
        input.emplace(loop, stop);
        server.on_stop_request(stop);
    }
    log::notice("node ", wish.node, '@', wish.host, " listens on ", server.address().text());
    loop.run();
    threads.stop();
    if (!server.handshakes_are_over()) {
        // Somebody dawdles in ei, which cannot be interrupted; all that was ours to end has ended.
        commons.leave();
        ::_exit(0);
    }
    return 0;
}

} // namespace etls::cli
