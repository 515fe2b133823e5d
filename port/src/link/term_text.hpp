#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace etls::link {

/// Elements of one tuple, list or map that are printed; the rest is "...".
constexpr std::size_t text_elements = 64;

/// Bytes of text from which on a term is cut short, so that no frame makes a trace of megabytes.
constexpr std::size_t text_bytes = 32 * 1024;

/// A binary of harmless text, bytes, that is printed; a longer one is told by its size. Paths and cipher lists fit.
constexpr std::size_t text_binary_bytes = 1024;

/// An integer's bytes that are still printed in decimal: the protocol's own have 8, and the work grows by the square.
constexpr std::size_t text_integer_bytes = 32;

/// A term of the link as Erlang's syntax, in one line of UTF-8, for people; nothing where `bytes` are not well formed.
///
/// Redacted, always: a binary or byte list is told by its size alone, unless it is short text in a place that holds no
/// secret (host and file names, ciphers, ALPN, log lines, error texts, the process in an Id). So neither plaintext nor
/// tokens nor key material can get into a trace, whatever the VM sends.
[[nodiscard]] std::optional<std::string> term_text(std::string_view bytes);

} // namespace etls::link
