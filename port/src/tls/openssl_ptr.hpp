#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>

namespace etls::tls {

/// Frees an OpenSSL object with the library's own function for its type.
template <auto Free>
struct freed_by {
    template <class T>
    void operator()(T* object) const noexcept
    {
        Free(object);
    }
};

template <class T, auto Free>
using owned = std::unique_ptr<T, freed_by<Free>>;

// Owning handles. A raw pointer of these types is always borrowed.
using bio_ptr = owned<BIO, BIO_free>;
using bio_method_ptr = owned<BIO_METHOD, BIO_meth_free>;
using evp_pkey_ptr = owned<EVP_PKEY, EVP_PKEY_free>;
using ssl_ctx_ptr = owned<SSL_CTX, SSL_CTX_free>;
using ssl_ptr = owned<SSL, SSL_free>;
using x509_ptr = owned<X509, X509_free>;
using x509_crl_ptr = owned<X509_CRL, X509_CRL_free>;
using x509_store_ptr = owned<X509_STORE, X509_STORE_free>;

} // namespace etls::tls
