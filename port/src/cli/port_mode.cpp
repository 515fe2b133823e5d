#include "cli/port_mode.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "cli/open_trace.hpp"
#include "control/controller.hpp"
#include "link/port_link.hpp"
#include "net/io_threads.hpp"
#include "tls/library.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <utility>

namespace etls::cli {

namespace {

constexpr int failed_to_start = 3;
constexpr int link_broken = 4;

} // namespace

int run_port(const settings& wish)
{
    tls::start_library(); // before anything else of OpenSSL's
    // In this order, so that connections die before the loops they wait on.
    net::io_threads threads{wish.threads};
    boost::asio::io_context loop{1};
    auto trace = open_trace(wish, loop);
    if (const auto* wrong = std::get_if<std::string>(&trace)) {
        std::cerr << "etlsd: " << *wrong << std::endl;
        return failed_to_start;
    }
    control::commons commons{loop, threads};
    link::port_link link{loop, STDIN_FILENO, STDOUT_FILENO, std::move(std::get<link::tracer>(trace))};
    const auto controller = std::make_shared<control::controller>(commons, link.out());
    if (const auto wrong = commons.open()) {
        const auto* ec = std::get_if<boost::system::error_code>(&*wrong);
        std::cerr << "etlsd: no directory for the lane socket in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: "
                  << (ec != nullptr ? ec->message() : "?") << std::endl;
        return failed_to_start;
    }
    log::set_sink([&link](log::level at, std::string line) { link.tell_log(at, std::move(line)); });

    int status = 0;
    boost::asio::signal_set signals{loop, SIGTERM, SIGINT, SIGHUP};
    const auto stop = [&] {
        signals.cancel();
        commons.close();
        controller->stop([&] {
            link.drain(limits::stop_time);
            loop.stop();
        });
    };
    signals.async_wait([&](const boost::system::error_code& ec, int) {
        if (!ec)
            stop();
    });
    controller->on_stop_request(stop);
    link.run(controller, [&](link::port_link::end why) {
        status = why == link::port_link::end::vm_gone ? 0 : link_broken;
        if (why == link::port_link::end::stalled)
            std::cerr << "etlsd: the VM does not read its port, stopping" << std::endl; // the link cannot tell
        stop();
    });
    loop.run();
    threads.stop();
    log::set_sink([](log::level at, const std::string& line) {
        std::cerr << "etlsd " << log::name(at) << ": " << line << std::endl;
    });
    return status;
}

} // namespace etls::cli
