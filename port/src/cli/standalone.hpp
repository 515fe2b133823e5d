#pragma once

#include "cli/settings.hpp"

namespace etls::cli {

// TLS without Erlang, by the same connections and lanes that serve the VM: what works here works there. Each returns
// the exit status: 0, or 3 where it could not start or, for the client, 1 where the connection failed.

/// Listens and sends back what comes, until SIGINT, SIGTERM or SIGHUP. Says the address it listens on (port 0 gets one).
int run_echo_server(const settings&);

/// Connects; standard input goes to the peer, what it sends to standard output. Ends when both have ended.
int run_client(const settings&);

} // namespace etls::cli
