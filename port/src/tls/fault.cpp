#include "tls/fault.hpp"

#include "tls/alert.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <string>

namespace etls::tls {

namespace {

/// The alert that RFC 8446 names for a fault of the peer that OpenSSL meets without sending any: mostly where what came
/// does not look like TLS at all.
std::uint8_t alert_for(unsigned long code)
{
    if (ERR_GET_LIB(code) != ERR_LIB_SSL)
        return alert::internal_error;
    switch (ERR_GET_REASON(code)) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_UNEXPECTED_MESSAGE:
    case SSL_R_UNEXPECTED_RECORD:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_APP_DATA_IN_HANDSHAKE:
        return alert::unexpected_message;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_UNSUPPORTED_SSL_VERSION:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_BAD_PROTOCOL_VERSION_NUMBER:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_VERSION_TOO_HIGH:
        return alert::protocol_version;
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
    case SSL_R_DATA_LENGTH_TOO_LONG:
        return alert::record_overflow;
    case SSL_R_BAD_LENGTH:
    case SSL_R_BAD_PACKET:
    case SSL_R_BAD_PACKET_LENGTH:
    case SSL_R_LENGTH_MISMATCH:
    case SSL_R_LENGTH_TOO_SHORT:
    case SSL_R_RECORD_LENGTH_MISMATCH:
    case SSL_R_RECORD_TOO_SMALL:
        return alert::decode_error;
    case SSL_R_DECRYPTION_FAILED:
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
        return alert::bad_record_mac;
    default:
        return alert::internal_error;
    }
}

std::string reason_of(const fault& what)
{
    if (ERR_GET_LIB(what.code) == ERR_LIB_SSL && ERR_GET_REASON(what.code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return X509_verify_cert_error_string(what.verification);
    const char* text = ERR_reason_error_string(what.code);
    return text != nullptr ? text : "no reason given";
}

} // namespace

alert_error explain(const fault& what)
{
    const std::string who = what.side == role::client ? "TLS client: " : "TLS server: ";
    // OpenSSL makes its error for a fatal alert received out of the alert's number.
    if (what.received && ERR_GET_REASON(what.code) == SSL_AD_REASON_OFFSET + *what.received)
        return {*what.received, who + "received fatal alert " + std::string{alert_name(*what.received)}};
    const auto description = what.sent.value_or(alert_for(what.code));
    return {description, who + (what.sent ? "sent fatal alert " : "failed with ") +
                             std::string{alert_name(description)} + ": " + reason_of(what)};
}

} // namespace etls::tls
