#pragma once

#include "net/unique_fd.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <poll.h>

#include <functional>
#include <utility>

namespace etls::net {

/// A descriptor and who waits for it. Each kind of readiness has at most one waiter: waiting for what is waited for
/// already does nothing, so callers may say what they want after every event without a system call too many.
/// Handlers take no arguments and are dropped, not called, when the descriptor closes.
class readiness {
public:
    using descriptor = boost::asio::posix::stream_descriptor;

    readiness(boost::asio::io_context& context, unique_fd fd) : descriptor_{context, fd.release()} {}

    [[nodiscard]] int fd() { return descriptor_.native_handle(); }
    [[nodiscard]] descriptor::executor_type executor() { return descriptor_.get_executor(); }
    [[nodiscard]] bool is_open() const { return descriptor_.is_open(); }

    template <class Handler>
    void on_readable(Handler&& handler)
    {
        wait(descriptor::wait_read, reading_, std::forward<Handler>(handler));
    }
    template <class Handler>
    void on_writable(Handler&& handler)
    {
        wait(descriptor::wait_write, writing_, std::forward<Handler>(handler));
    }
    /// The peer has closed both directions (POLLHUP) or failed. A wake-up is only a hint: Asio may hand on one that was
    /// meant for a descriptor just closed, whose place this one took. (Readers and writers see EAGAIN then.)
    void on_hangup(std::function<void()> handler)
    {
        wait(descriptor::wait_error, hanging_, [this, handler = std::move(handler)] {
            if (is_hung_up())
                handler();
            else
                on_hangup(handler);
        });
    }

    /// Gives the descriptor away, waiters dropped.
    [[nodiscard]] int release() { return descriptor_.release(); }

    void close()
    {
        boost::system::error_code ignored;
        descriptor_.close(ignored);
    }

private:
    [[nodiscard]] bool is_hung_up()
    {
        pollfd one{fd(), 0, 0};
        return ::poll(&one, 1, 0) > 0 && (one.revents & (POLLHUP | POLLERR)) != 0;
    }

    template <class Handler>
    void wait(descriptor::wait_type what, bool& waiting, Handler&& handler)
    {
        if (waiting || !is_open())
            return;
        waiting = true;
        // The handler keeps the owner of *this alive, so `waiting` is still there when it runs.
        descriptor_.async_wait(
            what, [&waiting, handler = std::forward<Handler>(handler)](const boost::system::error_code& ec) mutable {
                waiting = false;
                if (!ec)
                    handler();
            });
    }

    descriptor descriptor_;
    bool reading_ = false;
    bool writing_ = false;
    bool hanging_ = false;
};

} // namespace etls::net
