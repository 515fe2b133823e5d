#pragma once

#include "base/error.hpp"
#include "tls/ciphers.hpp"
#include "tls/openssl_ptr.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace etls::tls {

enum class role : std::uint8_t { client, server };

enum class protocol_version : std::uint8_t { tls_1_2, tls_1_3 };

/// What a user asks of TLS that does not change from connection to connection. Two connections with equal options
/// share one context. Byte strings hold PEM (one or more blocks) or one DER each.
struct context_options {
    std::vector<protocol_version> versions{protocol_version::tls_1_2, protocol_version::tls_1_3};
    bool verify_peer = false;
    bool fail_if_no_peer_cert = false; ///< server only
    bool verify_client_once = false;   ///< server only
    std::vector<std::string> cacerts;
    std::optional<std::string> cacertfile;
    std::vector<std::string> crls;
    std::optional<std::string> certfile; ///< PEM: the leaf, then any intermediates
    std::optional<std::string> keyfile;  ///< defaults to certfile
    std::vector<std::string> chain;      ///< further intermediates to send
    std::optional<std::string> ciphers;  ///< OpenSSL cipher string
    std::vector<std::string> alpn;       ///< client: advertised; server: preferred, best first

    bool operator==(const context_options&) const = default;
};

/// An SSL_CTX ready to make sessions. Immutable once made, shared between threads.
class context {
    struct made_here {};

public:
    /// Reads the files and builds the SSL_CTX. Fails with an `option_error` that names the option, its file and why:
    /// the POSIX name of a failed read, or `no_certificate`, `bad_certificate`, `key_too_small`, `digest_too_weak`,
    /// `no_private_key`, `bad_private_key`, `encrypted`, `key_mismatch`, `no_crl`, `bad_crl`, `no_match` (ciphers),
    /// `empty` (versions), `bad_protocol_name`, `too_long` (ALPN), `required` (a server's certfile; the certfile of a keyfile).
    static result<std::shared_ptr<const context>> make(role, const context_options&);

    context(made_here, role, ssl_ctx_ptr, std::string alpn);
    context(const context&) = delete;
    context& operator=(const context&) = delete;

    [[nodiscard]] SSL_CTX* native() const noexcept { return ctx_.get(); }
    [[nodiscard]] role side() const noexcept { return role_; }

private:
    role role_;
    ssl_ctx_ptr ctx_;
    std::string alpn_; // as in the extension; a server's ALPN callback reads it here
};

} // namespace etls::tls
