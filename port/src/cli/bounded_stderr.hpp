#pragma once

#include "base/log.hpp"

namespace etls::cli {

/// A sink for a daemon that serves several VMs on its own: lines to stderr, so many a second at most, and none that would
/// have to wait. What is left out is counted, and told when there is room again: nobody who fills the log, or does not
/// read it, holds up a connection.
log::sink bounded_stderr();

} // namespace etls::cli
