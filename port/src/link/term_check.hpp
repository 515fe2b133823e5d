#pragma once

#include <cstddef>
#include <string_view>

namespace etls::link {

/// Whether `bytes` are exactly one well-formed term in the external format, version byte included, of the kinds that
/// data can have (no funs), nested no deeper than limits::term_depth. ei's decoders trust every length they read, so
/// nothing reaches them that has not passed here. Reads no byte outside `bytes`.
[[nodiscard]] bool well_formed(std::string_view bytes) noexcept;

/// Bytes of the term that `bytes` begin with, its version byte not among them; 0 where it is not well formed.
[[nodiscard]] std::size_t term_size(std::string_view bytes) noexcept;

} // namespace etls::link
