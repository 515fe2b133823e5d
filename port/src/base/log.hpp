#pragma once

#include <atomic>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>

/// The daemon's log: lines with a level, written by any thread to one sink. Never given secrets or payload.
namespace etls::log {

enum class level : int { error, warning, notice, info, debug };

using sink = std::function<void(level, std::string)>;

/// Where lines go; stderr until set. The sink is called on the logging thread.
void set_sink(sink);

void set_level(level) noexcept;
[[nodiscard]] bool enabled(level) noexcept;

[[nodiscard]] std::string_view name(level) noexcept;
/// False: there is no such level, `out` untouched.
bool parse(std::string_view text, level& out) noexcept;

void write(level, std::string line);

template <class... Parts>
void line(level at, const Parts&... parts)
{
    if (!enabled(at))
        return;
    std::ostringstream text;
    (text << ... << parts);
    write(at, std::move(text).str());
}

template <class... Parts>
void error(const Parts&... parts)
{
    line(level::error, parts...);
}
template <class... Parts>
void warning(const Parts&... parts)
{
    line(level::warning, parts...);
}
template <class... Parts>
void notice(const Parts&... parts)
{
    line(level::notice, parts...);
}
template <class... Parts>
void info(const Parts&... parts)
{
    line(level::info, parts...);
}
template <class... Parts>
void debug(const Parts&... parts)
{
    line(level::debug, parts...);
}

} // namespace etls::log
