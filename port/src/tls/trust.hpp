#pragma once

#include "base/error.hpp"
#include "tls/context.hpp"
#include "tls/openssl_ptr.hpp"

namespace etls::tls {

/// What the peer's certificate is judged by.
struct trust {
    x509_store_ptr store;      ///< may be shared with other contexts: not to be added to
    std::vector<x509_ptr> own; ///< the certificates of `cacerts` and `cacertfile`; empty: the system's are trusted
    bool check_revocation = false;
};

/// Reads `cacerts`, `cacertfile` and `crls`. With neither of the first two, the system's certificates are trusted.
result<trust> make_trust(const context_options&);

/// The system's certificates are read again for contexts made from now on.
void forget_system_trust();

} // namespace etls::tls
