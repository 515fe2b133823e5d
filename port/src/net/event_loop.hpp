#pragma once

#include "net/unique_fd.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace etls::net {

/// The loop of one I/O thread: readiness of descriptors, work from other threads, and timers.
///
/// Asio tells readiness once per `async_wait`, which costs an epoll_ctl(2) each time; two thirds of a small message's
/// system calls would be its. Here a descriptor is registered once, edge-triggered (epoll(7)): its watcher remembers
/// what it was told until a read or write comes short.
///
/// `post` and `stop` may be called from any thread, all else on the loop's own.
class event_loop {
public:
    using clock = std::chrono::steady_clock;

    /// Who is told. The loop keeps it alive while one of its descriptors is watched.
    class watcher {
    public:
        virtual ~watcher() = default;
        /// `events` as in epoll_event.
        virtual void on_events(int fd, std::uint32_t events) = 0;
        /// As asked by `call_again`.
        virtual void on_turn() = 0;
        virtual void on_timer() = 0;
    };

    using timers = std::multimap<clock::time_point, std::weak_ptr<watcher>>;
    using timer = timers::iterator;

    event_loop();
    ~event_loop();
    event_loop(const event_loop&) = delete;
    event_loop& operator=(const event_loop&) = delete;

    /// Until `stop`.
    void run();
    void stop();

    template <class Work>
    void post(Work work)
    {
        post_task(std::make_unique<task_of<Work>>(std::move(work)));
    }

    /// Tells of input, and of output where `output`. False: the kernel would not (errno).
    [[nodiscard]] bool watch(int fd, std::shared_ptr<watcher>, bool output);
    void watch_output(int fd, bool output);
    /// Closing the descriptor, which has to follow at once, ends the kernel's part.
    void forget(int fd);

    /// `on_turn` once everybody else who is ready has had his turn.
    void call_again(std::shared_ptr<watcher>);

    timer start_timer(clock::duration, std::weak_ptr<watcher>);
    void cancel(timer);
    [[nodiscard]] timer no_timer() noexcept { return timers_.end(); }

private:
    struct task {
        virtual ~task() = default;
        virtual void run() = 0;
    };
    template <class Work>
    struct task_of final : task {
        explicit task_of(Work&& from) : work{std::move(from)} {}
        void run() override { work(); }
        Work work;
    };
    /// What watches a descriptor. Numbers come back: an event of an earlier `turn` is somebody else's.
    struct slot {
        std::shared_ptr<watcher> who;
        std::uint32_t turn = 0;
    };

    void post_task(std::unique_ptr<task>);
    void run_tasks();
    void run_turns();
    void run_timers();
    void poll();
    [[nodiscard]] int wait_limit() const;
    void control(int operation, int fd, bool output);

    unique_fd epoll_;
    unique_fd bell_;          // eventfd: there are tasks
    std::vector<slot> slots_; // by descriptor
    std::vector<std::shared_ptr<watcher>> again_;
    timers timers_;

    std::mutex mutex_;
    std::vector<std::unique_ptr<task>> tasks_; // under the mutex
    bool asleep_ = false;                      // under the mutex
    std::atomic<bool> stopped_{false};
    std::atomic<bool> has_tasks_{false};
};

} // namespace etls::net
