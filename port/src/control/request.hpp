#pragma once

#include "base/log.hpp"
#include "conn/connection.hpp"
#include "net/address.hpp"
#include "net/tcp_options.hpp"
#include "tls/context.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// What the VM may ask for (proto/PROTOCOL.md, 3), as values. How they travel is the link's business.
namespace etls::control {

/// From proto/version.hrl, as the VM's.
constexpr int protocol_version = ETLS_PROTOCOL_VERSION;

/// A term of the VM's that the daemon only echoes, in the encoding it came in.
using opaque = std::string;

using listener_id = std::uint64_t;
using conn::connection_id;

/// Which options of a TCP socket were asked for, in `get_options`.
using option_names = std::vector<std::string>;

namespace commands {

struct hello {
    std::int64_t protocol = 0;
};
struct listen {
    net::address address;
    net::tcp_options tcp;
    tls::context_options tls;
    std::optional<std::string> hostname;
};
struct accept {
    listener_id listener = 0;
};
struct connect {
    /// A name, or an address (its port is `port`, or it is a path).
    std::variant<std::string, net::address> host;
    std::uint16_t port = 0;
    std::optional<net::family> only;
    std::optional<net::address> bind;
    net::tcp_options tcp;
    tls::context_options tls;
    std::optional<std::string> hostname;
    std::optional<std::string> server_name;
};
struct handshake {
    connection_id connection = 0;
    opaque subject;
};
/// The connection's lane is the link.
struct attach {
    connection_id connection = 0;
};
struct cancel {
    opaque request;
};
struct close {
    connection_id connection = 0;
    conn::flow::closing_mode mode = conn::flow::closing_mode::graceful;
    std::chrono::milliseconds stall;
};
struct close_listener {
    listener_id listener = 0;
};
struct set_options {
    std::optional<connection_id> connection; ///< or else the listener
    listener_id listener = 0;
    net::tcp_options tcp;
};
struct get_options {
    std::optional<connection_id> connection; ///< or else the listener
    listener_id listener = 0;
    option_names names;
};
struct info {
    connection_id connection = 0;
};
struct stats {};
struct cipher_suites {
    std::optional<std::string> filter;
};
struct log_level {
    log::level level = log::level::notice;
};
struct reload {};
struct stop {};

} // namespace commands

using command =
    std::variant<commands::hello, commands::listen, commands::accept, commands::connect, commands::handshake,
                 commands::attach, commands::cancel, commands::close, commands::close_listener, commands::set_options,
                 commands::get_options, commands::info, commands::stats, commands::cipher_suites, commands::log_level,
                 commands::reload, commands::stop>;

struct request {
    opaque id;
    command what;
};

/// What a VM sends on a link lane (proto/PROTOCOL.md, 6).
struct lane_term {
    enum class kind : std::uint8_t { data, credit, eof, hangup };

    kind what = kind::data;
    connection_id connection = 0;
    std::uint64_t credit = 0; ///< bytes
    std::string_view data;    ///< into the frame it came in
};

} // namespace etls::control
