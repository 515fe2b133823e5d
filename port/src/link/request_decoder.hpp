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

/// Reads one frame (proto/PROTOCOL.md, 2 and 3). Takes any bytes at all.
std::variant<control::request, senseless> decode_request(std::string_view frame);

} // namespace etls::link
