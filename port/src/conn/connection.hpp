#pragma once

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "conn/flow.hpp"
#include "net/address.hpp"
#include "net/io_threads.hpp"
#include "net/watched.hpp"
#include "tls/session.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace etls::conn {

using connection_id = std::uint64_t;

/// How the peer's data ended.
struct end_of_data {
    flow::peer_end how = flow::peer_end::none;
    std::optional<failure> why; ///< only where it failed
};

/// Who hears of a connection's life. Called on the connection's I/O thread; each at most once per connection, `gone` last.
class observer {
public:
    virtual ~observer() = default;
    virtual void handshake_over(connection_id, result<tls::handshake_info>) = 0;
    virtual void ended(connection_id, end_of_data) = 0;
    virtual void closed(connection_id) = 0; ///< the close that was asked for is done
    virtual void gone(connection_id) = 0;   ///< every resource is free
};

/// Bytes and calls of one direction of a TCP socket, as inet counts them.
struct traffic {
    std::uint64_t octets = 0;
    std::uint64_t count = 0;
    std::uint64_t max = 0;
    double deviation = 0;

    void add(std::size_t bytes) noexcept;
    [[nodiscard]] std::uint64_t average() const noexcept { return count == 0 ? 0 : octets / count; }
};

struct counters {
    traffic received;
    traffic sent;
    std::uint64_t pending = 0; ///< ciphertext that waits for the peer, bytes
};

/// One TCP connection, its TLS session and its lane, living on one I/O thread: moves bytes between the three and
/// performs what `flow` decides. Public members may be called from any thread; they take effect on the I/O thread,
/// in the order of the calls. It keeps itself alive until `gone`.
class connection : public net::event_loop::watcher, public std::enable_shared_from_this<connection> {
public:
    connection(connection_id, net::io_thread&, net::unique_fd tcp, std::shared_ptr<const tls::context>,
               tls::session_options, std::weak_ptr<observer>);
    ~connection() override;
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    [[nodiscard]] connection_id id() const noexcept { return id_; }
    [[nodiscard]] const net::address& peer() const noexcept { return peer_; }
    [[nodiscard]] const net::address& local() const noexcept { return local_; }

    /// Begins the handshake, and the time in which the lane has to come.
    void start(bool handshake_at_once);
    /// Starts the handshake unless it has begun; its outcome goes to the observer, now or when it is there.
    void ask_handshake();
    void attach_lane(net::unique_fd);
    /// `stall`: given up after so long without progress.
    void close(flow::closing_mode, std::chrono::milliseconds stall);
    /// Says goodbye with what has come so far: for the end of the daemon.
    void wind_up(std::chrono::milliseconds stall);
    /// Runs `use` with the TCP socket, or with -1 where it has closed.
    void with_socket(std::function<void(int fd, net::family)> use);
    void with_counters(std::function<void(const counters&)> use);

private:
    template <class Work>
    void on_thread(Work);

    void on_events(int fd, std::uint32_t events) override;
    void on_turn() override;
    void on_timer() override;

    void on_tcp_readable();
    void on_tcp_writable();
    void on_lane_readable();
    void on_lane_writable();
    void on_deadline(flow::deadline);

    void begin_handshake();
    void tcp_at_end(std::optional<failure> why);
    void tcp_unwritable(boost::system::error_code);
    void drop_outgoing();
    void session_is(tls::session::state);
    void deliver(byte_buffer& plain);
    void transmit(byte_buffer& cipher);
    void lane_at_end(bool hung_up);
    void peek_at_lane();
    void lane_hung_up();
    void end_with(flow::peer_end, std::optional<failure>);

    void pass();
    void advance();
    void perform(flow::step);
    [[nodiscard]] bool could_go_on() const;
    void watch_deadline();
    void stop_timer();
    void tell_handshake();

    const connection_id id_;
    net::io_thread& thread_;
    std::weak_ptr<observer> observer_;
    net::watched tcp_;
    std::optional<net::watched> lane_;
    net::address peer_;
    net::address local_;
    tls::session session_;
    flow flow_;
    byte_buffer to_lane_;                   // plaintext that the lane would not take yet
    byte_buffer to_peer_;                   // ciphertext that the peer would not take yet
    std::optional<failure> why_;            // the handshake or the stream failed
    boost::system::error_code write_error_; // told where reading ends without a better reason
    counters counters_;
    net::event_loop::timer timer_;
    flow::deadline timing_ = flow::deadline::none;
    std::chrono::milliseconds stall_;
    bool progressed_ = false;
    bool queued_ = false; // for another turn
    bool finished_ = false;
};

} // namespace etls::conn
