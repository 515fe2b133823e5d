#include "net/event_loop.hpp"

#include "base/limits.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace etls::net {

namespace {

std::uint64_t tag_of(int fd, std::uint32_t turn) noexcept
{
    return static_cast<std::uint64_t>(turn) << 32 | static_cast<std::uint32_t>(fd);
}

} // namespace

event_loop::event_loop() : epoll_{::epoll_create1(EPOLL_CLOEXEC)}, bell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}
{
    if (!epoll_ || !bell_)
        throw std::system_error{errno, std::system_category(), "event loop"};
    epoll_event bell{};
    bell.events = EPOLLIN | EPOLLET;
    bell.data.u64 = tag_of(bell_.get(), 0);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &bell) != 0)
        throw std::system_error{errno, std::system_category(), "event loop"};
}

event_loop::~event_loop()
{
    // Watchers may forget their descriptors in their destructors.
    tasks_.clear();
    again_.clear();
    const auto all = std::exchange(slots_, {});
}

// ---- from any thread

void event_loop::post_task(std::unique_ptr<task> one)
{
    bool ring = false;
    {
        const std::lock_guard lock{mutex_};
        tasks_.push_back(std::move(one));
        has_tasks_.store(true, std::memory_order_relaxed);
        ring = std::exchange(asleep_, false);
    }
    if (ring)
        ::eventfd_write(bell_.get(), 1);
}

void event_loop::stop()
{
    post([this] { stopped_.store(true, std::memory_order_relaxed); });
}

// ---- descriptors

bool event_loop::watch(int fd, std::shared_ptr<watcher> who, bool output)
{
    const auto at = static_cast<std::size_t>(fd);
    if (slots_.size() <= at)
        slots_.resize(std::max(at + 1, slots_.size() * 2));
    slots_[at].who = std::move(who);
    ++slots_[at].turn;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (output ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    event.data.u64 = tag_of(fd, slots_[at].turn);
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void event_loop::watch_output(int fd, bool output)
{
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (output ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    event.data.u64 = tag_of(fd, slots_[static_cast<std::size_t>(fd)].turn);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void event_loop::forget(int fd)
{
    const auto at = static_cast<std::size_t>(fd);
    if (at >= slots_.size())
        return; // the loop is being destroyed
    ++slots_[at].turn;
    slots_[at].who.reset();
}

void event_loop::call_again(std::shared_ptr<watcher> who)
{
    again_.push_back(std::move(who));
}

// ---- timers

event_loop::timer event_loop::start_timer(clock::duration after, std::weak_ptr<watcher> who)
{
    return timers_.emplace(clock::now() + after, std::move(who));
}

void event_loop::cancel(timer one)
{
    if (one != timers_.end())
        timers_.erase(one);
}

// ---- the loop

void event_loop::run()
{
    while (!stopped_.load(std::memory_order_relaxed)) {
        run_turns();
        poll();
        if (has_tasks_.load(std::memory_order_relaxed))
            run_tasks();
        if (!timers_.empty())
            run_timers();
    }
}

/// Sleeps only where nothing is to be done.
void event_loop::poll()
{
    std::array<epoll_event, limits::events_at_once> ready;
    int limit = 0;
    if (again_.empty()) {
        const std::lock_guard lock{mutex_};
        asleep_ = tasks_.empty();
        limit = asleep_ ? wait_limit() : 0;
    }
    const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), limit);
    for (int at = 0; at < count; ++at) {
        const auto tag = ready[static_cast<std::size_t>(at)].data.u64;
        const auto fd = static_cast<int>(static_cast<std::uint32_t>(tag));
        const auto index = static_cast<std::size_t>(fd);
        if (index >= slots_.size() || slots_[index].turn != tag >> 32 || !slots_[index].who)
            continue; // the bell, or forgotten by an event of this very batch
        const auto who = slots_[index].who;
        who->on_events(fd, ready[static_cast<std::size_t>(at)].events);
    }
}

int event_loop::wait_limit() const
{
    if (timers_.empty())
        return -1;
    // Rounded up: a millisecond late costs less than waking in vain.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, limits::longest_sleep.count()));
}

void event_loop::run_tasks()
{
    std::vector<std::unique_ptr<task>> work;
    {
        const std::lock_guard lock{mutex_};
        asleep_ = false;
        has_tasks_.store(false, std::memory_order_relaxed);
        work.swap(tasks_);
    }
    for (const auto& one : work)
        one->run();
}

void event_loop::run_turns()
{
    const auto turns = std::exchange(again_, {});
    for (const auto& who : turns)
        who->on_turn();
}

void event_loop::run_timers()
{
    const auto now = clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
        const auto who = timers_.begin()->second.lock();
        timers_.erase(timers_.begin());
        if (who)
            who->on_timer();
    }
}

} // namespace etls::net
