#pragma once

#include "base/error.hpp"
#include "tls/openssl_ptr.hpp"

#include <string>
#include <vector>

namespace etls::tls {

/// Credentials as they were given: the bytes, and what to call them when they are wrong.
struct credential_text {
    std::string option; ///< the option that named them
    std::string path;   ///< the file they were read from; empty for bytes given directly
    std::string bytes;  ///< PEM with any number of blocks, or one DER
};

/// Reads a file. Fails with the POSIX name of what went wrong.
result<credential_text> read_credentials(std::string option, const std::string& path);

/// All certificates, in order; PEM blocks of other kinds are passed over. Fails with `no_certificate`, `bad_certificate`.
result<std::vector<x509_ptr>> parse_certificates(const credential_text&);

/// All revocation lists, as above. Fails with `no_crl`, `bad_crl`.
result<std::vector<x509_crl_ptr>> parse_crls(const credential_text&);

/// The first private key. Fails with `no_private_key`, `bad_private_key`, or `encrypted`: nobody is asked for a passphrase.
result<evp_pkey_ptr> parse_private_key(const credential_text&);

} // namespace etls::tls
