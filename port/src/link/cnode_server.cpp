#include "link/cnode_server.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "link/term_writer.hpp"
#include "net/sockets.hpp"

#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

extern char** environ; // NOLINT: POSIX has it so

namespace etls::link {

namespace asio = boost::asio;

namespace {

constexpr unsigned timeout_ms(std::chrono::milliseconds time)
{
    return static_cast<unsigned>(time.count());
}

/// As net_kernel has them. The name goes into atoms, and a peer may call itself anything.
bool is_node_name(std::string_view name)
{
    const auto at = name.find('@');
    const auto visible = [](char each) { return each > ' ' && each <= '~'; };
    return at != std::string_view::npos && at > 0 && at + 1 < name.size() &&
           name.find('@', at + 1) == std::string_view::npos && std::all_of(name.begin(), name.end(), visible);
}

unsigned any_creation()
{
    constexpr unsigned least = 4; // smaller ones are those of old nodes
    return std::random_device{}() | least;
}

/// ei has one error for a refused connection and a refused name.
bool is_epmd_there()
{
    constexpr std::uint16_t usual_port = 4369;
    const char* given = std::getenv("ERL_EPMD_PORT");
    const int port = given != nullptr ? std::atoi(given) : usual_port;
    const auto at = net::address::ipv4({127, 0, 0, 1}, static_cast<std::uint16_t>(port));
    const net::unique_fd probe{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    return ::connect(probe.get(), at.native(), at.size()) == 0;
}

/// As erl does it: epmd puts itself into the background.
bool start_epmd()
{
    std::array<char*, 3> arguments{const_cast<char*>("epmd"), const_cast<char*>("-daemon"), nullptr};
    pid_t child = 0;
    if (::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0)
        return false;
    int status = 0;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

} // namespace

cnode_server::cnode_server(control::commons& commons, cnode_settings settings, tracer trace)
    : commons_{commons},
      settings_{std::move(settings)},
      trace_{std::move(trace)},
      wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
      epmd_timer_{commons.context},
      started_{std::chrono::steady_clock::now()},
      helpers_{limits::handshake_threads + 1} // and one that registers again
{
}

cnode_server::~cnode_server()
{
    end_handshakes();
    helpers_.join();
}

/// Threads that wait for a node end at once, also those that wait inside of ei, whose accept fails then.
void cnode_server::end_handshakes()
{
    stopping_ = true;
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake_.get(), &one, sizeof one));
    if (listener_)
        ::shutdown(listener_.get(), SHUT_RDWR);
}

std::optional<std::string> cnode_server::start()
{
    in_addr unused{};
    const auto full = settings_.name + '@' + settings_.host;
    ei_init();
    if (ei_connect_xinit(&node_, settings_.host.c_str(), settings_.name.c_str(), full.c_str(), &unused,
                         settings_.cookie.c_str(), any_creation()) < 0)
        return "cannot be a node called " + full + ": " + std::strerror(erl_errno);
    erlang_pid pid{};
    ei_make_pid(&node_, &pid);
    constexpr std::size_t version_byte = 1;
    commons_.self = term_writer{}.pid(pid).bytes().substr(version_byte);

    auto made = net::open_listener(settings_.listen, {.reuseaddr = true, .backlog = limits::node_backlog});
    if (!made)
        return "cannot listen on " + settings_.listen.text() + ": " +
               std::get<boost::system::error_code>(made.error()).message();
    listener_ = std::move(*made);
    if (settings_.epmd) {
        if (auto wrong = publish())
            return wrong;
    }
    for (std::size_t i = 0; i < limits::handshake_threads; ++i)
        asio::post(helpers_, [this] { take_handshakes(); });
    return std::nullopt;
}

// ---- epmd

std::optional<std::string> cnode_server::publish()
{
    const int port = address().port();
    int fd = ei_publish_tmo(&node_, port, timeout_ms(limits::epmd_time));
    if (fd < 0 && !is_epmd_there() && start_epmd()) {
        log::info("started epmd");
        for (int tries = limits::epmd_tries; fd < 0 && tries > 0; --tries) {
            fd = ei_publish_tmo(&node_, port, timeout_ms(limits::epmd_time));
            if (fd < 0)
                std::this_thread::sleep_for(limits::epmd_pause); // nothing tells that it is there
        }
    }
    if (fd < 0)
        return "epmd does not register " + settings_.name + ": " +
               (is_epmd_there() ? "the name is taken" : "it cannot be reached") +
               " (epmd must run on this host, or see --no-epmd)";
    watch_epmd(fd);
    return std::nullopt;
}

/// We are registered as long as this connection is there. Readable it is at first, too: ei reads less of the answer than
/// today's epmd sends.
void cnode_server::watch_epmd(int fd)
{
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    epmd_ = std::make_shared<net::readiness>(commons_.context, net::unique_fd{fd});
    epmd_->on_readable([this, keep = epmd_] { on_epmd(); });
}

void cnode_server::on_epmd()
{
    if (stopping_)
        return;
    std::array<char, 16> dropped{};
    const auto n = ::recv(epmd_->fd(), dropped.data(), dropped.size(), MSG_DONTWAIT);
    if (n > 0 || (n < 0 && net::would_block(net::last_error())))
        return epmd_->on_readable([this, keep = epmd_] { on_epmd(); });
    log::warning("epmd has gone; registering again when it is back");
    epmd_->close();
    publish_again();
}

void cnode_server::publish_again()
{
    asio::post(helpers_, [this, port = address().port()] {
        const int fd = ei_publish_tmo(&node_, port, timeout_ms(limits::epmd_time));
        asio::post(commons_.context, [this, fd] {
            if (stopping_) {
                const net::unique_fd dropped{fd};
                return;
            }
            if (fd >= 0) {
                log::notice("registered with epmd again");
                return watch_epmd(fd);
            }
            epmd_timer_.expires_after(limits::epmd_retry);
            epmd_timer_.async_wait([this](const boost::system::error_code& ec) {
                if (!ec)
                    publish_again();
            });
        });
    });
}

// ---- handshakes, on threads of their own

void cnode_server::take_handshakes()
{
    auto own = node_; // ei writes into it
    while (!stopping_) {
        std::array<pollfd, 2> wait{pollfd{listener_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
        if (::poll(wait.data(), wait.size(), -1) < 0 || (wait[1].revents & POLLIN) != 0)
            continue;
        ErlConnect peer{};
        ++handshaking_;
        const int fd = ei_accept_tmo(&own, listener_.get(), &peer, timeout_ms(limits::node_handshake_time));
        const int why = erl_errno;
        --handshaking_;
        if (fd < 0) {
            if (stopping_)
                return;
            if (why == EAGAIN)
                continue;
            if (why == ETIMEDOUT) {
                // ei waits by itself where another thread was faster, and does not tell that from a node that dawdled.
                log::debug("no node has connected in time");
                continue;
            }
            log::warning("a node could not connect: not an Erlang node, or one with another cookie (",
                         std::strerror(why), ")");
            if (why == EMFILE || why == ENFILE || why == ENOMEM || why == ENOBUFS)
                ::poll(&wait[1], 1, static_cast<int>(limits::accept_pause.count()));
            continue;
        }
        net::unique_fd ours{::fcntl(fd, F_DUPFD_CLOEXEC, 0)};
        ei_close_connection(fd);
        if (!ours || !is_node_name(peer.nodename)) {
            log::warning("a node could not connect: ", !ours ? "no descriptors are left" : "its name is no node's");
            ::poll(&wait[1], 1, static_cast<int>(limits::accept_pause.count()));
            continue;
        }
        ::fcntl(ours.get(), F_SETFL, ::fcntl(ours.get(), F_GETFL) | O_NONBLOCK);
        asio::post(commons_.context, [this, node = std::string{peer.nodename},
                                      socket = std::make_shared<net::unique_fd>(std::move(ours))] {
            connected(std::move(*socket), node);
        });
    }
}

bool cnode_server::handshakes_are_over() const
{
    for (auto left = limits::handshakes_end_time; handshaking_ != 0; left -= limits::epmd_pause) {
        if (left <= std::chrono::milliseconds{0})
            return false;
        std::this_thread::sleep_for(limits::epmd_pause);
    }
    return true;
}

void cnode_server::connected(net::unique_fd fd, const std::string& node)
{
    if (stopping_)
        return;
    if (const auto at = links_.find(node); at != links_.end()) {
        // One that was killed and is back before the kernel told us; a node has one connection only.
        const auto old = std::move(at->second);
        links_.erase(at);
        old->drop("has connected anew");
    }
    net::apply(fd.get(), net::local_name(fd.get()).kind(), {.nodelay = true, .keepalive = true});
    const auto on_operator = [this](cnode_link& from, std::string_view term) {
        const auto answer = answer_operator(term, now());
        from.send(answer.pid, answer.term);
    };
    const auto on_session_end = [this](const control::replies::stats& done) {
        ++ending_sessions_;
        ended_.accepted += done.accepted;
        ended_.connected += done.connected;
        ended_.handshakes += done.handshakes;
        ended_.handshake_failures += done.handshake_failures;
    };
    const auto on_session_over = [this] {
        --ending_sessions_;
        finish_stop();
    };
    const auto made =
        std::make_shared<cnode_link>(cnode_link::surroundings{commons_, settings_.ticktime, trace_, on_operator,
                                                              stop_requested_, on_session_end, on_session_over},
                                     std::move(fd), node);
    log::info("node ", node, ": connected");
    links_[node] = made;
    made->run([this, node, which = made.get()] {
        if (const auto at = links_.find(node); at != links_.end() && at->second.get() == which)
            links_.erase(at);
    });
}

overview cnode_server::now() const
{
    overview out;
    for (const auto& [node, each] : links_)
        out.vms.push_back({node, each->controller()});
    out.ended = ended_;
    out.uptime_s = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - started_).count());
    out.threads = commons_.threads.size();
    return out;
}

void cnode_server::stop(std::function<void()> done)
{
    if (stopping_)
        return;
    end_handshakes();
    epmd_timer_.cancel();
    if (epmd_)
        epmd_->close(); // the name is free
    stopped_ = std::move(done);
    stopping_links_ = links_.size();
    const auto until = std::chrono::steady_clock::now() + limits::stop_time;
    for (const auto& [_, each] : std::map{links_}) // each leaves the map as it ends
        each->stop(until, [this] {
            --stopping_links_;
            finish_stop();
        });
    finish_stop();
}

/// Once every node has gone, and the connections of those that went before have said goodbye.
void cnode_server::finish_stop()
{
    if (stopping_links_ == 0 && ending_sessions_ == 0 && stopped_)
        asio::post(commons_.context, std::exchange(stopped_, nullptr));
}

} // namespace etls::link
