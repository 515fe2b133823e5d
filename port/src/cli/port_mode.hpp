#pragma once

#include "cli/settings.hpp"

namespace etls::cli {

/// Serves the VM on standard input and output until it is gone. Returns the exit status (proto/PROTOCOL.md, 7).
int run_port(const settings&);

} // namespace etls::cli
