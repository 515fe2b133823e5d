#include "lane/link_lane.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "net/sockets.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace etls::lane {

namespace {

/// Small grants cost a term each; the VM is never left with less than half of its window for long.
constexpr std::size_t worth_granting = limits::lane_window_bytes / 4;

} // namespace

link_lane::link_lane(boost::asio::io_context& context, std::uint64_t connection, net::unique_fd socket,
                     std::shared_ptr<link_outbox> outbox, std::function<void()> gone)
    : connection_{connection},
      socket_{context, std::move(socket)},
      outbox_{std::move(outbox)},
      gone_{std::move(gone)},
      allowance_{limits::lane_window_bytes}
{
}

void link_lane::begin()
{
    wait();
}

// ---- from the VM

bool link_lane::data(byte_view bytes)
{
    if (!socket_.is_open() || vm_ended_ || vm_gone_)
        return true;
    if (bytes.size() > allowance_ || bytes.size() > limits::lane_data_bytes) {
        log::warning("connection ", connection_, ": the VM sent ", bytes.size(), " bytes where ",
                     std::min(allowance_, limits::lane_data_bytes), " were allowed, aborted");
        outbox_->put_hangup(connection_);
        close();
        return false;
    }
    allowance_ -= bytes.size();
    write(bytes);
    settle();
    return true;
}

void link_lane::grant(std::uint64_t bytes)
{
    // A VM may grant as often as it likes: more than this it cannot mean.
    credit_ = std::min(credit_ + std::min(bytes, limits::lane_credit_bytes), limits::lane_credit_bytes);
    if (!socket_.is_open() || vm_gone_ || !data_waits_)
        return;
    data_waits_ = false;
    on_readable();
}

void link_lane::end()
{
    vm_ended_ = true;
    settle();
}

void link_lane::hang_up()
{
    vm_gone_ = true;
    settle();
}

// ---- from the link

void link_lane::resume()
{
    parked_ = false;
    if (socket_.is_open())
        on_readable();
}

// ---- from the connection

void link_lane::on_readable()
{
    if (vm_gone_ || eof_told_)
        return settle();
    if (credit_ == 0) {
        std::byte one{};
        const auto n = ::recv(socket_.fd(), &one, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n > 0)
            data_waits_ = true;
        else if (n == 0 || !net::would_block(net::last_error()))
            tell_eof();
        return settle();
    }
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(credit_, limits::lane_data_bytes));
    const auto room = outbox_->begin_data(connection_, most, shared_from_this());
    if (room.empty()) {
        parked_ = true;
        return;
    }
    const auto n = ::recv(socket_.fd(), room.data(), most, MSG_DONTWAIT);
    const bool failed = n < 0 && !net::would_block(net::last_error());
    outbox_->end_data(n > 0 ? static_cast<std::size_t>(n) : 0);
    if (n > 0)
        credit_ -= static_cast<std::uint64_t>(n);
    else if (n == 0 || failed)
        tell_eof();
    settle();
}

void link_lane::on_writable()
{
    write({});
    settle();
}

/// The connection has closed its end: what it left to read is still the VM's, what the VM sends goes nowhere.
void link_lane::on_hangup()
{
    deaf_ = true;
    write({});
    settle();
}

/// Hands `bytes` to the connection, after what waits for it already.
void link_lane::write(byte_view bytes)
{
    const auto try_send = [this](byte_view from) -> std::size_t {
        if (deaf_)
            return from.size(); // as good as taken: the VM must not wait for it
        const auto n = ::send(socket_.fd(), from.data(), from.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            return static_cast<std::size_t>(n);
        deaf_ = !net::would_block(net::last_error());
        return deaf_ ? from.size() : 0;
    };
    if (!waiting_.empty()) {
        const auto n = try_send(waiting_.view());
        waiting_.consume(n);
        taken(n);
    }
    if (waiting_.empty()) {
        waiting_.release();
        if (!bytes.empty()) {
            const auto n = try_send(bytes);
            taken(n);
            bytes = bytes.subspan(n);
        }
    }
    waiting_.append(bytes);
}

void link_lane::taken(std::size_t bytes)
{
    ungranted_ += bytes;
    if (ungranted_ < worth_granting || vm_ended_ || vm_gone_)
        return;
    allowance_ += ungranted_;
    outbox_->put_credit(connection_, std::exchange(ungranted_, 0));
}

/// After each event: passes the VM's end on once all data before it has been, and waits for what is worth waiting for.
void link_lane::settle()
{
    if (!socket_.is_open())
        return;
    if (waiting_.empty()) {
        if (vm_gone_)
            return close();
        if (vm_ended_ && !std::exchange(end_passed_on_, true))
            ::shutdown(socket_.fd(), SHUT_WR);
    }
    if (eof_told_ && deaf_) {
        outbox_->put_hangup(connection_);
        return close();
    }
    wait();
}

void link_lane::wait()
{
    const auto then = [this](void (link_lane::*event)()) {
        return [self = shared_from_this(), event] { (*self.*event)(); };
    };
    if (!eof_told_ && !vm_gone_ && !data_waits_ && !parked_)
        socket_.on_readable(then(&link_lane::on_readable));
    if (!waiting_.empty())
        socket_.on_writable(then(&link_lane::on_writable));
    if (!deaf_)
        socket_.on_hangup(then(&link_lane::on_hangup));
}

void link_lane::tell_eof()
{
    eof_told_ = true;
    outbox_->put_eof(connection_);
}

void link_lane::close()
{
    if (!socket_.is_open())
        return;
    socket_.close();
    waiting_.release();
    if (const auto gone = std::exchange(gone_, nullptr))
        gone();
}

} // namespace etls::lane
