#include "lane/local_lane.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "lane/leftovers.hpp"
#include "net/readiness.hpp"
#include "net/sockets.hpp"

#include <boost/asio/steady_timer.hpp>

#include <openssl/rand.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace etls::lane {

namespace {

/// Where the lane directory may stand, best first. sun_path holds 107 bytes; a longer TMPDIR would make every lane fail.
std::vector<std::string> base_directories()
{
    constexpr std::size_t longest = 70;
    std::vector<std::string> out;
    for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
        const char* value = std::getenv(name);
        if (value != nullptr && *value == '/' && std::string_view{value}.size() <= longest)
            out.emplace_back(value);
    }
    out.emplace_back("/tmp");
    return out;
}

bool trusted(int fd)
{
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        return false;
    return who.uid == ::geteuid() || who.uid == 0;
}

/// A lane that has connected and not yet shown its whole token.
class newcomer : public std::enable_shared_from_this<newcomer> {
public:
    newcomer(boost::asio::io_context& context, net::unique_fd fd, std::shared_ptr<std::size_t> count)
        : lane_{context, std::move(fd)}, timer_{context}, count_{std::move(count)}
    {
        ++*count_;
    }
    ~newcomer() { --*count_; }

    void begin(std::shared_ptr<local_lane_acceptor::arrival> tell)
    {
        tell_ = std::move(tell);
        read(); // the token mostly came with the connection
        if (!lane_.is_open())
            return;
        timer_.expires_after(limits::lane_attach_time);
        timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
            if (!ec)
                self->give_up("showed no token in time");
        });
    }

private:
    void read()
    {
        const auto n = ::recv(lane_.fd(), shown_.data() + have_, shown_.size() - have_, 0);
        if (n == 0)
            return give_up("closed without a token");
        if (n < 0 && !net::would_block(net::last_error()))
            return give_up("failed");
        have_ += n > 0 ? static_cast<std::size_t>(n) : 0;
        if (have_ < shown_.size())
            return lane_.on_readable([self = shared_from_this()] { self->read(); });
        timer_.cancel();
        (*tell_)(shown_, net::unique_fd{lane_.release()});
    }

    void give_up(const char* why)
    {
        log::debug("lane: a connection ", why);
        timer_.cancel();
        lane_.close();
    }

    net::readiness lane_;
    boost::asio::steady_timer timer_;
    std::shared_ptr<std::size_t> count_;
    std::shared_ptr<local_lane_acceptor::arrival> tell_;
    token shown_{};
    std::size_t have_ = 0;
};

} // namespace

token make_token()
{
    token out;
    if (::RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) != 1)
        throw std::runtime_error{"no random bytes"};
    return out;
}

/// Outlives the acceptor object while a handler runs.
struct local_lane_acceptor::state : std::enable_shared_from_this<state> {
    state(boost::asio::io_context& where, net::unique_fd fd, arrival what)
        : context{where},
          listener{where, std::move(fd)},
          pause{where},
          tell{std::make_shared<arrival>(std::move(what))},
          unproven{std::make_shared<std::size_t>(0)}
    {
    }

    void wait()
    {
        listener.on_readable([self = shared_from_this()] { self->accept_all(); });
    }

    void accept_all()
    {
        while (listener.is_open()) {
            auto fd = net::accept_from(listener.fd());
            if (!fd) {
                const auto ec = std::get<boost::system::error_code>(fd.error());
                if (net::would_block(ec))
                    return wait();
                log::warning("lane: accept: ", ec.message());
                pause.expires_after(limits::accept_pause);
                pause.async_wait([self = shared_from_this()](const boost::system::error_code& stopped) {
                    if (!stopped)
                        self->accept_all();
                });
                return;
            }
            if (!trusted(fd->get()) || *unproven >= limits::lanes_unproven) {
                log::warning("lane: refused a connection of another user, or one too many");
                continue;
            }
            std::make_shared<newcomer>(context, std::move(*fd), unproven)->begin(tell);
        }
    }

    boost::asio::io_context& context;
    net::readiness listener;
    boost::asio::steady_timer pause;
    std::shared_ptr<arrival> tell;
    std::shared_ptr<std::size_t> unproven;
};

result<std::unique_ptr<local_lane_acceptor>> local_lane_acceptor::open(boost::asio::io_context& context, arrival tell)
{
    std::string directory;
    for (const auto& base : base_directories()) {
        if (const int removed = remove_leftovers(base); removed != 0)
            log::info("lane: removed the directories of ", removed, " daemons that died");
        directory = base + '/' + std::string{directory_prefix} + "XXXXXX";
        if (::mkdtemp(directory.data()) != nullptr) // 0700
            break;
        directory.clear();
    }
    if (directory.empty())
        return failure{net::last_error()};
    std::string path = directory + '/' + std::string{socket_name};
    auto at = net::address::local(path);
    if (!at)
        return failure{at.error()};
    auto fd = net::open_listener(*at, {.backlog = limits::lane_backlog});
    if (!fd) {
        ::rmdir(directory.c_str());
        return failure{fd.error()};
    }
    auto inner = std::make_shared<state>(context, std::move(*fd), std::move(tell));
    inner->wait();
    return std::make_unique<local_lane_acceptor>(std::move(directory), std::move(path), std::move(inner));
}

local_lane_acceptor::local_lane_acceptor(std::string directory, std::string path, std::shared_ptr<state> inner)
    : directory_{std::move(directory)}, path_{std::move(path)}, state_{std::move(inner)}
{
}

local_lane_acceptor::~local_lane_acceptor()
{
    close();
    ::unlink(path_.c_str());
    ::rmdir(directory_.c_str());
}

void local_lane_acceptor::close()
{
    state_->pause.cancel();
    state_->listener.close();
}

} // namespace etls::lane
