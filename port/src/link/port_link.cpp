#include "link/port_link.hpp"

#include "base/limits.hpp"
#include "link/reply_encoder.hpp"
#include "link/request_decoder.hpp"
#include "link/term_writer.hpp"
#include "net/sockets.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

namespace etls::link {

namespace asio = boost::asio;

namespace {

constexpr std::size_t header_bytes = 4;
constexpr std::size_t read_at_once = 64 * 1024;

using header = std::array<std::byte, header_bytes>;

std::size_t size_in(byte_view head)
{
    std::size_t size = 0;
    for (const auto each : head.first(header_bytes))
        size = size << 8 | std::to_integer<std::size_t>(each);
    return size;
}

header header_of(std::size_t size)
{
    header head{};
    for (std::size_t i = 0; i < header_bytes; ++i)
        head[header_bytes - 1 - i] = static_cast<std::byte>(size >> (8 * i) & 0xff);
    return head;
}

} // namespace

port_link::port_link(asio::io_context& context, int in, int out)
    : context_{context}, in_{context, in}, out_{std::make_shared<net::readiness>(context, net::unique_fd{out})}
{
    ::fcntl(out, F_SETFL, ::fcntl(out, F_GETFL) | O_NONBLOCK);
}

void port_link::run(std::shared_ptr<control::controller> controller, std::function<void(end)> over)
{
    controller_ = std::move(controller);
    over_ = std::move(over);
    asio::co_spawn(context_, read(), [](const std::exception_ptr& thrown) {
        if (thrown)
            std::rethrow_exception(thrown);
    });
}

asio::awaitable<void> port_link::read()
{
    for (;;) {
        const auto tail = input_.prepare(read_at_once);
        const auto [ec, n] =
            co_await in_.async_read_some(asio::buffer(tail.data(), tail.size()), asio::as_tuple(asio::use_awaitable));
        if (ec) {
            drop_output();
            co_return finish(end::vm_gone);
        }
        input_.commit(n);
        if (!take_frames())
            co_return finish(end::corrupt); // the VM still hears why
    }
}

bool port_link::take_frames()
{
    while (input_.size() >= header_bytes) {
        const auto size = size_in(input_.view());
        if (size > limits::frame_bytes) {
            log::error("link: a frame of ", size, " bytes, the limit is ", limits::frame_bytes);
            return false;
        }
        if (input_.size() < header_bytes + size)
            return true;
        const auto body = input_.view().subspan(header_bytes, size);
        take({reinterpret_cast<const char*>(body.data()), body.size()});
        input_.consume(header_bytes + size);
    }
    return true;
}

void port_link::take(std::string_view frame)
{
    auto read = decode_request(frame);
    if (auto* good = std::get_if<control::request>(&read))
        return controller_->handle(std::move(*good));
    const auto& bad = std::get<senseless>(read);
    log::warning("link: a frame of ", frame.size(), " bytes makes no sense: ", std::get<request_error>(bad.why).text);
    if (!bad.id)
        return;
    term_writer out;
    encode_rejection(out, bad);
    put(out);
}

void port_link::answer(const control::opaque& id, const control::reply& what)
{
    term_writer out;
    encode_reply(out, id, what);
    put(out);
}

void port_link::tell_ended(const control::opaque& subject, const conn::end_of_data& how)
{
    term_writer out;
    encode_ended(out, subject, how);
    put(out);
}

void port_link::tell_log(log::level level, std::string text)
{
    asio::post(context_, [this, level, text = std::move(text)] {
        if (!may_log())
            return;
        term_writer out;
        encode_log(out, level, text);
        put(out);
    });
}

/// A flood of lines is cut, and the cut told, so that a fault cannot fill the VM's mailbox.
bool port_link::may_log()
{
    const auto now = std::chrono::steady_clock::now();
    if (now - second_ >= std::chrono::seconds{1}) {
        second_ = now;
        lines_ = 0;
        if (suppressed_ != 0) {
            term_writer out;
            encode_log(out, log::level::warning, std::to_string(std::exchange(suppressed_, 0)) + " log lines dropped");
            put(out);
        }
    }
    if (++lines_ <= limits::log_lines_per_second)
        return true;
    ++suppressed_;
    return false;
}

void port_link::put(const term_writer& term)
{
    if (!out_->is_open())
        return;
    const auto bytes = term.bytes();
    const auto head = header_of(bytes.size());
    output_.append(head);
    output_.append(std::as_bytes(std::span{bytes.data(), bytes.size()}));
    flush();
}

void port_link::flush()
{
    while (!output_.empty() && out_->is_open()) {
        const auto bytes = output_.view();
        const auto n = ::write(out_->fd(), bytes.data(), bytes.size());
        if (n >= 0) {
            output_.consume(static_cast<std::size_t>(n));
            continue;
        }
        if (!net::would_block(net::last_error())) {
            drop_output();
            return finish(end::vm_gone);
        }
        if (output_.size() > limits::link_backlog_bytes) {
            drop_output();
            return finish(end::stalled);
        }
        return out_->on_writable([this, keep = out_] { flush(); });
    }
}

void port_link::drain(std::chrono::milliseconds most)
{
    const auto until = std::chrono::steady_clock::now() + most;
    flush();
    while (!output_.empty() && out_->is_open() && std::chrono::steady_clock::now() < until) {
        pollfd one{out_->fd(), POLLOUT, 0};
        ::poll(&one, 1, static_cast<int>(most.count()));
        flush();
    }
}

void port_link::finish(end why)
{
    if (!over_)
        return;
    // Later: whoever asked for this flush still stands in the middle of its work.
    asio::post(context_, [over = std::exchange(over_, nullptr), why] { over(why); });
}

void port_link::drop_output()
{
    out_->close();
    output_.release();
}

} // namespace etls::link
