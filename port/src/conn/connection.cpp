#include "conn/connection.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "net/sockets.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace etls::conn {

namespace {

using step = flow::step;

/// A lane's preface has been read by then, so its buffers may change; both are hints that the kernel may cap.
void enlarge_buffers(int lane)
{
    const int bytes = limits::lane_buffer_bytes;
    ::setsockopt(lane, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

failure transport_failure(const boost::system::error_code& ec)
{
    return failure{ec};
}

} // namespace

void traffic::add(std::size_t bytes) noexcept
{
    const auto amount = static_cast<std::uint64_t>(bytes);
    octets += amount;
    ++count;
    max = std::max(max, amount);
    const double off = std::abs(static_cast<double>(amount) - static_cast<double>(average()));
    deviation += (off - deviation) / static_cast<double>(count);
}

connection::connection(connection_id id, net::io_thread& thread, net::unique_fd tcp,
                       std::shared_ptr<const tls::context> context, tls::session_options options,
                       std::weak_ptr<observer> who)
    : id_{id},
      thread_{thread},
      observer_{std::move(who)},
      tcp_{std::move(tcp), net::watched::output::always},
      peer_{net::peer_name(tcp_.fd())},
      local_{net::local_name(tcp_.fd())},
      session_{std::move(context), std::move(options)},
      timer_{thread.loop().no_timer()},
      stall_{limits::close_stall_time}
{
    thread_.load.fetch_add(1, std::memory_order_relaxed);
}

connection::~connection()
{
    thread_.load.fetch_sub(1, std::memory_order_relaxed);
}

template <class Work>
void connection::on_thread(Work work)
{
    thread_.loop().post([self = shared_from_this(), work = std::move(work)]() mutable {
        work(*self);
        self->pass();
    });
}

// ---- asked for by the control thread

void connection::start(bool handshake_at_once)
{
    on_thread([handshake_at_once](connection& self) {
        if (!self.tcp_.begin(self.thread_.loop(), self.shared_from_this()))
            self.tcp_at_end(transport_failure(net::last_error()));
        else if (handshake_at_once)
            self.begin_handshake();
    });
}

void connection::ask_handshake()
{
    on_thread([](connection& self) {
        self.flow_.handshake_asked = true;
        if (self.flow_.handshake == flow::handshake_phase::idle)
            self.begin_handshake();
    });
}

void connection::attach_lane(net::unique_fd lane)
{
    on_thread([lane = std::move(lane)](connection& self) mutable {
        if (self.finished_ || self.flow_.lane != flow::lane_phase::awaited)
            return; // closed meanwhile; dropping the descriptor tells the VM
        enlarge_buffers(lane.get());
        self.lane_.emplace(std::move(lane), net::watched::output::when_blocked);
        if (!self.lane_->begin(self.thread_.loop(), self.shared_from_this())) {
            log::warning("connection ", self.id_, ": its lane cannot be watched: ", net::last_error().message());
            self.flow_.closing = flow::closing_mode::abort;
        }
        self.flow_.lane = flow::lane_phase::attached;
        self.on_lane_writable();
    });
}

void connection::close(flow::closing_mode mode, std::chrono::milliseconds stall)
{
    on_thread([mode, stall](connection& self) {
        self.stall_ = stall;
        const bool too_early = self.flow_.handshake != flow::handshake_phase::done;
        self.flow_.closing = too_early ? flow::closing_mode::abort : std::max(self.flow_.closing, mode);
        self.to_lane_.release();
        self.flow_.to_lane = false;
    });
}

void connection::wind_up(std::chrono::milliseconds stall)
{
    on_thread([stall](connection& self) {
        self.stall_ = stall;
        if (self.flow_.handshake != flow::handshake_phase::done)
            self.flow_.closing = flow::closing_mode::abort;
        else if (self.flow_.closing == flow::closing_mode::none)
            self.flow_.closing = flow::closing_mode::graceful;
        // A VM that lives on does not end its lanes: take what each holds now as its last.
        if (self.flow_.lane == flow::lane_phase::attached) {
            ::shutdown(self.lane_->fd(), SHUT_RD);
            self.lane_->note(EPOLLRDHUP);
        } else
            self.flow_.lane_eof = true;
    });
}

void connection::with_socket(std::function<void(int, net::family)> use)
{
    on_thread([use = std::move(use)](connection& self) {
        use(self.tcp_.is_open() ? self.tcp_.fd() : -1, self.local_.kind());
    });
}

void connection::with_counters(std::function<void(const counters&)> use)
{
    on_thread([use = std::move(use)](connection& self) {
        self.counters_.pending = self.to_peer_.size();
        use(self.counters_);
    });
}

// ---- events

void connection::on_events(int fd, std::uint32_t events)
{
    if (fd == tcp_.fd())
        tcp_.note(events);
    else
        lane_->note(events);
    pass();
}

void connection::on_turn()
{
    queued_ = false;
    pass();
}

void connection::on_timer()
{
    timer_ = thread_.loop().no_timer();
    const auto which = std::exchange(timing_, flow::deadline::none);
    on_deadline(which);
    pass();
}

void connection::begin_handshake()
{
    flow_.handshake = flow::handshake_phase::running;
    auto& out = thread_.cipher;
    const auto state = session_.start(out);
    transmit(out);
    session_is(state);
}

void connection::on_tcp_readable()
{
    const auto input = thread_.input();
    const auto n = ::recv(tcp_.fd(), input.data(), input.size(), 0);
    if (n > 0) {
        if (static_cast<std::size_t>(n) < input.size())
            tcp_.drained();
        counters_.received.add(static_cast<std::size_t>(n));
        if (flow_.handshake == flow::handshake_phase::failed || flow_.end != flow::peer_end::none)
            return; // nothing it says matters any more; only its end does
        auto& plain = thread_.plain;
        auto& out = thread_.cipher;
        const auto state = session_.receive(input.first(static_cast<std::size_t>(n)), plain, out);
        transmit(out);
        deliver(plain);
        session_is(state);
    } else if (n == 0) {
        tcp_.empty();
        tcp_at_end(std::nullopt);
    } else if (const auto ec = net::last_error(); net::would_block(ec)) {
        tcp_.empty();
    } else {
        drop_outgoing();
        tcp_at_end(transport_failure(ec));
    }
}

void connection::on_tcp_writable()
{
    byte_buffer nothing;
    transmit(nothing);
}

void connection::on_lane_readable()
{
    if (flow_.handshake != flow::handshake_phase::done)
        return peek_at_lane();
    const auto input = thread_.input().first(limits::lane_read_bytes);
    const auto n = ::recv(lane_->fd(), input.data(), input.size(), 0);
    if (n > 0) {
        if (static_cast<std::size_t>(n) < input.size())
            lane_->drained();
        progressed_ = true;
        if (!flow_.can_send())
            return; // nobody to send it to; reading on frees the VM's sender
        auto& out = thread_.cipher;
        const auto state = session_.send(input.first(static_cast<std::size_t>(n)), out);
        transmit(out);
        session_is(state);
    } else if (n == 0) {
        lane_at_end(false);
    } else if (net::would_block(net::last_error())) {
        lane_->empty();
    } else {
        lane_at_end(true); // closed with our data unread
    }
}

void connection::on_lane_writable()
{
    byte_buffer nothing;
    deliver(nothing);
}

void connection::on_deadline(flow::deadline which)
{
    switch (which) {
    case flow::deadline::attach:
        log::notice("connection ", id_, ": no lane within ", limits::lane_attach_time.count(), " s, closed");
        flow_.closing = flow::closing_mode::abort;
        break;
    case flow::deadline::stall:
        if (flow_.vm_done()) {
            log::notice("connection ", id_, ": ", peer_.text(), " takes no more data, closing given up");
            flow_.closing = flow::closing_mode::abort;
        } else {
            tcp_unwritable({ETIMEDOUT, boost::system::system_category()});
        }
        break;
    case flow::deadline::linger:
        flow_.tcp_eof = true;
        break;
    case flow::deadline::none:
        break;
    }
}

// ---- what they come to

void connection::session_is(tls::session::state state)
{
    using state_t = tls::session::state;
    flow_.held = session_.owes();
    const bool shaking = flow_.handshake == flow::handshake_phase::running;
    switch (state) {
    case state_t::handshaking:
        break;
    case state_t::established:
    case state_t::ended:
        if (shaking)
            flow_.handshake = flow::handshake_phase::done;
        if (state == state_t::ended && flow_.end == flow::peer_end::none)
            end_with(flow::peer_end::close_notify, std::nullopt);
        break;
    case state_t::failed:
        if (shaking) {
            flow_.handshake = flow::handshake_phase::failed;
            why_ = failure{session_.why()};
        } else if (flow_.end == flow::peer_end::none) {
            end_with(flow::peer_end::failed, failure{session_.why()});
        }
        break;
    }
}

void connection::tcp_at_end(std::optional<failure> why)
{
    flow_.tcp_eof = true;
    if (!why && write_error_)
        why = transport_failure(write_error_);
    if (flow_.handshake == flow::handshake_phase::running || flow_.handshake == flow::handshake_phase::idle) {
        flow_.handshake = flow::handshake_phase::failed;
        why_ = why ? std::move(*why) : failure{named_error{"closed"}};
    } else if (flow_.handshake == flow::handshake_phase::done && flow_.end == flow::peer_end::none) {
        const auto how = why ? flow::peer_end::failed : flow::peer_end::truncated;
        end_with(how, std::move(why));
    }
}

void connection::tcp_unwritable(boost::system::error_code ec)
{
    // What the peer sent before is still to be read and delivered; the reason waits until then.
    write_error_ = ec;
    drop_outgoing();
    if (flow_.end != flow::peer_end::none || flow_.tcp_eof)
        return;
    if (ec.value() == ETIMEDOUT)
        tcp_at_end(transport_failure(ec)); // nothing more will ever be readable
}

/// Nothing can be written to the peer any more.
void connection::drop_outgoing()
{
    flow_.tcp_broken = true;
    to_peer_.release();
    flow_.to_peer = false;
    flow_.glutted = false;
}

void connection::end_with(flow::peer_end how, std::optional<failure> why)
{
    flow_.end = how;
    why_ = std::move(why);
}

/// Hands plaintext to the lane, after what waits for it already.
void connection::deliver(byte_buffer& plain)
{
    if (flow_.vm_done() || flow_.lane == flow::lane_phase::dropped) {
        plain.clear();
        return;
    }
    if (flow_.lane == flow::lane_phase::attached) {
        byte_buffer& first = to_lane_.empty() ? plain : to_lane_;
        while (!first.empty()) {
            const auto bytes = first.view();
            const auto n = ::send(lane_->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n > 0) {
                first.consume(static_cast<std::size_t>(n));
                if (static_cast<std::size_t>(n) < bytes.size()) {
                    lane_->blocked();
                    break;
                }
            } else {
                if (net::would_block(net::last_error())) {
                    lane_->blocked();
                } else {
                    flow_.lane_hung_up = true;
                    to_lane_.release();
                    plain.clear();
                }
                break;
            }
        }
    }
    to_lane_.append(plain.view());
    plain.clear();
    flow_.to_lane = !to_lane_.empty();
    if (!flow_.to_lane)
        to_lane_.release();
}

/// Hands ciphertext to the peer, after what waits for it already.
void connection::transmit(byte_buffer& cipher)
{
    if (flow_.tcp_broken || !tcp_.is_open()) {
        cipher.clear();
        return;
    }
    byte_buffer& first = to_peer_.empty() ? cipher : to_peer_;
    while (!first.empty()) {
        const auto bytes = first.view();
        const auto n = ::send(tcp_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n > 0) {
            counters_.sent.add(static_cast<std::size_t>(n));
            progressed_ = true;
            first.consume(static_cast<std::size_t>(n));
            if (static_cast<std::size_t>(n) < bytes.size()) {
                tcp_.blocked();
                break;
            }
        } else {
            if (const auto ec = net::last_error(); net::would_block(ec)) {
                tcp_.blocked();
            } else {
                cipher.clear();
                tcp_unwritable(ec);
            }
            break;
        }
    }
    to_peer_.append(cipher.view());
    cipher.clear();
    flow_.to_peer = !to_peer_.empty();
    flow_.glutted = to_peer_.size() > limits::unread_answers_bytes;
    if (!flow_.to_peer)
        to_peer_.release();
}

void connection::lane_at_end(bool hung_up)
{
    flow_.lane_eof = true;
    flow_.lane_hung_up = flow_.lane_hung_up || hung_up;
}

/// Before the handshake is over, data stay where they are; the end is the VM's goodbye.
void connection::peek_at_lane()
{
    char byte = 0;
    const auto n = ::recv(lane_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0)
        flow_.lane_early = true;
    else if (n == 0 || !net::would_block(net::last_error()))
        flow_.closing = flow::closing_mode::abort;
    else
        lane_->empty();
}

void connection::lane_hung_up()
{
    if (flow_.handshake == flow::handshake_phase::done)
        flow_.lane_hung_up = true;
    else
        flow_.closing = flow::closing_mode::abort;
}

// ---- deciding and doing

/// One turn: at most one read of each side, so that no connection keeps the others waiting.
void connection::pass()
{
    advance();
    if (flow_.wanted().write_tcp && tcp_.writable()) {
        on_tcp_writable();
        advance();
    }
    if (lane_ && flow_.wanted().write_lane && lane_->writable()) {
        on_lane_writable();
        advance();
    }
    if (flow_.wanted().read_tcp && tcp_.readable()) {
        on_tcp_readable();
        advance();
    }
    if (lane_ && flow_.wanted().read_lane && lane_->readable()) {
        on_lane_readable();
        advance();
    }
    if (lane_ && flow_.wanted().watch_lane && lane_->hung_up()) {
        lane_hung_up();
        advance();
    }
    if (finished_)
        return;
    watch_deadline();
    if (!queued_ && could_go_on()) {
        queued_ = true;
        thread_.loop().call_again(shared_from_this());
    }
}

bool connection::could_go_on() const
{
    const auto want = flow_.wanted();
    return (want.read_tcp && tcp_.readable()) || (want.write_tcp && tcp_.writable()) ||
           (lane_ && ((want.read_lane && lane_->readable()) || (want.write_lane && lane_->writable())));
}

/// Performs what `flow` decides.
void connection::advance()
{
    if (finished_)
        return;
    for (auto next = flow_.next(); next != step::none; next = flow_.next()) {
        perform(next);
        if (next == step::finish)
            return;
    }
}

void connection::perform(step next)
{
    const auto who = observer_.lock();
    switch (next) {
    case step::none:
        break;
    case step::tell_handshake:
        flow_.handshake_told = true;
        tell_handshake();
        if (flow_.handshake == flow::handshake_phase::failed) {
            to_lane_.release();
            flow_.to_lane = false;
        }
        break;
    case step::tell_ended:
        flow_.end_told = true;
        if (who)
            who->ended(id_, {flow_.end, why_});
        break;
    case step::shut_lane:
        flow_.lane_out_shut = true;
        ::shutdown(lane_->fd(), SHUT_WR);
        break;
    case step::say_close_notify: {
        flow_.close_notify_said = true;
        auto& out = thread_.cipher;
        session_.close(out);
        flow_.held = session_.owes();
        transmit(out);
        break;
    }
    case step::send_fin:
        flow_.fin_sent = true;
        ::shutdown(tcp_.fd(), SHUT_WR);
        break;
    case step::tell_closed:
        flow_.closed_told = true;
        if (flow_.closing == flow::closing_mode::abort) {
            // Free what the VM will open again at once (its port, say) before it hears of it.
            tcp_.close();
            if (lane_)
                lane_->close();
            flow_.lane = flow::lane_phase::dropped;
        }
        if (who)
            who->closed(id_);
        break;
    case step::drop_lane:
        flow_.lane = flow::lane_phase::dropped;
        lane_->close();
        to_lane_.release();
        flow_.to_lane = false;
        break;
    case step::finish:
        finished_ = true;
        stop_timer();
        tcp_.close();
        if (lane_)
            lane_->close();
        if (who)
            who->gone(id_);
        break;
    }
}

void connection::tell_handshake()
{
    const auto who = observer_.lock();
    if (!who)
        return;
    if (flow_.handshake == flow::handshake_phase::done)
        who->handshake_over(id_, session_.info());
    else
        who->handshake_over(id_, why_ ? *why_ : failure{named_error{"closed"}});
}

void connection::watch_deadline()
{
    const auto limit = flow_.limit();
    const bool restart = limit == flow::deadline::stall && progressed_;
    progressed_ = false;
    if (limit == timing_ && !restart)
        return;
    timing_ = limit;
    stop_timer();
    if (limit == flow::deadline::none)
        return;
    timer_ =
        thread_.loop().start_timer(limit == flow::deadline::attach ? std::chrono::milliseconds{limits::lane_attach_time}
                                   : limit == flow::deadline::linger ? limits::linger_time
                                                                     : stall_,
                                   weak_from_this());
}

void connection::stop_timer()
{
    thread_.loop().cancel(std::exchange(timer_, thread_.loop().no_timer()));
}

} // namespace etls::conn
