#pragma once

#include "base/bytes.hpp"
#include "net/event_loop.hpp"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace etls::net {

/// One thread with its own event loop and the buffers that its connections share: an idle connection holds none.
class io_thread {
public:
    explicit io_thread(unsigned number);
    ~io_thread();
    io_thread(const io_thread&) = delete;
    io_thread& operator=(const io_thread&) = delete;

    /// Returns when its thread has ended; what still waits on its loop is dropped with the object.
    void stop();

    [[nodiscard]] event_loop& loop() noexcept { return loop_; }

    /// What was just read. Only on this thread, only until the next event.
    [[nodiscard]] std::span<std::byte> input() noexcept;
    byte_buffer plain;  ///< empty between events
    byte_buffer cipher; ///< empty between events

    std::atomic<std::size_t> load{0}; ///< connections living here

private:
    event_loop loop_;
    std::unique_ptr<std::byte[]> input_;
    std::thread thread_;
};

/// The threads that connections live on, each for life.
class io_threads {
public:
    /// `count` 0: one per core.
    explicit io_threads(unsigned count);

    /// Ends every thread. What lives on them is touched by no other thread from then on.
    void stop();

    /// The thread with the fewest connections.
    [[nodiscard]] io_thread& pick();
    [[nodiscard]] std::size_t size() const noexcept { return threads_.size(); }

private:
    std::vector<std::unique_ptr<io_thread>> threads_;
};

} // namespace etls::net
