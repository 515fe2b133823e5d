#include "link/channel.hpp"

#include "base/limits.hpp"
#include "link/frames.hpp"
#include "link/lane_terms.hpp"
#include "net/sockets.hpp"

#include <boost/asio/post.hpp>

#include <poll.h>
#include <unistd.h>

#include <utility>

namespace etls::link {

namespace {

byte_view bytes_of(std::string_view text)
{
    return std::as_bytes(std::span{text.data(), text.size()});
}

} // namespace

channel::channel(std::shared_ptr<net::readiness> out, std::string who, tracer trace)
    : out_{std::move(out)}, who_{std::move(who)}, trace_{std::move(trace)}
{
}

// ---- data, written by the lane into the frame itself

std::span<std::byte> channel::begin_data(std::string_view envelope, std::string head, std::size_t most,
                                         const std::shared_ptr<lane::link_lane>& lane)
{
    if (output_.size() >= limits::link_data_bytes || !out_->is_open() || (!parked_.empty() && !resuming_)) {
        parked_.push_back(lane);
        return {};
    }
    data_head_.assign(frame_header_bytes, '\0');
    data_head_ += envelope;
    data_term_at_ = data_head_.size();
    data_head_ += head;
    return output_.prepare(data_head_.size() + most).subspan(data_head_.size(), most);
}

void channel::end_data(std::size_t bytes)
{
    if (bytes == 0)
        return;
    set_data_size(data_head_, bytes);
    const auto size = data_head_.size() + bytes - frame_header_bytes;
    const auto head = frame_header(size);
    std::memcpy(data_head_.data(), head.data(), head.size());
    const auto room = output_.prepare(data_head_.size() + bytes);
    std::memcpy(room.data(), data_head_.data(), data_head_.size());
    if (trace_) {
        trace_(direction::to_vm, who_,
               {reinterpret_cast<const char*>(room.data()) + data_term_at_, data_head_.size() + bytes - data_term_at_});
    }
    output_.commit(data_head_.size() + bytes);
    flush();
}

// ---- frames

void channel::put(std::string_view envelope, std::string_view term)
{
    if (!out_->is_open())
        return;
    if (trace_ && !term.empty()) // some messages of the distribution are all envelope
        trace_(direction::to_vm, who_, term);
    output_.append(frame_header(envelope.size() + term.size()));
    output_.append(bytes_of(envelope));
    output_.append(bytes_of(term));
    flush();
}

void channel::put_tick()
{
    if (!out_->is_open())
        return;
    output_.append(frame_header(0));
    flush();
}

void channel::flush()
{
    while (!output_.empty() && out_->is_open()) {
        const auto bytes = output_.view();
        const auto n = ::write(out_->fd(), bytes.data(), bytes.size());
        if (n >= 0) {
            output_.consume(static_cast<std::size_t>(n));
            written_ += static_cast<std::uint64_t>(n);
            continue;
        }
        if (!net::would_block(net::last_error()))
            return fail(trouble::gone);
        if (output_.size() > limits::link_backlog_bytes)
            return fail(trouble::stalled);
        return out_->on_writable([self = shared_from_this()] {
            self->flush();
            self->resume_lanes();
        });
    }
    output_.release_if_large(limits::link_data_bytes);
}

/// In turns, so that no lane waits behind another one's next portion.
void channel::resume_lanes()
{
    if (resuming_)
        return;
    resuming_ = true;
    for (auto turns = parked_.size(); turns > 0 && output_.size() < limits::link_data_bytes && out_->is_open();
         --turns) {
        const auto lane = parked_.front().lock();
        parked_.pop_front();
        if (lane)
            lane->resume();
    }
    resuming_ = false;
    // Those that found no room again come when there is some; those that had no turn although there is, now.
    if (!parked_.empty() && output_.size() < limits::link_data_bytes && out_->is_open())
        boost::asio::post(out_->executor(), [self = shared_from_this()] { self->resume_lanes(); });
}

void channel::drain(std::chrono::steady_clock::time_point until)
{
    using std::chrono::milliseconds;
    flush();
    for (;;) {
        const auto left = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
        if (output_.empty() || !out_->is_open() || left <= milliseconds{0})
            return;
        pollfd one{out_->fd(), POLLOUT, 0};
        ::poll(&one, 1, static_cast<int>(left.count()));
        flush();
    }
}

void channel::fail(trouble why)
{
    const auto executor = out_->executor();
    close();
    // Later: whoever asked for this flush still stands in the middle of its work.
    if (auto tell = std::exchange(trouble_, nullptr))
        boost::asio::post(executor, [tell = std::move(tell), why] { tell(why); });
}

void channel::close()
{
    out_->close();
    output_.release();
    parked_.clear();
}

} // namespace etls::link
