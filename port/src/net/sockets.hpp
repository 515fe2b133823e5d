#pragma once

#include "base/error.hpp"
#include "net/address.hpp"
#include "net/tcp_options.hpp"
#include "net/unique_fd.hpp"

#include <utility>

namespace etls::net {

/// A bound and listening non-blocking stream socket. Its options are inherited by what it accepts.
result<unique_fd> open_listener(const address& at, const tcp_options& options);

/// A non-blocking stream socket with its options set, bound to `from` where given, not yet connected.
result<unique_fd> open_stream(family kind, const tcp_options& options, const address* from);

/// Two connected AF_UNIX stream sockets, non-blocking.
result<std::pair<unique_fd, unique_fd>> open_pair();

/// accept4(2), non-blocking. EAGAIN where nothing waits; aborted connections are passed over.
result<unique_fd> accept_from(int listener);

boost::system::error_code last_error() noexcept;

/// Passing errors of a socket call: nothing there yet.
[[nodiscard]] bool would_block(const boost::system::error_code& ec) noexcept;

} // namespace etls::net
