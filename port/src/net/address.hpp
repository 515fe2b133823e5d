#pragma once

#include "base/error.hpp"

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace etls::net {

enum class family : std::uint8_t { inet, inet6, local };

/// A socket address: IPv4, IPv6 or a path. Regular.
class address {
public:
    address() = default;
    static address ipv4(const std::array<std::uint8_t, 4>& ip, std::uint16_t port);
    static address ipv6(const std::array<std::uint16_t, 8>& ip, std::uint16_t port);
    /// Fails with ENAMETOOLONG where the path does not fit a sockaddr_un (107 bytes).
    static result<address> local(std::string_view path);
    static address from(const sockaddr* native, socklen_t size);

    /// "1.2.3.4" or "::1"; nothing for a name.
    static std::optional<address> parse_ip(const std::string& text, std::uint16_t port);

    [[nodiscard]] family kind() const noexcept;
    [[nodiscard]] std::uint16_t port() const noexcept;
    [[nodiscard]] std::array<std::uint8_t, 4> v4() const noexcept;
    [[nodiscard]] std::array<std::uint16_t, 8> v6() const noexcept;
    [[nodiscard]] std::string path() const;

    [[nodiscard]] const sockaddr* native() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
    [[nodiscard]] socklen_t size() const noexcept { return size_; }

    /// "1.2.3.4:80", "[::1]:80", "local:/path".
    [[nodiscard]] std::string text() const;

private:
    sockaddr_storage storage_{};
    socklen_t size_ = 0;
};

/// getsockname(2) and getpeername(2); an unnamed AF_UNIX peer has an empty path.
address local_name(int fd);
address peer_name(int fd);

/// Every address of a host name, IPv4 before IPv6 (as gen_tcp prefers it), each once. Blocks: see resolver threads.
/// `only`: one family. Fails with `nxdomain`, or the system's error.
result<std::vector<address>> resolve(const std::string& host, std::uint16_t port, std::optional<family> only);

} // namespace etls::net
