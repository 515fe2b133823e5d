#pragma once

#include "control/request.hpp"
#include "lane/link_lane.hpp"
#include "lane/local_lane.hpp"
#include "tls/session.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

/// What the daemon answers and tells, as values.
namespace etls::control {

namespace replies {

struct done {};
struct hello {
    std::string openssl;
    std::string lane_path;
    std::uint64_t threads = 0;
    opaque daemon; ///< its pid, encoded, where it has one
};
struct attached {
    std::uint64_t credit = 0; ///< bytes the VM may send
};
struct listening {
    listener_id listener = 0;
    net::address address;
};
struct opened {
    connection_id connection = 0;
    lane::token token{};
    net::address peer;
    net::address local;
};
struct options {
    option_names names; ///< those of `values` that were asked for
    net::tcp_options values;
};
struct stats {
    std::uint64_t connections = 0;
    std::uint64_t listeners = 0;
    std::uint64_t accepts_waiting = 0;
    std::uint64_t accepted = 0;
    std::uint64_t connected = 0;
    std::uint64_t handshakes = 0;
    std::uint64_t handshake_failures = 0;
    std::uint64_t contexts = 0;
};
struct suites {
    std::vector<std::string> names;
};
struct wrong_version {};

} // namespace replies

using reply = std::variant<replies::done, replies::hello, replies::listening, replies::opened, replies::attached,
                           tls::handshake_info, replies::options, conn::counters, replies::stats, replies::suites,
                           replies::wrong_version, failure>;

/// Where answers go: the link. Called on the control thread.
class outbox : public lane::link_outbox {
public:
    virtual void answer(const opaque& id, const reply&) = 0;
    virtual void tell_ended(const opaque& subject, const conn::end_of_data&) = 0;
};

} // namespace etls::control
