#pragma once

#include "tls/library.hpp"
#include "tls/openssl_ptr.hpp"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

/// Certificates, keys and revocation lists made on the spot.
namespace etls::test {

enum class key_kind { rsa, ecdsa, ed25519 };

inline std::ostream& operator<<(std::ostream& out, key_kind kind)
{
    return out << (kind == key_kind::rsa ? "RSA" : kind == key_kind::ecdsa ? "ECDSA" : "Ed25519");
}

inline void require(bool good, const char* what)
{
    if (!good)
        throw std::runtime_error{what};
}

inline tls::evp_pkey_ptr make_key(key_kind kind)
{
    tls::start_library();
    EVP_PKEY* key = nullptr;
    switch (kind) {
    case key_kind::rsa: {
        // Slow to make, and nothing here depends on two being different.
        static const tls::evp_pkey_ptr shared{EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048})};
        EVP_PKEY_up_ref(shared.get());
        key = shared.get();
        break;
    }
    case key_kind::ecdsa:
        key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
        break;
    case key_kind::ed25519:
        key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
        break;
    }
    require(key != nullptr, "key");
    return tls::evp_pkey_ptr{key};
}

/// What `write` leaves in a BIO.
template <class Write>
std::string written(Write write)
{
    const tls::bio_ptr bio{BIO_new(BIO_s_mem())};
    require(write(bio.get()) == 1, "write");
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &bytes);
    return {bytes, static_cast<std::size_t>(size)};
}

struct identity {
    tls::x509_ptr certificate;
    tls::evp_pkey_ptr key;

    [[nodiscard]] std::string pem() const
    {
        return written([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); });
    }
    [[nodiscard]] std::string der() const
    {
        return written([&](BIO* bio) { return i2d_X509_bio(bio, certificate.get()); });
    }
    [[nodiscard]] std::string key_pem() const
    {
        return written([&](BIO* bio) {
            return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
        });
    }
    [[nodiscard]] std::string key_der() const
    {
        return written([&](BIO* bio) { return i2d_PrivateKey_bio(bio, key.get()); });
    }
    [[nodiscard]] std::string encrypted_key_pem() const
    {
        std::string passphrase = "open sesame";
        return written([&](BIO* bio) {
            return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), EVP_aes_128_cbc(), passphrase.data(),
                                                 static_cast<int>(passphrase.size()), nullptr, nullptr);
        });
    }
};

struct certificate_wish {
    std::string name;         ///< common name
    std::string alternatives; ///< subjectAltName as OpenSSL writes it: "DNS:localhost,IP:127.0.0.1"
    bool authority = false;
    int from_day = -1; ///< from now
    int until_day = 365;
    key_kind key = key_kind::ecdsa;
};

inline const EVP_MD* digest_for(const identity& signer)
{
    return EVP_PKEY_get_id(signer.key.get()) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
}

inline void add_extension(X509* to, X509* issuer, int nid, const std::string& value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    require(extension != nullptr, "extension");
    X509_add_ext(to, extension, -1);
    X509_EXTENSION_free(extension);
}

inline int next_serial()
{
    static std::atomic<int> last{1000};
    return ++last;
}

/// A certificate signed by `issuer`, or by itself.
inline identity issue(const certificate_wish& wish, const identity* issuer = nullptr)
{
    identity made{tls::x509_ptr{X509_new()}, make_key(wish.key)};
    X509* certificate = made.certificate.get();
    const identity& signer = issuer != nullptr ? *issuer : made;
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), next_serial());
    X509_gmtime_adj(X509_getm_notBefore(certificate), wish.from_day * 86400L);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wish.until_day * 86400L);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(wish.name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate.get()));
    X509_set_pubkey(certificate, made.key.get());
    add_extension(certificate, signer.certificate.get(), NID_basic_constraints,
                  wish.authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (wish.authority)
        add_extension(certificate, signer.certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
    if (!wish.alternatives.empty())
        add_extension(certificate, signer.certificate.get(), NID_subject_alt_name, wish.alternatives);
    require(X509_sign(certificate, signer.key.get(), digest_for(signer)) != 0, "sign");
    return made;
}

/// The issuer's revocation list, PEM.
inline std::string revoke(const identity& issuer, const std::vector<const identity*>& revoked)
{
    const tls::x509_crl_ptr list{X509_CRL_new()};
    X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(issuer.certificate.get()));
    ASN1_TIME* time = X509_gmtime_adj(nullptr, -86400);
    X509_CRL_set1_lastUpdate(list.get(), time);
    X509_gmtime_adj(time, 86400);
    X509_CRL_set1_nextUpdate(list.get(), time);
    for (const auto* one : revoked) {
        X509_REVOKED* entry = X509_REVOKED_new();
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(one->certificate.get()));
        X509_gmtime_adj(time, -3600);
        X509_REVOKED_set_revocationDate(entry, time);
        X509_CRL_add0_revoked(list.get(), entry);
    }
    ASN1_TIME_free(time);
    X509_CRL_sort(list.get());
    require(X509_CRL_sign(list.get(), issuer.key.get(), digest_for(issuer)) != 0, "sign");
    return written([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list.get()); });
}

/// A directory for the time of a test.
class scratch_directory {
public:
    scratch_directory()
    {
        std::string name = std::filesystem::temp_directory_path() / "etls-test-XXXXXX";
        require(::mkdtemp(name.data()) != nullptr, "mkdtemp");
        path_ = name;
    }
    ~scratch_directory()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    scratch_directory(const scratch_directory&) = delete;
    scratch_directory& operator=(const scratch_directory&) = delete;

    [[nodiscard]] std::string path(const std::string& name) const { return path_ / name; }

    std::string write(const std::string& name, const std::string& content) const
    {
        std::ofstream{path_ / name, std::ios::binary} << content;
        return path(name);
    }

    /// Certificate, key and further certificates in one file.
    std::string write(const std::string& name, const identity& who, const std::string& further = {}) const
    {
        return write(name, who.pem() + further + who.key_pem());
    }

private:
    std::filesystem::path path_;
};

} // namespace etls::test
