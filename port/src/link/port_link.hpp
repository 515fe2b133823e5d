#pragma once

#include "base/bytes.hpp"
#include "control/controller.hpp"
#include "link/channel.hpp"
#include "link/tracer.hpp"
#include "link/vm_outbox.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace etls::link {

/// The link to the VM whose port we are: frames of `{packet, 4}` on two descriptors. Only carries: what frames mean is
/// the codec's and the controller's. Lives on the control thread.
class port_link {
public:
    /// Why the link is over.
    enum class end {
        vm_gone,
        corrupt, ///< a frame over the limit: what follows it cannot be found
        stalled, ///< the VM takes no more
    };

    port_link(boost::asio::io_context&, int in, int out, tracer trace = {});

    /// What the controller answers through.
    [[nodiscard]] const std::shared_ptr<vm_outbox>& out() const noexcept { return out_; }

    /// Feeds the controller until the end, which is told once.
    void run(std::shared_ptr<control::controller>, std::function<void(end)> over);

    /// A log line as an event. Any thread.
    void tell_log(log::level, std::string line);

    /// Writes what waits, blocking no longer than `most`: for the end of the daemon.
    void drain(std::chrono::milliseconds most) { channel_->drain(std::chrono::steady_clock::now() + most); }

private:
    boost::asio::awaitable<void> read();
    /// Takes whole frames from `input_`; false: one is too big.
    bool take_frames();
    void finish(end);

    boost::asio::io_context& context_;
    boost::asio::posix::stream_descriptor in_;
    std::shared_ptr<channel> channel_;
    std::shared_ptr<vm_outbox> out_;
    tracer trace_;
    std::shared_ptr<control::controller> controller_;
    std::function<void(end)> over_;
    byte_buffer input_;
};

} // namespace etls::link
