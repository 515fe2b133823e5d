#pragma once

#include "base/log.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace etls::cli {

/// What the command line asks for.
struct settings {
    enum class mode : std::uint8_t { port, echo_server, client, help, version };

    mode what = mode::help;
    unsigned threads = 0; ///< 0: one per core
    log::level level = log::level::notice;
    std::string host; ///< of --listen or --connect; a name or an IP address
    std::string port;
    std::optional<std::string> cert;
    std::optional<std::string> key;
    std::optional<std::string> cacert;
    std::optional<std::string> server_name;
    bool verify = false;
    std::string help;
};

/// Reads the command line. The string: one line saying what is wrong with it.
std::variant<settings, std::string> parse(int argc, const char* const* argv);

} // namespace etls::cli
