#pragma once

#include "base/error.hpp"
#include "tls/openssl_ptr.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace etls::tls {

/// What a `ciphers` option asks for.
///
/// A text made only of suite names is an allow-list for all versions: a version of which it names no suite is not offered.
/// A text with keywords or operators ("HIGH:!aNULL") rules TLS 1.2 only, as OpenSSL has it, and leaves the suites of
/// TLS 1.3 as they are unless it names some.
struct cipher_choice {
    std::string tls_1_2;     ///< for SSL_CTX_set_cipher_list
    std::string tls_1_3;     ///< for SSL_CTX_set_ciphersuites
    bool only_names = false; ///< an allow-list

    bool operator==(const cipher_choice&) const = default;
};

/// Takes OpenSSL's names and IANA's, apart by colons, commas, semicolons or spaces.
[[nodiscard]] cipher_choice parse_ciphers(std::string_view);

/// Sets the suites of a context, and narrows its versions to those that have suites left. False: none is left.
[[nodiscard]] bool apply_ciphers(SSL_CTX*, const cipher_choice&);

/// The names of the cipher suites that such a text admits (without one: what is offered by default), in order of
/// preference. Fails with {ciphers, no_match}.
result<std::vector<std::string>> cipher_suites(const std::optional<std::string>& filter);

} // namespace etls::tls
