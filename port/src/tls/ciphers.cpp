#include "tls/ciphers.hpp"

#include "tls/error_queue.hpp"
#include "tls/library.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace etls::tls {

namespace {

constexpr std::string_view separators = ":,; ";

/// RFC 8446, B.4.
constexpr std::array<std::string_view, 5> tls_1_3_suites{
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",   "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256",
};

/// Every suite's name has a dash or an underscore inside; no keyword of a cipher string has.
bool is_suite_name(std::string_view token)
{
    return token.find_first_of("-_") != std::string_view::npos && token.front() != '-' &&
           token.find_first_of("!+@=") == std::string_view::npos;
}

bool is_tls_1_3_name(std::string_view token)
{
    return std::find(tls_1_3_suites.begin(), tls_1_3_suites.end(), token) != tls_1_3_suites.end();
}

/// OpenSSL's cipher strings know its own names only.
std::string openssl_name(std::string_view token)
{
    if (token.substr(0, 4) == "TLS_") {
        const std::string_view known = OPENSSL_cipher_name(std::string{token}.c_str());
        if (known != "(NONE)")
            return std::string{known};
    }
    return std::string{token};
}

void add(std::string& list, std::string_view name)
{
    if (!list.empty())
        list += ':';
    list += name;
}

bool has_tls_1_2(const cipher_choice& choice, SSL_CTX* context)
{
    return !choice.tls_1_2.empty() && SSL_CTX_set_cipher_list(context, choice.tls_1_2.c_str()) == 1;
}

struct free_stack {
    void operator()(STACK_OF(SSL_CIPHER) * stack) const noexcept { sk_SSL_CIPHER_free(stack); }
};

} // namespace

cipher_choice parse_ciphers(std::string_view text)
{
    cipher_choice choice;
    choice.only_names = true;
    while (true) {
        const auto begin = text.find_first_not_of(separators);
        if (begin == std::string_view::npos)
            return choice;
        text.remove_prefix(begin);
        const auto token = text.substr(0, text.find_first_of(separators));
        text.remove_prefix(token.size());
        if (is_tls_1_3_name(token)) {
            add(choice.tls_1_3, token);
        } else {
            choice.only_names = choice.only_names && is_suite_name(token);
            add(choice.tls_1_2, openssl_name(token));
        }
    }
}

bool apply_ciphers(SSL_CTX* context, const cipher_choice& choice)
{
    const error_queue errors;
    const bool tls_1_2 = has_tls_1_2(choice, context);
    if (!choice.tls_1_3.empty() && SSL_CTX_set_ciphersuites(context, choice.tls_1_3.c_str()) != 1)
        return false;
    if (!choice.only_names)
        return tls_1_2;
    if (!tls_1_2)
        SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    if (choice.tls_1_3.empty())
        SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
    return SSL_CTX_get_min_proto_version(context) <= SSL_CTX_get_max_proto_version(context);
}

result<std::vector<std::string>> cipher_suites(const std::optional<std::string>& filter)
{
    start_library();
    const error_queue errors;
    const ssl_ctx_ptr context{SSL_CTX_new(TLS_method())};
    if (!context)
        throw std::bad_alloc{};
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION);

    const auto choice = filter ? parse_ciphers(*filter) : cipher_choice{};
    if (filter && !apply_ciphers(context.get(), choice))
        return failure{option_error{"ciphers", "no_match", {}}};

    const ssl_ptr session{SSL_new(context.get())};
    if (!session)
        throw std::bad_alloc{};
    const std::unique_ptr<STACK_OF(SSL_CIPHER), free_stack> offered{SSL_get1_supported_ciphers(session.get())};
    std::vector<std::string> names;
    for (int at = 0; at < sk_SSL_CIPHER_num(offered.get()); ++at) {
        const SSL_CIPHER* suite = sk_SSL_CIPHER_value(offered.get(), at);
        const bool tls_1_3 = SSL_CIPHER_get_kx_nid(suite) == NID_kx_any;
        // A filter by keyword asks for what it matches, and TLS 1.3 is not matched by it.
        if (!tls_1_3 || !filter || !choice.tls_1_3.empty())
            names.emplace_back(SSL_CIPHER_get_name(suite));
    }
    if (names.empty())
        return failure{option_error{"ciphers", "no_match", {}}};
    return names;
}

} // namespace etls::tls
