#pragma once

#include "base/bytes.hpp"
#include "lane/link_lane.hpp"
#include "link/tracer.hpp"
#include "net/readiness.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace etls::link {

/// Frames of `{packet, 4}` on a descriptor that may take them slowly. Both links write through it, for everything they
/// say. On the control thread only, so that frames never mix.
class channel : public std::enable_shared_from_this<channel> {
public:
    /// Why nothing more can be said.
    enum class trouble {
        gone,    ///< the other side has closed
        stalled, ///< it takes no more
    };

    /// `who`: how a trace calls the other side.
    channel(std::shared_ptr<net::readiness> out, std::string who, tracer trace);

    /// Told once, from a fresh stack.
    void on_trouble(std::function<void(trouble)> what) { trouble_ = std::move(what); }

    /// `envelope`: what stands before the term in its frame, where the distribution names the receiver.
    void put(std::string_view envelope, std::string_view term);
    /// The frame of no bytes.
    void put_tick();

    /// A frame of `head` and then as many bytes, at most `most`, as `end_data` says; the caller writes them into what it
    /// gets. Empty: there is enough to write already, and `lane` is resumed when there is not.
    std::span<std::byte> begin_data(std::string_view envelope, std::string head, std::size_t most,
                                    const std::shared_ptr<lane::link_lane>& lane);
    void end_data(std::size_t bytes);

    /// Writes what waits, blocking no longer than `until`: for the end of the daemon.
    void drain(std::chrono::steady_clock::time_point until);

    /// Says nothing more.
    void close();

    [[nodiscard]] bool idle() const noexcept { return output_.empty(); }
    /// Bytes the descriptor has taken so far.
    [[nodiscard]] std::uint64_t written() const noexcept { return written_; }

private:
    void flush();
    void fail(trouble);
    void resume_lanes();

    std::shared_ptr<net::readiness> out_;
    const std::string who_;
    const tracer trace_;
    std::function<void(trouble)> trouble_;
    byte_buffer output_;
    std::string data_head_;                             // of the data term that is being made, with its frame's length
    std::size_t data_term_at_ = 0;                      // where in that the term begins
    std::deque<std::weak_ptr<lane::link_lane>> parked_; // lanes with data, first come first
    bool resuming_ = false;
    std::uint64_t written_ = 0;
};

} // namespace etls::link
