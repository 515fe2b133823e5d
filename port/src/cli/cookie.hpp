#pragma once

#include <optional>
#include <string>
#include <variant>

namespace etls::cli {

/// What is wrong, in a line. Never holds the cookie.
struct no_cookie {
    std::string why;
};

/// The cookie of an Erlang cluster: from a file that only its owner can read, as `~/.erlang.cookie` is, or else from
/// ETLSD_COOKIE, which is taken out of the environment; never from the command line, which every user can see.
std::variant<std::string, no_cookie> read_cookie(const std::optional<std::string>& file);

} // namespace etls::cli
