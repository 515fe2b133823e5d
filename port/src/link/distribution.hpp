#pragma once

#include "control/request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The messages of Erlang's distribution protocol that a C-node meets after the handshake (erl_dist_protocol(3erl), "Protocol
/// between Connected Nodes"). Frames come without atom cache and fragments, because ei's handshake offers neither.
namespace etls::link {

struct distribution_message {
    enum class kind : std::uint8_t {
        to_name, ///< REG_SEND: `from`, `name`, `payload`
        to_pid,  ///< SEND, SEND_SENDER: `payload`
        link,    ///< LINK: `from`
        unlink,  ///< UNLINK_ID: `reference`, `from`
        exit,    ///< EXIT, EXIT2: `from`
        monitor, ///< MONITOR_P: `from`, `to`, `name` where that is one, `reference`
        other,   ///< nothing that concerns us
    };

    kind what = kind::other;
    control::opaque from; ///< the sender's pid
    control::opaque to;   ///< a pid or a name
    std::string name;     ///< the registered name it is for
    control::opaque reference;
    std::string_view payload; ///< a term, version byte included
};

/// Reads one frame, not a tick. Nothing: it is not of this protocol, and the link cannot be trusted any more.
std::optional<distribution_message> read_distribution(std::string_view frame);

/// What stands before a term that is sent to this pid.
std::string send_envelope(std::string_view pid);

/// Whole messages.
std::string unlink_acknowledgement(std::string_view reference, std::string_view self, std::string_view pid);
std::string link_refusal(std::string_view self, std::string_view pid);
std::string monitor_refusal(std::string_view to, std::string_view pid, std::string_view reference);

} // namespace etls::link
