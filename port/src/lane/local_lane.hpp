#pragma once

#include "base/error.hpp"
#include "net/unique_fd.hpp"

#include <boost/asio/io_context.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace etls::lane {

/// What a lane shows first; told over the link, good for one lane.
using token = std::array<std::byte, 16>;

/// A token nobody can guess.
token make_token();

/// The AF_UNIX socket that the VM connects its lanes to, in a 0700 directory of its own. Checks who connects
/// (SO_PEERCRED: our user or root) and reads the token; whom it belongs to is the caller's business.
/// Lives on one thread, that of its io_context.
class local_lane_acceptor {
    struct state;

public:
    /// Called with each lane that has shown a token. Whoever does not want it drops the descriptor.
    using arrival = std::function<void(const token&, net::unique_fd)>;

    static result<std::unique_ptr<local_lane_acceptor>> open(boost::asio::io_context&, arrival);

    /// Use `open`.
    local_lane_acceptor(std::string directory, std::string path, std::shared_ptr<state>);
    /// Removes the socket and its directory.
    ~local_lane_acceptor();
    local_lane_acceptor(const local_lane_acceptor&) = delete;
    local_lane_acceptor& operator=(const local_lane_acceptor&) = delete;

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    /// Takes no more lanes.
    void close();

private:
    std::string directory_;
    std::string path_;
    std::shared_ptr<state> state_;
};

} // namespace etls::lane
