#include "net/sockets.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace etls::net {

namespace {

/// listen(2)'s queue where its user names none, as gen_tcp has it.
constexpr int default_backlog = 5;

int domain_of(family kind) noexcept
{
    switch (kind) {
    case family::inet:
        return AF_INET;
    case family::inet6:
        return AF_INET6;
    case family::local:
        break;
    }
    return AF_UNIX;
}

} // namespace

boost::system::error_code last_error() noexcept
{
    return {errno, boost::system::system_category()};
}

bool would_block(const boost::system::error_code& ec) noexcept
{
    return ec.value() == EAGAIN || ec.value() == EWOULDBLOCK || ec.value() == EINTR;
}

result<unique_fd> open_stream(family kind, const tcp_options& options, const address* from)
{
    unique_fd fd{::socket(domain_of(kind), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (!fd)
        return failure{last_error()};
    if (const auto ec = apply(fd.get(), kind, options))
        return failure{ec};
    if (from != nullptr && ::bind(fd.get(), from->native(), from->size()) != 0)
        return failure{last_error()};
    return fd;
}

result<unique_fd> open_listener(const address& at, const tcp_options& options)
{
    auto fd = open_stream(at.kind(), options, &at);
    if (!fd)
        return fd;
    if (::listen(fd->get(), options.backlog.value_or(default_backlog)) != 0)
        return failure{last_error()};
    return fd;
}

result<std::pair<unique_fd, unique_fd>> open_pair()
{
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
        return failure{last_error()};
    return std::pair{unique_fd{ends[0]}, unique_fd{ends[1]}};
}

result<unique_fd> accept_from(int listener)
{
    for (;;) {
        unique_fd fd{::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
        if (fd)
            return fd;
        // A peer that gave up in the queue is no fault of the listener (accept(2)).
        if (errno == ECONNABORTED || errno == EPROTO || errno == EINTR)
            continue;
        return failure{last_error()};
    }
}

} // namespace etls::net
