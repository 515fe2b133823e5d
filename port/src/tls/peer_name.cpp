#include "tls/peer_name.hpp"

#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include <array>
#include <new>

namespace etls::tls {

namespace {

/// Where the dot of a fully qualified name is dropped. Empty: no name.
std::string plain_name(std::string name)
{
    if (name.find('\0') != std::string::npos)
        return {};
    if (!name.empty() && name.back() == '.')
        name.pop_back();
    return name;
}

} // namespace

bool set_server_name(SSL* ssl, std::string name)
{
    const auto plain = plain_name(std::move(name));
    return !plain.empty() && SSL_set_tlsext_host_name(ssl, plain.c_str()) == 1;
}

bool set_expected_name(SSL* ssl, std::string name)
{
    const auto plain = plain_name(std::move(name));
    if (plain.empty())
        return false; // OpenSSL would take it for no name expected
    auto* param = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, plain.c_str()) == 1)
        return true;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, plain.data(), plain.size()) == 1;
}

void separate_sessions(SSL* ssl, const std::string& name)
{
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    if (EVP_Digest(name.data(), name.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1 ||
        SSL_set_session_id_context(ssl, digest.data(), digest.size()) != 1)
        throw std::bad_alloc{};
}

} // namespace etls::tls
