#pragma once

#include <string>

namespace etls::cli {

/// Our version, those of OpenSSL, Boost and ei, and the CPU's crypto features that OpenSSL uses here.
std::string version_text();

} // namespace etls::cli
