#pragma once

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "control/controller.hpp"
#include "control/reply.hpp"
#include "net/readiness.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace etls::link {

class term_writer;

/// The link to the VM whose port we are: frames of `{packet, 4}` on two descriptors. Only carries: what frames mean is
/// the codec's and the controller's. Lives on the control thread.
class port_link : public control::outbox {
public:
    /// Why the link is over.
    enum class end {
        vm_gone,
        corrupt, ///< a frame over the limit: what follows it cannot be found
        stalled, ///< the VM takes no more
    };

    port_link(boost::asio::io_context&, int in, int out);

    /// Feeds the controller until the end, which is told once.
    void run(std::shared_ptr<control::controller>, std::function<void(end)> over);

    void answer(const control::opaque& id, const control::reply&) override;
    void tell_ended(const control::opaque& subject, const conn::end_of_data&) override;

    /// A log line as an event. Any thread.
    void tell_log(log::level, std::string line);

    /// Writes what waits, blocking no longer than `most`: for the end of the daemon.
    void drain(std::chrono::milliseconds most);

private:
    boost::asio::awaitable<void> read();
    /// Takes whole frames from `input_`; false: one is too big.
    bool take_frames();
    void take(std::string_view frame);
    void put(const term_writer&);
    void flush();
    void finish(end);
    void drop_output();
    [[nodiscard]] bool may_log();

    boost::asio::io_context& context_;
    boost::asio::posix::stream_descriptor in_;
    std::shared_ptr<net::readiness> out_;
    std::shared_ptr<control::controller> controller_;
    std::function<void(end)> over_;
    byte_buffer input_;
    byte_buffer output_;
    std::chrono::steady_clock::time_point second_{};
    int lines_ = 0;
    int suppressed_ = 0;
};

} // namespace etls::link
