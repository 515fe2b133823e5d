#include "net/tcp_options.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

namespace etls::net {

namespace {

template <class Value>
boost::system::error_code set(int fd, int level, int name, const Value& value)
{
    if (::setsockopt(fd, level, name, &value, sizeof value) == 0)
        return {};
    return {errno, boost::system::system_category()};
}

template <class Value>
std::optional<Value> get(int fd, int level, int name)
{
    Value value{};
    socklen_t size = sizeof value;
    if (::getsockopt(fd, level, name, &value, &size) != 0)
        return std::nullopt;
    return value;
}

std::optional<bool> get_flag(int fd, int level, int name)
{
    const auto value = get<int>(fd, level, name);
    return value ? std::optional{*value != 0} : std::nullopt;
}

} // namespace

boost::system::error_code apply(int fd, family kind, const tcp_options& options)
{
    boost::system::error_code ec;
    const auto flag = [&](int level, int name, const std::optional<bool>& value) {
        if (!ec && value)
            ec = set(fd, level, name, static_cast<int>(*value));
    };
    const auto number = [&](int level, int name, const std::optional<int>& value) {
        if (!ec && value)
            ec = set(fd, level, name, *value);
    };
    flag(SOL_SOCKET, SO_REUSEADDR, options.reuseaddr);
    flag(SOL_SOCKET, SO_KEEPALIVE, options.keepalive);
    number(SOL_SOCKET, SO_SNDBUF, options.sndbuf);
    number(SOL_SOCKET, SO_RCVBUF, options.recbuf);
    if (!ec && options.linger)
        ec = set(fd, SOL_SOCKET, SO_LINGER, ::linger{options.linger->first ? 1 : 0, options.linger->second});
    if (kind != family::local)
        flag(IPPROTO_TCP, TCP_NODELAY, options.nodelay);
    if (kind == family::inet6)
        flag(IPPROTO_IPV6, IPV6_V6ONLY, options.ipv6_v6only);
    return ec;
}

tcp_options read_options(int fd, family kind)
{
    tcp_options out;
    out.reuseaddr = get_flag(fd, SOL_SOCKET, SO_REUSEADDR);
    out.keepalive = get_flag(fd, SOL_SOCKET, SO_KEEPALIVE);
    out.sndbuf = get<int>(fd, SOL_SOCKET, SO_SNDBUF);
    out.recbuf = get<int>(fd, SOL_SOCKET, SO_RCVBUF);
    if (const auto linger = get<::linger>(fd, SOL_SOCKET, SO_LINGER))
        out.linger = std::pair{linger->l_onoff != 0, linger->l_linger};
    if (kind != family::local)
        out.nodelay = get_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    if (kind == family::inet6)
        out.ipv6_v6only = get_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    return out;
}

} // namespace etls::net
