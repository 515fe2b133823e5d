#pragma once

#include "base/error.hpp"
#include "control/request.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace etls::link {

/// A frame that asks for nothing that exists.
struct senseless {
    std::optional<control::opaque> id; ///< whom to answer, where that could be read
    failure why;
    std::string unknown_command; ///< where it was that
};

using message = std::variant<control::request, control::lane_term, senseless>;

/// Reads one term of a VM's (proto/PROTOCOL.md, 2, 3 and 6). Takes any bytes at all; a lane term's data point into them.
message decode_message(std::string_view frame);

} // namespace etls::link
