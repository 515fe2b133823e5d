#include "tls/context.hpp"

#include "tls/alpn.hpp"
#include "tls/credentials.hpp"
#include "tls/error_queue.hpp"
#include "tls/library.hpp"
#include "tls/trust.hpp"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

namespace etls::tls {

namespace {

/// What is wrong with an option, or nothing.
using complaint = std::optional<failure>;

failure wrong(std::string option, std::string kind, std::string detail = {})
{
    return option_error{std::move(option), std::move(kind), std::move(detail)};
}

int native_version(protocol_version version)
{
    return version == protocol_version::tls_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION;
}

void set_manners(SSL_CTX* ctx, role side)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    // Chains are built once, here, and not (with a search of the trust store) in every handshake.
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    constexpr std::string_view name = "etls";
    SSL_CTX_set_session_id_context(ctx, reinterpret_cast<const unsigned char*>(name.data()), name.size());
    if (side == role::server) {
        SSL_CTX_set_num_tickets(ctx, 1);
        SSL_CTX_set_dh_auto(ctx, 1);
        // Accepted names are kept with the ticket: without that a resumed TLS 1.2 session would have lost its name.
        SSL_CTX_set_tlsext_servername_callback(
            ctx, +[](SSL*, int*, void*) -> int { return SSL_TLSEXT_ERR_OK; });
    }
}

complaint set_versions(SSL_CTX* ctx, const context_options& options)
{
    if (options.versions.empty())
        return wrong("versions", "empty");
    const auto [lowest, highest] = std::minmax_element(options.versions.begin(), options.versions.end());
    SSL_CTX_set_min_proto_version(ctx, native_version(*lowest));
    SSL_CTX_set_max_proto_version(ctx, native_version(*highest));
    return {};
}

complaint set_ciphers(SSL_CTX* ctx, const context_options& options)
{
    if (options.ciphers && !apply_ciphers(ctx, parse_ciphers(*options.ciphers)))
        return wrong("ciphers", "no_match");
    return {};
}

void accept_any_certificate(SSL_CTX* ctx)
{
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, nullptr);
    // OpenSSL would build and check the chain all the same, only to ignore what it finds.
    SSL_CTX_set_cert_verify_callback(
        ctx, +[](X509_STORE_CTX*, void*) -> int { return 1; }, nullptr);
}

complaint set_verification(SSL_CTX* ctx, role side, const context_options& options)
{
    const bool given = !options.cacerts.empty() || options.cacertfile || !options.crls.empty();
    if (!options.verify_peer)
        accept_any_certificate(ctx);
    if (!options.verify_peer && !given)
        return {};
    auto judged_by = make_trust(options);
    if (!judged_by)
        return judged_by.error();
    SSL_CTX_set1_cert_store(ctx, judged_by->store.get());
    if (!options.verify_peer)
        return {};

    int mode = SSL_VERIFY_PEER;
    if (side == role::server && options.fail_if_no_peer_cert)
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    if (side == role::server && options.verify_client_once)
        mode |= SSL_VERIFY_CLIENT_ONCE;
    SSL_CTX_set_verify(ctx, mode, nullptr);
    // Set for the context, not the store, which others may share.
    auto* param = SSL_CTX_get0_param(ctx);
    if (!judged_by->own.empty())
        X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
    if (judged_by->check_revocation)
        X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_CRL_CHECK);
    if (side == role::server)
        for (const auto& authority : judged_by->own)
            if (SSL_CTX_add_client_CA(ctx, authority.get()) != 1)
                throw std::bad_alloc{};
    return {};
}

/// Why OpenSSL would not have a certificate.
std::string refusal()
{
    switch (error_queue::last_reason()) {
    case SSL_R_EE_KEY_TOO_SMALL:
    case SSL_R_CA_KEY_TOO_SMALL:
        return "key_too_small";
    case SSL_R_CA_MD_TOO_WEAK:
        return "digest_too_weak";
    default:
        return "bad_certificate";
    }
}

complaint add_to_chain(SSL_CTX* ctx, const credential_text& text, const std::vector<x509_ptr>& certificates,
                       std::size_t from)
{
    for (; from < certificates.size(); ++from)
        if (SSL_CTX_add1_chain_cert(ctx, certificates[from].get()) != 1)
            return wrong(text.option, refusal(), text.path);
    return {};
}

complaint set_key(SSL_CTX* ctx, X509* leaf, const credential_text& text)
{
    auto key = parse_private_key(text);
    if (!key)
        return key.error();
    if (X509_check_private_key(leaf, key->get()) != 1)
        return wrong(text.option, "key_mismatch", text.path);
    if (SSL_CTX_use_PrivateKey(ctx, key->get()) != 1)
        return wrong(text.option, "bad_private_key", text.path);
    return {};
}

complaint set_certificate(SSL_CTX* ctx, role side, const context_options& options)
{
    if (!options.certfile) {
        if (side == role::server || options.keyfile || !options.chain.empty())
            return wrong("certfile", "required");
        return {};
    }
    auto text = read_credentials("certfile", *options.certfile);
    if (!text)
        return text.error();
    auto certificates = parse_certificates(*text);
    if (!certificates)
        return certificates.error();
    X509* leaf = certificates->front().get();
    if (SSL_CTX_use_certificate(ctx, leaf) != 1)
        return wrong(text->option, refusal(), text->path);

    if (options.keyfile) {
        auto key_text = read_credentials("keyfile", *options.keyfile);
        if (!key_text)
            return key_text.error();
        if (auto why = set_key(ctx, leaf, *key_text))
            return why;
    } else if (auto why = set_key(ctx, leaf, *text)) {
        return why;
    }

    if (auto why = add_to_chain(ctx, *text, *certificates, 1))
        return why;
    for (const auto& bytes : options.chain) {
        const credential_text further{"chain", {}, bytes};
        auto more = parse_certificates(further);
        if (!more)
            return more.error();
        if (auto why = add_to_chain(ctx, further, *more, 0))
            return why;
    }
    const bool chain_given = certificates->size() > 1 || !options.chain.empty();
    const bool authorities_given = !options.cacerts.empty() || options.cacertfile;
    if (!chain_given && authorities_given)
        // As ssl does it; what cannot be completed is sent as it is.
        SSL_CTX_build_cert_chain(ctx, SSL_BUILD_CHAIN_FLAG_NO_ROOT | SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR |
                                          SSL_BUILD_CHAIN_FLAG_CLEAR_ERROR);
    return {};
}

/// RFC 7301, 3.2: the server's own order decides; no protocol in common is fatal.
int select_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered,
                    unsigned int offered_size, void* preferred)
{
    const auto& own = *static_cast<const std::string*>(preferred);
    unsigned char* match = nullptr;
    const int how = SSL_select_next_proto(&match, chosen_size, reinterpret_cast<const unsigned char*>(own.data()),
                                          static_cast<unsigned int>(own.size()), offered, offered_size);
    *chosen = match;
    return how == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

} // namespace

result<std::shared_ptr<const context>> context::make(role side, const context_options& options)
{
    start_library();
    const error_queue errors;
    ssl_ctx_ptr ctx{SSL_CTX_new(side == role::client ? TLS_client_method() : TLS_server_method())};
    if (!ctx)
        throw std::bad_alloc{};
    set_manners(ctx.get(), side);
    auto alpn =
        encode_alpn(options.alpn, side == role::client ? "alpn_advertised_protocols" : "alpn_preferred_protocols");
    if (!alpn)
        return alpn.error();
    if (auto why = set_versions(ctx.get(), options))
        return *why;
    if (auto why = set_ciphers(ctx.get(), options))
        return *why;
    if (auto why = set_verification(ctx.get(), side, options))
        return *why;
    if (auto why = set_certificate(ctx.get(), side, options))
        return *why;
    return std::shared_ptr<const context>{
        std::make_shared<context>(made_here{}, side, std::move(ctx), std::move(*alpn))};
}

context::context(made_here, role side, ssl_ctx_ptr ctx, std::string alpn)
    : role_{side}, ctx_{std::move(ctx)}, alpn_{std::move(alpn)}
{
    if (alpn_.empty())
        return;
    if (role_ == role::server)
        SSL_CTX_set_alpn_select_cb(ctx_.get(), select_protocol, &alpn_);
    else if (SSL_CTX_set_alpn_protos(ctx_.get(), reinterpret_cast<const unsigned char*>(alpn_.data()),
                                     static_cast<unsigned int>(alpn_.size())) != 0) // 0 is success here
        throw std::bad_alloc{};
}

} // namespace etls::tls
