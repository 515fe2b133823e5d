#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace etls::link {

/// Which way a term goes.
enum class direction : std::uint8_t { from_vm, to_vm };

/// Sees every term that passes, before it is acted on or sent. `who`: the node, or "port". May be empty.
using tracer = std::function<void(direction, std::string_view who, std::string_view term)>;

} // namespace etls::link
