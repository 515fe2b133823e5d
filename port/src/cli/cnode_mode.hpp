#pragma once

#include "cli/settings.hpp"

namespace etls::cli {

/// `--cnode`: serves nodes until a signal (or, as told, the end of standard input). The exit status.
int run_cnode(const settings&);

} // namespace etls::cli
