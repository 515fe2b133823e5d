#pragma once

#include "base/error.hpp"
#include "net/address.hpp"
#include "net/tcp_options.hpp"
#include "net/unique_fd.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <memory>
#include <optional>

namespace etls::net {

/// A connect that may be interrupted, from the thread it runs on.
class connect_attempt {
public:
    /// The connect ends soon, with `operation_aborted`.
    void interrupt();
    [[nodiscard]] bool interrupted() const noexcept { return interrupted_; }

private:
    friend boost::asio::awaitable<result<unique_fd>> connect_to(std::shared_ptr<connect_attempt>, address, tcp_options,
                                                                std::optional<address>);
    bool interrupted_ = false;
    boost::asio::posix::stream_descriptor* waiting_ = nullptr;
};

/// A connected non-blocking socket, or the system's error.
boost::asio::awaitable<result<unique_fd>> connect_to(std::shared_ptr<connect_attempt>, address to, tcp_options,
                                                     std::optional<address> from);

} // namespace etls::net
