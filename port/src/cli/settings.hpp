#pragma once

#include "base/log.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace etls::cli {

/// What the command line asks for.
struct settings {
    enum class mode : std::uint8_t { port, cnode, echo_server, client, decode, help, version };

    mode what = mode::help;
    unsigned threads = 0; ///< 0: one per core
    log::level level = log::level::notice;
    std::string host; ///< of --listen, --connect or --cnode (behind the @); a name or an IP address
    std::string port;
    std::optional<std::string> cert;
    std::optional<std::string> key;
    std::optional<std::string> cacert;
    std::optional<std::string> server_name;
    bool verify = false;
    std::string node; ///< of --cnode, before the @
    std::optional<std::string> cookie_file;
    std::optional<std::string> listen_address;
    std::uint16_t dist_port = 0; ///< 0: any
    bool epmd = true;
    unsigned ticktime_s = 60;
    bool until_eof = false;
    std::optional<std::string> trace_link;
    std::string help;
};

/// Reads the command line. The string: one line saying what is wrong with it.
std::variant<settings, std::string> parse(int argc, const char* const* argv);

} // namespace etls::cli
