#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

namespace etls::tls {

/// Protocol names as they stand in the ALPN extension (RFC 7301, 3.1): each after a byte with its length.
/// Fails with {option, bad_protocol_name} for a name not of 1 to 255 bytes, {option, too_long} for a list over 65535 bytes.
result<std::string> encode_alpn(const std::vector<std::string>& names, std::string option);

} // namespace etls::tls
