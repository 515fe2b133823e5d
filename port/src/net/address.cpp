#include "net/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

namespace etls::net {

namespace {

template <class Native>
Native view_as(const sockaddr* native) noexcept
{
    Native copy{};
    std::memcpy(&copy, native, sizeof copy);
    return copy;
}

boost::system::error_code system_error(int number)
{
    return {number, boost::system::system_category()};
}

} // namespace

address address::from(const sockaddr* native, socklen_t size)
{
    address out;
    out.size_ = std::min<socklen_t>(size, sizeof out.storage_);
    std::memcpy(&out.storage_, native, out.size_);
    return out;
}

address address::ipv4(const std::array<std::uint8_t, 4>& ip, std::uint16_t port)
{
    sockaddr_in native{};
    native.sin_family = AF_INET;
    native.sin_port = htons(port);
    std::memcpy(&native.sin_addr, ip.data(), ip.size());
    return from(reinterpret_cast<const sockaddr*>(&native), sizeof native);
}

address address::ipv6(const std::array<std::uint16_t, 8>& ip, std::uint16_t port)
{
    sockaddr_in6 native{};
    native.sin6_family = AF_INET6;
    native.sin6_port = htons(port);
    for (std::size_t i = 0; i < ip.size(); ++i) {
        native.sin6_addr.s6_addr[2 * i] = static_cast<std::uint8_t>(ip[i] >> 8);
        native.sin6_addr.s6_addr[2 * i + 1] = static_cast<std::uint8_t>(ip[i] & 0xff);
    }
    return from(reinterpret_cast<const sockaddr*>(&native), sizeof native);
}

result<address> address::local(std::string_view path)
{
    sockaddr_un native{};
    native.sun_family = AF_UNIX;
    if (path.size() >= sizeof native.sun_path)
        return failure{system_error(ENAMETOOLONG)};
    std::memcpy(native.sun_path, path.data(), path.size());
    // An abstract name (leading NUL) is delimited by its length, a path by its terminator.
    const bool abstract = !path.empty() && path.front() == '\0';
    const auto size = offsetof(sockaddr_un, sun_path) + path.size() + (abstract ? 0 : 1);
    return from(reinterpret_cast<const sockaddr*>(&native), static_cast<socklen_t>(size));
}

std::optional<address> address::parse_ip(const std::string& text, std::uint16_t port)
{
    std::array<std::uint8_t, 4> four{};
    if (::inet_pton(AF_INET, text.c_str(), four.data()) == 1)
        return ipv4(four, port);
    sockaddr_in6 native{};
    if (::inet_pton(AF_INET6, text.c_str(), &native.sin6_addr) == 1) {
        native.sin6_family = AF_INET6;
        native.sin6_port = htons(port);
        return from(reinterpret_cast<const sockaddr*>(&native), sizeof native);
    }
    return std::nullopt;
}

family address::kind() const noexcept
{
    switch (storage_.ss_family) {
    case AF_INET6:
        return family::inet6;
    case AF_UNIX:
        return family::local;
    default:
        return family::inet;
    }
}

std::uint16_t address::port() const noexcept
{
    switch (kind()) {
    case family::inet:
        return ntohs(view_as<sockaddr_in>(native()).sin_port);
    case family::inet6:
        return ntohs(view_as<sockaddr_in6>(native()).sin6_port);
    case family::local:
        break;
    }
    return 0;
}

std::array<std::uint8_t, 4> address::v4() const noexcept
{
    const auto in = view_as<sockaddr_in>(native());
    std::array<std::uint8_t, 4> ip{};
    std::memcpy(ip.data(), &in.sin_addr, ip.size());
    return ip;
}

std::array<std::uint16_t, 8> address::v6() const noexcept
{
    const auto in = view_as<sockaddr_in6>(native());
    std::array<std::uint16_t, 8> ip{};
    for (std::size_t i = 0; i < ip.size(); ++i)
        ip[i] = static_cast<std::uint16_t>(in.sin6_addr.s6_addr[2 * i] << 8 | in.sin6_addr.s6_addr[2 * i + 1]);
    return ip;
}

std::string address::path() const
{
    constexpr auto header = offsetof(sockaddr_un, sun_path);
    if (size_ <= header)
        return {};
    const auto un = view_as<sockaddr_un>(native());
    std::string path{un.sun_path, size_ - header};
    if (!path.empty() && path.front() != '\0')
        path.resize(std::strlen(path.c_str()));
    return path;
}

std::string address::text() const
{
    std::array<char, INET6_ADDRSTRLEN> buffer{};
    switch (kind()) {
    case family::inet: {
        const auto in = view_as<sockaddr_in>(native());
        ::inet_ntop(AF_INET, &in.sin_addr, buffer.data(), buffer.size());
        return std::string{buffer.data()} + ':' + std::to_string(port());
    }
    case family::inet6: {
        const auto in = view_as<sockaddr_in6>(native());
        ::inet_ntop(AF_INET6, &in.sin6_addr, buffer.data(), buffer.size());
        return '[' + std::string{buffer.data()} + "]:" + std::to_string(port());
    }
    case family::local:
        break;
    }
    return "local:" + path();
}

address local_name(int fd)
{
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
        return {};
    return address::from(reinterpret_cast<const sockaddr*>(&storage), size);
}

address peer_name(int fd)
{
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
        return {};
    return address::from(reinterpret_cast<const sockaddr*>(&storage), size);
}

result<std::vector<address>> resolve(const std::string& host, std::uint16_t port, std::optional<family> only)
{
    if (host == "*")
        return failure{named_error{"nxdomain"}}; // glibc takes it for no name at all, which is the loopback
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_family = !only ? AF_UNSPEC : *only == family::inet ? AF_INET : AF_INET6;
    addrinfo* found = nullptr;
    const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (status == EAI_SYSTEM)
        return failure{system_error(errno)};
    if (status == EAI_MEMORY)
        return failure{system_error(ENOMEM)};
    if (status != 0)
        return failure{named_error{"nxdomain"}};
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list{found, &::freeaddrinfo};
    std::vector<address> out;
    for (const int wanted : {AF_INET, AF_INET6}) {
        for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
            if (at->ai_family == wanted)
                out.push_back(address::from(at->ai_addr, at->ai_addrlen));
        }
    }
    if (out.empty())
        return failure{named_error{"nxdomain"}};
    return out;
}

} // namespace etls::net
