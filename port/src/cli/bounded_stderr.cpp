#include "cli/bounded_stderr.hpp"

#include "base/limits.hpp"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace etls::cli {

namespace {

struct state {
    std::chrono::steady_clock::time_point second{};
    int lines = 0;
    std::uint64_t dropped = 0;
};

bool takes_a_line()
{
    pollfd one{STDERR_FILENO, POLLOUT, 0};
    return ::poll(&one, 1, 0) > 0 && (one.revents & POLLOUT) != 0;
}

void put(log::level at, const std::string& text)
{
    std::fprintf(stderr, "etlsd %s: %s\n", log::name(at).data(), text.c_str());
}

} // namespace

log::sink bounded_stderr()
{
    // The log calls one sink at a time.
    return [kept = std::make_shared<state>()](log::level at, const std::string& text) {
        const auto now = std::chrono::steady_clock::now();
        if (now - kept->second >= std::chrono::seconds{1}) {
            kept->second = now;
            kept->lines = 0;
        }
        if (kept->lines >= limits::log_lines_per_second || !takes_a_line()) {
            ++kept->dropped;
            return;
        }
        ++kept->lines;
        if (kept->dropped != 0)
            put(log::level::warning, std::to_string(std::exchange(kept->dropped, 0)) + " log lines dropped");
        put(at, text);
    };
}

} // namespace etls::cli
