#pragma once

#include <cstdint>
#include <string_view>

namespace etls::tls {

/// Alert descriptions that the code itself speaks of (RFC 8446, 6).
namespace alert {
constexpr std::uint8_t close_notify = 0;
constexpr std::uint8_t unexpected_message = 10;
constexpr std::uint8_t bad_record_mac = 20;
constexpr std::uint8_t record_overflow = 22;
constexpr std::uint8_t handshake_failure = 40;
constexpr std::uint8_t bad_certificate = 42;
constexpr std::uint8_t certificate_revoked = 44;
constexpr std::uint8_t certificate_expired = 45;
constexpr std::uint8_t illegal_parameter = 47;
constexpr std::uint8_t unknown_ca = 48;
constexpr std::uint8_t decode_error = 50;
constexpr std::uint8_t decrypt_error = 51;
constexpr std::uint8_t protocol_version = 70;
constexpr std::uint8_t insufficient_security = 71;
constexpr std::uint8_t internal_error = 80;
constexpr std::uint8_t no_renegotiation = 100;
constexpr std::uint8_t certificate_required = 116;
constexpr std::uint8_t no_application_protocol = 120;
} // namespace alert

/// OTP's name of an alert: "handshake_failure", "unknown_ca", …; "unsupported/unknown_alert" for a number without one.
[[nodiscard]] std::string_view alert_name(std::uint8_t description) noexcept;

} // namespace etls::tls
