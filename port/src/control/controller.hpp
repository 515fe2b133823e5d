#pragma once

#include "control/commons.hpp"
#include "control/reply.hpp"
#include "control/request.hpp"
#include "lane/link_lane.hpp"
#include "net/connector.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace etls::control {

/// Carries out one VM's requests: owns its listeners, connections and waiting accepts and connects, and answers each
/// request once, through the outbox. Lives on the control thread; knows no wire format.
class controller : public conn::observer, public std::enable_shared_from_this<controller> {
public:
    controller(commons&, std::shared_ptr<outbox>);

    void handle(request);
    void handle(const lane_term&);

    /// What this VM has now, and has done.
    [[nodiscard]] replies::stats counts() const;

    /// One connection of this VM's, for an operator's list.
    struct connection_summary {
        connection_id id = 0;
        net::address peer;
        net::address local;
    };
    [[nodiscard]] std::vector<connection_summary> connections() const;

    /// Credential files are read again; listeners of this VM get what they hold now.
    [[nodiscard]] std::optional<failure> reload();

    /// Closes everything, in bounded time, then calls `done`. A second call does nothing.
    void stop(std::function<void()> done);

    /// Called once a VM has asked to stop.
    void on_stop_request(std::function<void()> what) { stop_requested_ = std::move(what); }

    // conn::observer, on I/O threads
    void handshake_over(connection_id, result<tls::handshake_info>) override;
    void ended(connection_id, conn::end_of_data) override;
    void closed(connection_id) override;
    void gone(connection_id) override;

private:
    struct listener;
    struct member {
        std::shared_ptr<conn::connection> connection;
        std::optional<lane::token> token; ///< until its lane has come
        std::optional<opaque> handshake;  ///< the request that waits
        opaque subject;
        std::vector<opaque> closes; ///< the requests that wait
    };

    void carry_out(const opaque& id, commands::hello&);
    void carry_out(const opaque& id, commands::listen&);
    void carry_out(const opaque& id, commands::accept&);
    void carry_out(const opaque& id, commands::connect&);
    void carry_out(const opaque& id, commands::handshake&);
    void carry_out(const opaque& id, commands::attach&);
    void carry_out(const opaque& id, commands::cancel&);
    void carry_out(const opaque& id, commands::close&);
    void carry_out(const opaque& id, commands::close_listener&);
    void carry_out(const opaque& id, commands::set_options&);
    void carry_out(const opaque& id, commands::get_options&);
    void carry_out(const opaque& id, commands::info&);
    void carry_out(const opaque& id, commands::stats&);
    void carry_out(const opaque& id, commands::cipher_suites&);
    void carry_out(const opaque& id, commands::log_level&);
    void carry_out(const opaque& id, commands::reload&);
    void carry_out(const opaque& id, commands::stop&);

    boost::asio::awaitable<void> connect(opaque id, commands::connect, std::shared_ptr<const tls::context>,
                                         std::shared_ptr<net::connect_attempt>);
    boost::asio::awaitable<result<net::unique_fd>> connect_any(const commands::connect&,
                                                               std::shared_ptr<net::connect_attempt>);
    void take(listener&);
    void close_listener(listener&);
    replies::opened enrol(net::unique_fd, std::shared_ptr<const tls::context>, tls::session_options);
    void lane_arrived(connection_id, net::unique_fd);
    void forget(connection_id);
    void dismiss(connection_id);
    [[nodiscard]] member* find(connection_id);
    /// Whether an accept or connect of this Id waits.
    [[nodiscard]] bool waits(const opaque& id) const;
    void answer(const opaque& id, const reply&);
    void later(std::function<void(controller&)>);
    void finish_stop();

    commons& commons_;
    boost::asio::io_context& context_;
    std::shared_ptr<outbox> outbox_;
    std::map<listener_id, std::shared_ptr<listener>> listeners_;
    std::unordered_map<connection_id, member> members_;
    std::unordered_map<connection_id, std::shared_ptr<lane::link_lane>> lanes_;
    std::unordered_map<opaque, listener_id> accepts_;
    std::unordered_map<opaque, std::shared_ptr<net::connect_attempt>> connects_;
    replies::stats counts_;
    std::uint64_t alive_ = 0; ///< connections not yet gone, members or not
    bool greeted_ = false;
    boost::asio::steady_timer stop_timer_;
    std::function<void()> stopped_;
    std::function<void()> stop_requested_;
};

} // namespace etls::control
