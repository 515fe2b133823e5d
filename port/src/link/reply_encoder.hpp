#pragma once

#include "base/log.hpp"
#include "conn/connection.hpp"
#include "control/reply.hpp"
#include "link/request_decoder.hpp"
#include "link/term_writer.hpp"

#include <string_view>

namespace etls::link {

// The daemon's side of the wire (proto/PROTOCOL.md, 2 to 4). Each writes one whole term.

void encode_reply(term_writer&, const control::opaque& id, const control::reply&);
/// The error reply to a frame that made no sense; its `id` is there.
void encode_rejection(term_writer&, const senseless&);
void encode_ended(term_writer&, const control::opaque& subject, const conn::end_of_data&);
void encode_log(term_writer&, log::level, std::string_view line);

/// `{ip, Port}` or `{local, bin}`.
void encode_address(term_writer&, const net::address&);

/// What stands behind `error`.
void encode_reason(term_writer&, const failure&);

} // namespace etls::link
