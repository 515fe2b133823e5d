#pragma once

#include "base/error.hpp"
#include "control/request.hpp"
#include "lane/local_lane.hpp"
#include "net/io_threads.hpp"
#include "net/unique_fd.hpp"
#include "tls/context_cache.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace etls::control {

/// What all VMs of a daemon share, whose sockets are otherwise each VM's own: threads, contexts, the lane socket, and
/// the numbers, which name one connection or listener of the whole daemon. Outlives every controller.
class commons {
public:
    commons(boost::asio::io_context&, net::io_threads&);
    ~commons();
    commons(const commons&) = delete;
    commons& operator=(const commons&) = delete;

    /// Opens the lane socket. Before any request.
    std::optional<failure> open();
    /// Takes no more lanes.
    void close();
    /// Removes the lane socket and its directory.
    void leave() { acceptor_.reset(); }

    [[nodiscard]] const std::string& lane_path() const { return acceptor_->path(); }
    [[nodiscard]] std::uint64_t next_number() noexcept { return ++last_number_; }

    /// A token for one lane, which goes to `arrival` when it comes.
    lane::token expect_lane(std::function<void(net::unique_fd)> arrival);
    void forget_lane(const lane::token&);

    boost::asio::io_context& context;
    net::io_threads& threads;
    tls::context_cache contexts;
    boost::asio::thread_pool resolvers;
    /// The daemon's own pid, encoded, where the link is one that has pids; else empty.
    opaque self;

private:
    void lane_arrived(const lane::token&, net::unique_fd);

    std::unique_ptr<lane::local_lane_acceptor> acceptor_;
    std::map<lane::token, std::function<void(net::unique_fd)>> expected_;
    /// Begun anywhere, so that what was said to a daemon before this one means nothing here; not so high that a number
    /// would soon need more than an `int` of the external format (27 bits).
    std::uint64_t last_number_;
};

} // namespace etls::control
