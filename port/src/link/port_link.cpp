#include "link/port_link.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "link/dispatch.hpp"
#include "link/frames.hpp"
#include "net/readiness.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fcntl.h>

#include <exception>
#include <utility>

namespace etls::link {

namespace asio = boost::asio;

namespace {

constexpr std::size_t read_at_once = 256 * 1024;

constexpr const char* traced_as = "port";

} // namespace

port_link::port_link(asio::io_context& context, int in, int out, tracer trace)
    : context_{context},
      in_{context, in},
      channel_{
          std::make_shared<channel>(std::make_shared<net::readiness>(context, net::unique_fd{out}), traced_as, trace)},
      out_{std::make_shared<vm_outbox>(channel_, std::string{})},
      trace_{std::move(trace)}
{
    ::fcntl(out, F_SETFL, ::fcntl(out, F_GETFL) | O_NONBLOCK);
}

void port_link::run(std::shared_ptr<control::controller> controller, std::function<void(end)> over)
{
    controller_ = std::move(controller);
    over_ = std::move(over);
    channel_->on_trouble(
        [this](channel::trouble why) { finish(why == channel::trouble::gone ? end::vm_gone : end::stalled); });
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
            channel_->close();
            co_return finish(end::vm_gone);
        }
        input_.commit(n);
        if (!take_frames())
            co_return finish(end::corrupt); // the VM still hears why
    }
}

bool port_link::take_frames()
{
    while (input_.size() >= frame_header_bytes) {
        const auto size = frame_size(input_.view());
        if (size > limits::frame_bytes) {
            log::error("link: a frame of ", size, " bytes, the limit is ", limits::frame_bytes);
            return false;
        }
        if (input_.size() < frame_header_bytes + size)
            return true;
        const auto body = input_.view().subspan(frame_header_bytes, size);
        const std::string_view term{reinterpret_cast<const char*>(body.data()), body.size()};
        if (trace_)
            trace_(direction::from_vm, traced_as, term);
        dispatch(term, *controller_, *out_);
        input_.consume(frame_header_bytes + size);
    }
    input_.release_if_large(limits::link_data_bytes);
    return true;
}

void port_link::tell_log(log::level level, std::string text)
{
    asio::post(context_, [out = out_, level, text = std::move(text)] { out->tell_log(level, text); });
}

void port_link::finish(end why)
{
    // Later: behind the log line that says why.
    if (over_)
        asio::post(context_, [over = std::exchange(over_, nullptr), why] { over(why); });
}

} // namespace etls::link
