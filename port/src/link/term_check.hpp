#pragma once

#include <string_view>

namespace etls::link {

/// Whether `bytes` are exactly one well-formed term in the external format, version byte included, of the kinds that
/// data can have (no funs), nested no deeper than limits::term_depth. ei's decoders trust every length they read, so
/// nothing reaches them that has not passed here. Reads no byte outside `bytes`.
[[nodiscard]] bool well_formed(std::string_view bytes) noexcept;

} // namespace etls::link
