#pragma once

#include "base/error.hpp"
#include "control/commons.hpp"
#include "control/reply.hpp"
#include "link/cnode_link.hpp"
#include "link/operator_desk.hpp"
#include "link/tracer.hpp"
#include "net/address.hpp"
#include "net/readiness.hpp"
#include "net/unique_fd.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <ei.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace etls::link {

struct cnode_settings {
    std::string name; ///< before the @
    std::string host; ///< behind it
    std::string cookie;
    net::address listen; ///< port 0: any
    bool epmd = true;
    std::chrono::seconds ticktime{60};
};

/// A hidden C-node: takes part in Erlang's distribution, and serves each node that connects. ei does what the protocol asks
/// before nodes talk (epmd, handshake, cookie), on threads of its own, because ei blocks; then the socket is a
/// cnode_link's. Lives on the control thread.
class cnode_server {
public:
    cnode_server(control::commons&, cnode_settings, tracer);
    ~cnode_server();
    cnode_server(const cnode_server&) = delete;
    cnode_server& operator=(const cnode_server&) = delete;

    /// Listens, and registers with epmd. The text: what is in the way.
    std::optional<std::string> start();

    /// Called once a VM has asked to stop; without it only that VM's session ends. Before any VM connects.
    void on_stop_request(std::function<void()> what) { stop_requested_ = std::move(what); }

    /// Ends every session in bounded time, then calls `done`.
    void stop(std::function<void()> done);

    /// After `stop`: whether no node is in the middle of its handshake, or soon none is.
    [[nodiscard]] bool handshakes_are_over() const;

    [[nodiscard]] net::address address() const { return net::local_name(listener_.get()); }

private:
    void take_handshakes();
    void end_handshakes();
    void connected(net::unique_fd, const std::string& node);
    std::optional<std::string> publish();
    void watch_epmd(int fd);
    void on_epmd();
    void publish_again();
    void finish_stop();
    [[nodiscard]] overview now() const;

    control::commons& commons_;
    const cnode_settings settings_;
    const tracer trace_;
    ei_cnode node_{};
    net::unique_fd listener_;
    net::unique_fd wake_; ///< eventfd: readable once the threads are to end
    std::atomic<bool> stopping_ = false;
    std::atomic<int> handshaking_ = 0;     ///< threads that are inside of ei
    std::shared_ptr<net::readiness> epmd_; ///< open as long as we are registered
    boost::asio::steady_timer epmd_timer_;
    std::map<std::string, std::shared_ptr<cnode_link>> links_; ///< by node
    std::function<void()> stop_requested_;
    control::replies::stats ended_;
    std::size_t ending_sessions_ = 0; ///< whose connections still say goodbye
    std::size_t stopping_links_ = 0;
    std::function<void()> stopped_;
    const std::chrono::steady_clock::time_point started_;
    boost::asio::thread_pool helpers_; ///< last: its threads use the others
};

} // namespace etls::link
