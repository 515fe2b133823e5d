#include "base/log.hpp"

#include <array>
#include <cstdio>
#include <mutex>
#include <utility>

namespace etls::log {

namespace {

constexpr std::array<std::string_view, 5> names{"error", "warning", "notice", "info", "debug"};

std::atomic<int> threshold{static_cast<int>(level::notice)};

struct state {
    std::mutex mutex;
    sink target = [](level at, const std::string& text) {
        std::fprintf(stderr, "etlsd %s: %s\n", names[static_cast<std::size_t>(at)].data(), text.c_str());
    };
};

state& shared()
{
    static state instance;
    return instance;
}

} // namespace

void set_sink(sink target)
{
    const std::lock_guard lock{shared().mutex};
    shared().target = std::move(target);
}

void set_level(level at) noexcept
{
    threshold.store(static_cast<int>(at), std::memory_order_relaxed);
}

bool enabled(level at) noexcept
{
    return static_cast<int>(at) <= threshold.load(std::memory_order_relaxed);
}

std::string_view name(level at) noexcept
{
    return names[static_cast<std::size_t>(at)];
}

bool parse(std::string_view text, level& out) noexcept
{
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == text) {
            out = static_cast<level>(i);
            return true;
        }
    }
    return false;
}

void write(level at, std::string text)
{
    const std::lock_guard lock{shared().mutex};
    shared().target(at, std::move(text));
}

} // namespace etls::log
