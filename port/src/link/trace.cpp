#include "link/trace.hpp"

#include "base/log.hpp"
#include "link/term_text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

namespace etls::link {

namespace {

/// Lines that wait to be written, bytes.
constexpr std::size_t held_bytes = 64 * 1024;

/// The age of a line that is not written yet.
constexpr std::chrono::seconds held_time{1};

boost::system::error_code last_error()
{
    return {errno, boost::system::system_category()};
}

/// "2026-12-01T02:10:00.123456Z"
std::string timestamp()
{
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    tm utc{};
    ::gmtime_r(&now.tv_sec, &utc);
    std::array<char, 32> seconds{};
    std::array<char, 32> micros{};
    std::strftime(seconds.data(), seconds.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    std::snprintf(micros.data(), micros.size(), ".%06ldZ", now.tv_nsec / 1000);
    return std::string{seconds.data()} + micros.data();
}

/// A node's name comes from its handshake: nothing in it may look like the end of a line.
std::string printable(std::string_view who)
{
    std::string out{who};
    std::replace_if(
        out.begin(), out.end(), [](char c) { return c <= ' ' || c == '\177'; }, '?');
    return out;
}

} // namespace

result<std::shared_ptr<link_trace>> link_trace::open(const std::string& path, boost::asio::any_io_executor executor)
{
    // Not blocking: a pipe that nobody reads must not stop the daemon.
    constexpr int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    constexpr mode_t owner_only = 0600;
    net::unique_fd file{::open(path.c_str(), flags, owner_only)};
    if (!file)
        return failure{last_error()};
    return std::shared_ptr<link_trace>{new link_trace{path, std::move(file), std::move(executor)}};
}

link_trace::link_trace(std::string path, net::unique_fd file, boost::asio::any_io_executor executor)
    : path_{std::move(path)}, file_{std::move(file)}, timer_{std::move(executor)}
{
}

link_trace::~link_trace()
{
    write_all();
}

void link_trace::line(direction way, std::string_view who, std::string_view term)
{
    if (!file_)
        return;
    lines_ += timestamp();
    lines_ += ' ';
    lines_ += printable(who);
    lines_ += way == direction::from_vm ? " <- " : " -> ";
    if (const auto text = term_text(term)) {
        lines_ += *text;
        lines_ += ".\n";
    } else {
        lines_ += "% " + std::to_string(term.size()) + " bytes that are no term\n";
    }
    if (lines_.size() >= held_bytes)
        flush();
    else
        flush_soon();
}

tracer link_trace::as_tracer()
{
    return [self = shared_from_this()](direction way, std::string_view who, std::string_view term) {
        self->line(way, who, term);
    };
}

void link_trace::flush_soon()
{
    if (std::exchange(waiting_, true))
        return;
    timer_.expires_after(held_time);
    timer_.async_wait([weak = weak_from_this()](const boost::system::error_code&) {
        if (const auto self = weak.lock()) {
            self->waiting_ = false;
            self->flush();
        }
    });
}

void link_trace::flush()
{
    if (write_all())
        return;
    const auto why = last_error();
    file_.reset(); // first: the warning itself passes here on its way to the VM
    log::warning("the trace ends: ", path_, ": ", why.message());
}

/// False: errno says why not.
bool link_trace::write_all()
{
    const auto text = std::exchange(lines_, {});
    std::string_view left = text;
    while (file_ && !left.empty()) {
        const auto n = ::write(file_.get(), left.data(), left.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        left.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

} // namespace etls::link
