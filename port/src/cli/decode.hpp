#pragma once

#include <iosfwd>

namespace etls::cli {

/// `--decode`: prints the one term that `in` holds to its end as Erlang's syntax, redacted as in a trace (term_text).
/// It may have the frame's length in front of it or not. Returns the exit status: 2, and one line on `err`, where the
/// input is no such thing.
int run_decode(std::istream& in, std::ostream& out, std::ostream& err);

} // namespace etls::cli
