#pragma once

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "tls/context.hpp"
#include "tls/openssl_ptr.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace etls::tls {

/// What one connection asks of TLS beyond its context.
struct session_options {
    std::optional<std::string> server_name; ///< SNI to send; clients only
    std::optional<std::string> hostname;    ///< DNS name or IP address the peer's certificate must carry
};

/// What the handshake agreed on.
struct handshake_info {
    std::string version; ///< "tlsv1.2" or "tlsv1.3"
    std::string cipher;  ///< OpenSSL's name
    std::string cipher_standard;
    bool resumed = false;
    std::vector<std::string> peer_chain; ///< DER, leaf first; empty without a certificate
    std::optional<std::string> alpn;
    std::optional<std::string> server_name; ///< the SNI sent (client) or received (server)
};

/// One TLS connection as a pure machine: ciphertext in, plaintext and ciphertext out. It knows no socket, no clock and
/// no thread; every call completes at once.
///
/// States, in order: handshaking → established → ended. `ended` is about the peer's data: it will send no more. After an
/// orderly end (close_notify) `send` still works; after a failure nothing does.
class session {
public:
    enum class state : std::uint8_t { handshaking, established, ended, failed };

    session(std::shared_ptr<const context>, session_options);
    ~session();
    session(session&&) noexcept;
    session& operator=(session&&) = delete;

    /// Begins the handshake: a client's ClientHello goes to `out`; a server has nothing to say yet.
    state start(byte_buffer& out);

    /// Takes ciphertext, all of it, in any portions. Plaintext is appended to `plain`, what is to be sent to the peer
    /// (handshake, alerts, KeyUpdate) to `out`. Bytes after the end are dropped.
    state receive(byte_view ciphertext, byte_buffer& plain, byte_buffer& out);

    /// Encrypts `plain` into `out`. Precondition: established or ended, and `close` not called.
    state send(byte_view plain, byte_buffer& out);

    /// TLS 1.3: new keys for what is sent from now on, and where `both_ways` the peer is asked for new ones too. Does
    /// nothing in TLS 1.2. Precondition: as for `send`. (By itself the session does so before its keys wear out.)
    state update_keys(bool both_ways, byte_buffer& out);

    /// Plaintext given to `send` that cannot go out while the peer is halfway through a handshake message, bytes; goes
    /// with a later `receive`. Nearly always 0. Whoever has a choice sends no more meanwhile: over 1 MiB is a failure.
    [[nodiscard]] std::size_t held() const noexcept;

    /// Whether plaintext or close_notify waits for the peer to finish its handshake message.
    [[nodiscard]] bool owes() const noexcept;

    /// Says close_notify (once; nothing when the handshake has not finished or the session failed).
    void close(byte_buffer& out);

    [[nodiscard]] state current() const noexcept;

    /// Why, in state `failed`: the alert this side sent or received. Where OpenSSL gave up without an alert, the alert that
    /// RFC 8446 names for the fault.
    [[nodiscard]] const alert_error& why() const noexcept;

    /// Precondition: the handshake has finished.
    [[nodiscard]] handshake_info info() const;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace etls::tls
