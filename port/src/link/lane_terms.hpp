#pragma once

#include "control/request.hpp"
#include "link/term_reader.hpp"
#include "link/term_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace etls::link {

/// The terms of link lanes (proto/PROTOCOL.md, 6).
///
/// `{data, Conn, Bin}` without the bytes of Bin, which follow; `set_data_size` says at last how many they are.
std::string data_head(std::uint64_t connection);
void set_data_size(std::string& head, std::size_t bytes);

void encode_credit(term_writer&, std::uint64_t connection, std::size_t bytes);
void encode_eof(term_writer&, std::uint64_t connection);
void encode_hangup(term_writer&, std::uint64_t connection);

/// What stands behind `name` in a tuple of `arity`; nothing where that is no lane term. Its data point into the frame.
std::optional<control::lane_term> read_lane_term(std::string_view name, int arity, term_reader&);

} // namespace etls::link
