#include "net/io_threads.hpp"

#include "base/limits.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <string>

namespace etls::net {

io_thread::io_thread(unsigned number) : input_{std::make_unique_for_overwrite<std::byte[]>(limits::read_bytes)}
{
    // Signals are the main thread's; a new thread inherits the mask of its maker.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread{[this, number] {
        ::pthread_setname_np(::pthread_self(), ("etlsd-io-" + std::to_string(number)).c_str());
        loop_.run();
    }};
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

io_thread::~io_thread()
{
    stop();
}

void io_thread::stop()
{
    if (!thread_.joinable())
        return;
    loop_.stop();
    thread_.join();
}

std::span<std::byte> io_thread::input() noexcept
{
    return {input_.get(), limits::read_bytes};
}

io_threads::io_threads(unsigned count)
{
    const unsigned wanted = count != 0 ? count : std::max(1U, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < wanted; ++i)
        threads_.push_back(std::make_unique<io_thread>(i));
}

void io_threads::stop()
{
    for (const auto& each : threads_)
        each->stop();
}

io_thread& io_threads::pick()
{
    return **std::min_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) {
        return a->load.load(std::memory_order_relaxed) < b->load.load(std::memory_order_relaxed);
    });
}

} // namespace etls::net
