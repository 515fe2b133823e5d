#pragma once

#include "net/address.hpp"

#include <boost/system/error_code.hpp>

#include <optional>
#include <utility>

namespace etls::net {

/// The options of a TCP socket that its user has named; the rest stays as the kernel has it.
struct tcp_options {
    std::optional<bool> nodelay{};
    std::optional<bool> keepalive{};
    std::optional<int> sndbuf{};                  ///< bytes
    std::optional<int> recbuf{};                  ///< bytes
    std::optional<std::pair<bool, int>> linger{}; ///< seconds
    std::optional<bool> reuseaddr{};
    std::optional<bool> ipv6_v6only{};
    std::optional<int> backlog{}; ///< connections; listeners only

    bool operator==(const tcp_options&) const = default;
};

/// Sets what is named. What a family does not have (TCP_NODELAY on AF_UNIX) is skipped, as inet does.
boost::system::error_code apply(int fd, family kind, const tcp_options& options);

/// Reads every option of the socket that its family has.
tcp_options read_options(int fd, family kind);

} // namespace etls::net
