#define BOOST_TEST_MODULE alert
#include "base/posix.hpp"
#include "tls/alert.hpp"
#include "tls/fault.hpp"

#include <boost/test/unit_test.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <cerrno>

namespace tls = etls::tls;

namespace {

unsigned long ssl_error(int reason)
{
    return ERR_PACK(ERR_LIB_SSL, 0, reason);
}

} // namespace

BOOST_AUTO_TEST_CASE(alerts_have_the_names_that_otp_gives_them)
{
    BOOST_TEST(tls::alert_name(0) == "close_notify");
    BOOST_TEST(tls::alert_name(40) == "handshake_failure");
    BOOST_TEST(tls::alert_name(48) == "unknown_ca");
    BOOST_TEST(tls::alert_name(86) == "inappropriate_fallback");
    BOOST_TEST(tls::alert_name(90) == "user_canceled");
    BOOST_TEST(tls::alert_name(112) == "unrecognized_name");
    BOOST_TEST(tls::alert_name(116) == "certificate_required");
    BOOST_TEST(tls::alert_name(120) == "no_application_protocol");
    BOOST_TEST(tls::alert_name(255) == "unsupported/unknown_alert");
}

BOOST_AUTO_TEST_CASE(a_received_alert_is_told_as_received)
{
    const tls::fault what{tls::role::server, ssl_error(SSL_AD_REASON_OFFSET + 42), {}, 42, 0};
    BOOST_TEST(tls::explain(what).description == 42);
    BOOST_TEST(tls::explain(what).text == "TLS server: received fatal alert bad_certificate");
}

BOOST_AUTO_TEST_CASE(a_sent_alert_is_told_with_its_reason)
{
    const tls::fault what{
        tls::role::client, ssl_error(SSL_R_CERTIFICATE_VERIFY_FAILED), 48, {}, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT};
    BOOST_TEST(tls::explain(what).description == 48);
    BOOST_TEST(tls::explain(what).text == "TLS client: sent fatal alert unknown_ca: self-signed certificate");
}

BOOST_AUTO_TEST_CASE(a_warning_received_before_is_not_the_cause)
{
    const tls::fault what{tls::role::client, ssl_error(SSL_R_BAD_SIGNATURE), 51, 100, 0};
    BOOST_TEST(tls::explain(what).description == 51);
}

BOOST_AUTO_TEST_CASE(a_fault_without_an_alert_gets_the_one_the_standard_names)
{
    const auto alone = [](int reason) {
        return int{tls::explain({tls::role::server, ssl_error(reason), {}, {}, 0}).description};
    };
    BOOST_TEST(alone(SSL_R_HTTP_REQUEST) == 10);
    BOOST_TEST(alone(SSL_R_WRONG_VERSION_NUMBER) == 70);
    BOOST_TEST(alone(SSL_R_PACKET_LENGTH_TOO_LONG) == 22);
    BOOST_TEST(alone(SSL_R_LENGTH_TOO_SHORT) == 50);
    BOOST_TEST(alone(SSL_R_LIBRARY_BUG) == 80);
}

BOOST_AUTO_TEST_CASE(an_empty_error_queue_is_no_success)
{
    const auto why = tls::explain({tls::role::client, 0, {}, {}, 0});
    BOOST_TEST(why.description == 80);
    BOOST_TEST(why.text == "TLS client: failed with internal_error: no reason given");
}

BOOST_AUTO_TEST_CASE(errno_values_have_the_names_that_erlang_gives_them)
{
    BOOST_TEST(etls::posix_name(ENOENT) == "enoent");
    BOOST_TEST(etls::posix_name(ECONNREFUSED) == "econnrefused");
    BOOST_TEST(etls::posix_name(EWOULDBLOCK) == "eagain");
    BOOST_TEST(etls::posix_name(EOPNOTSUPP) == "enotsup");
    BOOST_TEST(etls::posix_name(ETIMEDOUT) == "etimedout");
    BOOST_TEST(etls::posix_name(0) == "unknown");
}
