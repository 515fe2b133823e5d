#pragma once

#include "base/bytes.hpp"
#include "net/readiness.hpp"
#include "net/unique_fd.hpp"

#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace etls::lane {

class link_lane;

/// Where the terms of link lanes go (proto/PROTOCOL.md, 6): the link. On the control thread.
class link_outbox {
public:
    virtual ~link_outbox() = default;
    /// Room for `most` bytes of plaintext of `connection`, in the very frame that will carry them; then `end_data` with
    /// how many there are (0: no frame). Empty: the link has enough to do, and `lane` is resumed when it has not.
    virtual std::span<std::byte> begin_data(std::uint64_t connection, std::size_t most,
                                            const std::shared_ptr<link_lane>& lane) = 0;
    virtual void end_data(std::size_t bytes) = 0;
    virtual void put_credit(std::uint64_t connection, std::size_t bytes) = 0;
    virtual void put_eof(std::uint64_t connection) = 0;
    virtual void put_hangup(std::uint64_t connection) = 0;
};

/// A connection's lane as data terms on the link, with credit both ways. Its other end is the stream socket that the
/// connection has for a lane, so that a connection knows one kind of lane only. Lives on the control thread; keeps
/// itself alive while its socket is open.
///
///     VM ──data (within what we granted)──► waiting ──► socket ──► connection
///     VM ◄─data (within what it granted)── socket ◄── connection
class link_lane : public std::enable_shared_from_this<link_lane> {
public:
    /// `gone` is called once, when the lane is closed from either side.
    link_lane(boost::asio::io_context&, std::uint64_t connection, net::unique_fd, std::shared_ptr<link_outbox>,
              std::function<void()> gone);

    /// Watches for what the connection sends.
    void begin();

    // What the VM says.
    /// False: it broke its credit, and the connection is to be aborted.
    [[nodiscard]] bool data(byte_view);
    void grant(std::uint64_t bytes);
    void end();
    void hang_up();

    /// The link takes data again.
    void resume();

private:
    void on_readable();
    void on_writable();
    void on_hangup();
    void wait();
    void write(byte_view);
    void taken(std::size_t bytes);
    void settle();
    void tell_eof();
    void close();

    const std::uint64_t connection_;
    net::readiness socket_;
    std::shared_ptr<link_outbox> outbox_;
    std::function<void()> gone_;
    byte_buffer waiting_;       // what the connection's socket would not take yet
    std::uint64_t credit_ = 0;  // what the VM lets us send
    std::size_t allowance_;     // what we let the VM send
    std::size_t ungranted_ = 0; // what the connection took and the VM was not told of
    bool data_waits_ = false;   // seen, and no credit for it
    bool parked_ = false;       // until `resume`
    bool deaf_ = false;         // the connection takes no more
    bool vm_ended_ = false;
    bool vm_gone_ = false;
    bool end_passed_on_ = false;
    bool eof_told_ = false;
};

} // namespace etls::lane
