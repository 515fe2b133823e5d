#pragma once

#include "base/error.hpp"
#include "tls/context.hpp"

#include <cstdint>
#include <optional>

namespace etls::tls {

/// What was noted while a session failed.
struct fault {
    role side = role::client;
    unsigned long code = 0; ///< OpenSSL's, from the error queue; 0: it gave none
    std::optional<std::uint8_t> sent;
    std::optional<std::uint8_t> received;
    long verification = 0; ///< X509_V_…, where `code` says that the peer's certificate was refused
};

/// The alert that ended the session, and for people who raised it and why. Decided by numbers only.
[[nodiscard]] alert_error explain(const fault&);

} // namespace etls::tls
