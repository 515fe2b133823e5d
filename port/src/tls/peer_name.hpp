#pragma once

#include "tls/openssl_ptr.hpp"

#include <string>

namespace etls::tls {

/// Sets the SNI a client sends. A trailing dot is left off (RFC 6066, 3). False: no name that can be sent.
[[nodiscard]] bool set_server_name(SSL*, std::string name);

/// Sets the DNS name or IP address that the peer's certificate must carry. False: it is neither.
[[nodiscard]] bool set_expected_name(SSL*, std::string name);

/// Keeps sessions in which different names were expected of the peer from being resumed for one another: the peer's
/// certificate is not looked at again then.
void separate_sessions(SSL*, const std::string& name);

} // namespace etls::tls
