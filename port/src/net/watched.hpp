#pragma once

#include "net/event_loop.hpp"
#include "net/unique_fd.hpp"

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace etls::net {

/// A stream socket on an event loop, and what is known of its readiness: `readable` until a read came short,
/// `writable` until a write did.
class watched {
public:
    /// When to hear that it takes output again. A lane's peer makes the kernel say so with each read, which would cost
    /// a wake-up per message: there it is asked for while needed. TCP says it only after a write that did not fit.
    enum class output : std::uint8_t { always, when_blocked };

    explicit watched(unique_fd fd, output how) noexcept : fd_{std::move(fd)}, output_{how} {}
    watched(const watched&) = delete;
    watched& operator=(const watched&) = delete;

    /// On the loop's thread. False: no memory, errno says.
    [[nodiscard]] bool begin(event_loop& loop, std::shared_ptr<event_loop::watcher> who)
    {
        loop_ = &loop;
        return loop.watch(fd_.get(), std::move(who), output_ == output::always);
    }

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }
    [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(fd_); }
    [[nodiscard]] bool readable() const noexcept { return readable_ && is_open(); }
    [[nodiscard]] bool writable() const noexcept { return writable_ && is_open(); }
    /// Both directions are closed, or it failed.
    [[nodiscard]] bool hung_up() const noexcept { return hung_up_; }

    void note(std::uint32_t events)
    {
        readable_ = readable_ || (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        // No further edge comes after the end: what is read short may be followed by it.
        ended_ = ended_ || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        hung_up_ = hung_up_ || (events & (EPOLLHUP | EPOLLERR)) != 0;
        if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) == 0 || writable_)
            return;
        writable_ = true;
        if (output_ == output::when_blocked)
            loop_->watch_output(fd_.get(), false);
    }
    /// A read brought less than there was room for.
    void drained() noexcept { readable_ = ended_; }
    /// A read brought nothing (EAGAIN), or its end is known.
    void empty() noexcept { readable_ = false; }
    /// A write took less than it was given.
    void blocked()
    {
        if (!writable_)
            return;
        writable_ = false;
        if (output_ == output::when_blocked)
            loop_->watch_output(fd_.get(), true);
    }

    void close()
    {
        if (!fd_)
            return;
        if (loop_ != nullptr)
            loop_->forget(fd_.get());
        fd_.reset();
    }

private:
    unique_fd fd_;
    event_loop* loop_ = nullptr;
    output output_;
    bool readable_ = false;
    bool writable_ = true;
    bool ended_ = false;
    bool hung_up_ = false;
};

} // namespace etls::net
