#include "cli/standalone.hpp"

#include "base/limits.hpp"
#include "base/posix.hpp"
#include "conn/connection.hpp"
#include "net/connector.hpp"
#include "net/io_threads.hpp"
#include "net/sockets.hpp"
#include "tls/alert.hpp"
#include "tls/context.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace etls::cli {

namespace asio = boost::asio;

namespace {

constexpr int failed_to_start = 3;
constexpr int connection_failed = 1;
constexpr std::size_t copy_bytes = 64 * 1024;

std::string text_of(const failure& why)
{
    struct writer {
        std::string operator()(const boost::system::error_code& ec) const { return ec.message(); }
        std::string operator()(const option_error& at) const
        {
            return at.option + ": " + at.kind + (at.detail.empty() ? "" : " (" + at.detail + ")");
        }
        std::string operator()(const alert_error& at) const
        {
            return at.text.empty() ? std::string{tls::alert_name(at.description)} : at.text;
        }
        std::string operator()(const named_error& at) const { return at.name; }
        std::string operator()(const request_error& at) const { return at.text; }
    };
    return std::visit(writer{}, why);
}

int complain(const failure& why)
{
    std::cerr << "etlsd: " << text_of(why) << std::endl;
    return failed_to_start;
}

/// Of the address on the command line.
int complain(const settings& wish, const failure& why, int status)
{
    const bool v6 = wish.host.find(':') != std::string::npos;
    std::cerr << "etlsd: " << (v6 ? "[" + wish.host + "]" : wish.host) << ':' << wish.port << ": " << text_of(why)
              << std::endl;
    return status;
}

tls::context_options context_options(const settings& wish)
{
    tls::context_options out;
    out.certfile = wish.cert;
    out.keyfile = wish.key;
    out.cacertfile = wish.cacert;
    out.verify_peer = wish.verify;
    out.fail_if_no_peer_cert = wish.verify;
    return out;
}

std::string summary(const tls::handshake_info& info)
{
    return info.version + ' ' + info.cipher + (info.alpn ? ", ALPN " + *info.alpn : "") +
           (info.server_name ? ", SNI " + *info.server_name : "") +
           (info.peer_chain.empty() ? "" : ", peer certificate");
}

result<std::vector<net::address>> addresses(const settings& wish)
{
    const auto port = static_cast<std::uint16_t>(std::stoul(wish.port));
    if (const auto literal = net::address::parse_ip(wish.host, port))
        return std::vector{*literal};
    return net::resolve(wish.host, port, std::nullopt);
}

/// The two ends of a lane: the daemon's, and ours in the VM's stead.
result<std::pair<net::unique_fd, net::unique_fd>> make_lane(bool blocking)
{
    auto ends = net::open_pair();
    if (blocking && ends) {
        // Only the far end: file status flags belong to each end.
        const int off = 0;
        ::ioctl(ends->second.get(), FIONBIO, &off);
    }
    return ends;
}

/// Sends back what the lane brings, to its end.
asio::awaitable<void> echo(net::unique_fd fd)
{
    asio::posix::stream_descriptor lane{co_await asio::this_coro::executor, fd.release()};
    std::array<char, copy_bytes> buffer;
    for (;;) {
        const auto [ec, n] = co_await lane.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
        if (ec)
            co_return; // closing the lane lets the connection say close_notify
        const auto [broken, _] =
            co_await asio::async_write(lane, asio::buffer(buffer.data(), n), asio::as_tuple(asio::use_awaitable));
        if (broken)
            co_return;
    }
}

/// Says on the log what becomes of the connections of the echo server.
class teller : public conn::observer {
public:
    void handshake_over(conn::connection_id id, result<tls::handshake_info> outcome) override
    {
        if (outcome)
            log::notice("connection ", id, ": ", summary(*outcome));
        else
            log::notice("connection ", id, ": handshake failed: ", text_of(outcome.error()));
    }
    void ended(conn::connection_id id, conn::end_of_data how) override
    {
        log::notice("connection ", id, ": ended: ",
                    how.why                                      ? text_of(*how.why)
                    : how.how == conn::flow::peer_end::truncated ? "no close_notify"
                                                                 : "close_notify");
    }
    void closed(conn::connection_id) override {}
    void gone(conn::connection_id id) override { log::info("connection ", id, ": gone"); }
};

asio::awaitable<void> serve(net::unique_fd listener, std::shared_ptr<const tls::context> context,
                            net::io_threads& threads, std::shared_ptr<teller> who)
{
    asio::posix::stream_descriptor socket{co_await asio::this_coro::executor, listener.release()};
    asio::steady_timer pause{co_await asio::this_coro::executor};
    conn::connection_id last = 0;
    for (;;) {
        const auto [ec] =
            co_await socket.async_wait(asio::posix::stream_descriptor::wait_read, asio::as_tuple(asio::use_awaitable));
        if (ec)
            co_return;
        auto fd = net::accept_from(socket.native_handle());
        auto lane = fd ? make_lane(false) : result<std::pair<net::unique_fd, net::unique_fd>>{fd.error()};
        if (!lane) {
            const auto* code = std::get_if<boost::system::error_code>(&lane.error());
            if (code != nullptr && net::would_block(*code))
                continue;
            log::warning("accept: ", text_of(lane.error()));
            pause.expires_after(limits::accept_pause);
            co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
            continue;
        }
        const auto made = std::make_shared<conn::connection>(++last, threads.pick(), std::move(*fd), context,
                                                             tls::session_options{}, who);
        log::notice("connection ", last, ": from ", made->peer().text());
        made->attach_lane(std::move(lane->first));
        made->ask_handshake();
        asio::co_spawn(co_await asio::this_coro::executor, echo(std::move(lane->second)), asio::detached);
    }
}

/// What the client's main thread waits for.
class client_observer : public conn::observer {
public:
    void handshake_over(conn::connection_id, result<tls::handshake_info> outcome) override
    {
        shaken_.set_value(std::move(outcome));
    }
    void ended(conn::connection_id, conn::end_of_data how) override
    {
        const std::lock_guard lock{mutex_};
        how_ = std::move(how);
    }
    void closed(conn::connection_id) override {}
    void gone(conn::connection_id) override { gone_.set_value(); }

    [[nodiscard]] result<tls::handshake_info> handshake() { return shaken_.get_future().get(); }
    void wait_gone() { gone_.get_future().wait(); }
    [[nodiscard]] conn::end_of_data how()
    {
        const std::lock_guard lock{mutex_};
        return how_;
    }

private:
    std::promise<result<tls::handshake_info>> shaken_;
    std::promise<void> gone_;
    std::mutex mutex_;
    conn::end_of_data how_;
};

bool write_all(int fd, const char* data, std::size_t size)
{
    while (size != 0) {
        const auto n = ::write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        size -= static_cast<std::size_t>(n);
    }
    return true;
}

/// From `from` to `to`, until one of them ends, or until `stop` becomes readable.
void copy(int from, int to, int stop)
{
    std::array<char, copy_bytes> buffer;
    for (;;) {
        std::array<pollfd, 2> wait{pollfd{from, POLLIN, 0}, pollfd{stop, POLLIN, 0}};
        if (::poll(wait.data(), stop < 0 ? 1 : 2, -1) < 0 && errno != EINTR)
            return;
        if (stop >= 0 && wait[1].revents != 0)
            return;
        const auto n = ::read(from, buffer.data(), buffer.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0 || !write_all(to, buffer.data(), static_cast<std::size_t>(n)))
            return;
    }
}

asio::awaitable<void> connect_into(result<net::unique_fd>& out, net::address to)
{
    out = co_await net::connect_to(std::make_shared<net::connect_attempt>(), to, {.nodelay = true}, std::nullopt);
}

result<net::unique_fd> connect_first(const std::vector<net::address>& candidates)
{
    asio::io_context context;
    result<net::unique_fd> last{failure{named_error{"nxdomain"}}};
    for (const auto& to : candidates) {
        asio::co_spawn(context, connect_into(last, to), [](const std::exception_ptr& thrown) {
            if (thrown)
                std::rethrow_exception(thrown);
        });
        context.restart();
        context.run();
        if (last)
            break;
    }
    return last;
}

} // namespace

int run_echo_server(const settings& wish)
{
    auto context = tls::context::make(tls::role::server, context_options(wish));
    if (!context)
        return complain(context.error());
    const auto at = addresses(wish);
    if (!at)
        return complain(wish, at.error(), failed_to_start);
    auto listener = net::open_listener(at.value().front(), {.nodelay = true, .reuseaddr = true, .backlog = SOMAXCONN});
    if (!listener)
        return complain(wish, listener.error(), failed_to_start);
    std::cout << "listening on " << net::local_name(listener->get()).text() << std::endl;

    net::io_threads threads{wish.threads};
    asio::io_context loop{1};
    asio::signal_set signals{loop, SIGINT, SIGTERM, SIGHUP};
    signals.async_wait([&](const boost::system::error_code&, int) { loop.stop(); });
    const auto who = std::make_shared<teller>();
    asio::co_spawn(loop, serve(std::move(*listener), *context, threads, who), asio::detached);
    loop.run();
    threads.stop();
    return 0;
}

int run_client(const settings& wish)
{
    auto context = tls::context::make(tls::role::client, context_options(wish));
    if (!context)
        return complain(context.error());
    const auto at = addresses(wish);
    if (!at)
        return complain(wish, at.error(), connection_failed);
    auto tcp = connect_first(at.value());
    if (!tcp)
        return complain(wish, tcp.error(), connection_failed);
    auto lane = make_lane(true);
    auto ended = make_lane(true);
    if (!lane || !ended)
        return complain(!lane ? lane.error() : ended.error());

    const auto name = wish.server_name.value_or(wish.host);
    const bool is_name = !net::address::parse_ip(name, 0);
    net::io_threads threads{wish.threads == 0 ? 1 : wish.threads};
    const auto who = std::make_shared<client_observer>();
    const auto made = std::make_shared<conn::connection>(
        conn::connection_id{1}, threads.pick(), std::move(*tcp), *context,
        tls::session_options{.server_name = is_name ? std::optional{name} : std::nullopt, .hostname = name}, who);
    made->attach_lane(std::move(lane->first));
    made->ask_handshake();
    const auto outcome = who->handshake();
    if (!outcome) {
        threads.stop();
        std::cerr << "etlsd: handshake failed: " << text_of(outcome.error()) << std::endl;
        return connection_failed;
    }
    log::notice("connected to ", made->peer().text(), ": ", summary(outcome.value()));

    const int ours = lane->second.get();
    std::thread upward{[&] {
        copy(STDIN_FILENO, ours, ended->second.get());
        ::shutdown(ours, SHUT_WR);
    }};
    copy(ours, STDOUT_FILENO, -1);
    ended->first.reset(); // the peer has ended: nobody waits for more standard input
    upward.join();
    lane->second.reset();
    who->wait_gone();
    threads.stop();
    const auto how = who->how();
    if (how.why) {
        std::cerr << "etlsd: " << text_of(*how.why) << std::endl;
        return connection_failed;
    }
    if (how.how == conn::flow::peer_end::truncated)
        log::warning("the peer closed without close_notify");
    return 0;
}

} // namespace etls::cli
