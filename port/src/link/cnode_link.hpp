#pragma once

#include "base/bytes.hpp"
#include "control/commons.hpp"
#include "control/controller.hpp"
#include "link/channel.hpp"
#include "link/distribution.hpp"
#include "link/tracer.hpp"
#include "link/vm_outbox.hpp"
#include "net/readiness.hpp"
#include "net/unique_fd.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace etls::link {

/// The link to one connected node, after the handshake: distribution messages on a TCP socket. What is sent to our
/// registered name is a VM's (its owner being the process that said hello) or an operator's. Lives on the control thread.
class cnode_link : public std::enable_shared_from_this<cnode_link> {
public:
    struct surroundings {
        control::commons& commons;
        std::chrono::milliseconds ticktime;
        tracer trace;
        /// Answers an operator's `term` to the process it names.
        std::function<void(cnode_link&, std::string_view term)> on_operator;
        /// A VM has asked to stop. May be empty: then only its session ends.
        std::function<void()> on_stop_request;
        /// What a session did that ends; its connections may still be saying goodbye.
        std::function<void(const control::replies::stats&)> on_session_end;
        /// They have.
        std::function<void()> on_session_over;
    };

    cnode_link(surroundings, net::unique_fd, std::string node);

    /// Serves the node until the connection ends; `over` is told once, from a fresh stack.
    void run(std::function<void()> over);

    /// Closes every connection of the VM in bounded time, says what there is to say (until `until`), and calls `done`.
    void stop(std::chrono::steady_clock::time_point until, std::function<void()> done);

    /// Ends the connection to the node: it has connected anew.
    void drop(const std::string& why);

    void send(std::string_view pid, std::string_view term);

    [[nodiscard]] const std::string& node() const noexcept { return node_; }
    [[nodiscard]] std::shared_ptr<control::controller> controller() const;

private:
    /// A VM's application: from one hello to its owner's end.
    struct session {
        control::opaque owner;
        std::shared_ptr<vm_outbox> out;
        std::shared_ptr<control::controller> controller;
    };

    void on_readable();
    void receive();
    bool take_frames();
    bool take(std::string_view frame);
    void to_etlsd(const distribution_message&);
    void to_net_kernel(std::string_view payload);
    void begin_session(const control::opaque& owner);
    void end_session(std::function<void()> done = [] {});
    void finish();
    void watch_time();
    void check_time();

    const surroundings around_;
    std::shared_ptr<net::readiness> socket_;
    std::shared_ptr<channel> channel_;
    const std::string node_;
    std::function<void()> over_;
    byte_buffer input_;
    std::unique_ptr<session> session_;
    boost::asio::steady_timer timer_;
    std::chrono::steady_clock::time_point heard_;
    std::chrono::steady_clock::time_point progressed_;
    std::uint64_t written_ = 0;
};

} // namespace etls::link
