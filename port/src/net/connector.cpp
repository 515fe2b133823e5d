#include "net/connector.hpp"

#include "net/sockets.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <sys/socket.h>

#include <cerrno>

namespace etls::net {

namespace asio = boost::asio;

void connect_attempt::interrupt()
{
    interrupted_ = true;
    if (waiting_ != nullptr)
        waiting_->cancel();
}

asio::awaitable<result<unique_fd>> connect_to(std::shared_ptr<connect_attempt> attempt, address to, tcp_options options,
                                              std::optional<address> from)
{
    const failure aborted{boost::system::error_code{asio::error::operation_aborted}};
    if (attempt->interrupted())
        co_return aborted;
    auto fd = open_stream(to.kind(), options, from ? &*from : nullptr);
    if (!fd)
        co_return fd.error();
    if (::connect(fd->get(), to.native(), to.size()) == 0)
        co_return std::move(*fd);
    // A full AF_UNIX backlog says EAGAIN (unix(7)): nothing to wait for, the caller may try again.
    if (errno != EINPROGRESS)
        co_return failure{last_error()};

    asio::posix::stream_descriptor descriptor{co_await asio::this_coro::executor, fd->release()};
    attempt->waiting_ = &descriptor;
    co_await descriptor.async_wait(asio::posix::stream_descriptor::wait_write, asio::as_tuple(asio::use_awaitable));
    attempt->waiting_ = nullptr;
    if (attempt->interrupted())
        co_return aborted;
    int status = 0;
    socklen_t size = sizeof status;
    if (::getsockopt(descriptor.native_handle(), SOL_SOCKET, SO_ERROR, &status, &size) != 0)
        co_return failure{last_error()};
    if (status != 0)
        co_return failure{boost::system::error_code{status, boost::system::system_category()}};
    co_return unique_fd{descriptor.release()};
}

} // namespace etls::net
