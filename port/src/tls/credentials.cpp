#include "tls/credentials.hpp"

#include "base/posix.hpp"
#include "tls/error_queue.hpp"
#include "tls/file.hpp"

#include <openssl/pem.h>

#include <limits>
#include <new>
#include <string_view>
#include <utility>

namespace etls::tls {

namespace {

failure wrong(const credential_text& text, std::string kind)
{
    return option_error{text.option, std::move(kind), text.path};
}

bool is_pem(std::string_view bytes)
{
    return bytes.find("-----BEGIN ") != std::string_view::npos;
}

bool is_der(std::string_view bytes)
{
    constexpr char sequence = 0x30; // X.690: everything here is one
    return !bytes.empty() && bytes.front() == sequence && !is_pem(bytes);
}

bio_ptr reader_of(std::string_view bytes)
{
    bio_ptr bio{bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())
                    ? nullptr
                    : BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size()))};
    if (!bio)
        throw std::bad_alloc{};
    return bio;
}

/// The object that is the whole of `bytes`, or null.
template <class Ptr, class Decode>
Ptr decode_der(std::string_view bytes, Decode decode)
{
    const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
    const auto* end = at + bytes.size();
    Ptr object{decode(nullptr, &at, static_cast<long>(bytes.size()))};
    if (at != end)
        object.reset();
    return object;
}

/// Every object of one kind. `read` takes the next PEM block of the kind, `decode` a DER.
template <class Ptr, class Read, class Decode>
result<std::vector<Ptr>> parse_all(const credential_text& text, Read read, Decode decode, std::string none,
                                   std::string bad)
{
    const error_queue errors;
    std::vector<Ptr> found;
    if (is_der(text.bytes)) {
        if (auto object = decode_der<Ptr>(text.bytes, decode))
            found.push_back(std::move(object));
        else
            return wrong(text, std::move(bad));
    } else if (is_pem(text.bytes)) {
        const auto bio = reader_of(text.bytes);
        while (Ptr object{read(bio.get(), nullptr, nullptr, nullptr)})
            found.push_back(std::move(object));
        if (error_queue::last_reason() != PEM_R_NO_START_LINE) // which is how the end of the text is told
            return wrong(text, std::move(bad));
    }
    if (found.empty())
        return wrong(text, std::move(none));
    return found;
}

int decline_passphrase(char*, int, int, void* asked)
{
    *static_cast<bool*>(asked) = true;
    return -1;
}

} // namespace

result<credential_text> read_credentials(std::string option, const std::string& path)
{
    auto content = read_file(path);
    if (const int* error = std::get_if<int>(&content))
        return failure{option_error{std::move(option), std::string{posix_name(*error)}, path}};
    return credential_text{std::move(option), path, std::move(std::get<std::string>(content))};
}

result<std::vector<x509_ptr>> parse_certificates(const credential_text& text)
{
    return parse_all<x509_ptr>(text, PEM_read_bio_X509_AUX, d2i_X509, "no_certificate", "bad_certificate");
}

result<std::vector<x509_crl_ptr>> parse_crls(const credential_text& text)
{
    return parse_all<x509_crl_ptr>(text, PEM_read_bio_X509_CRL, d2i_X509_CRL, "no_crl", "bad_crl");
}

result<evp_pkey_ptr> parse_private_key(const credential_text& text)
{
    const error_queue errors;
    if (is_der(text.bytes)) {
        if (auto key = decode_der<evp_pkey_ptr>(text.bytes, d2i_AutoPrivateKey))
            return key;
        return wrong(text, "bad_private_key");
    }
    const auto bio = reader_of(text.bytes);
    bool asked = false;
    if (evp_pkey_ptr key{PEM_read_bio_PrivateKey(bio.get(), nullptr, decline_passphrase, &asked)})
        return key;
    if (asked)
        return wrong(text, "encrypted");
    return wrong(text, text.bytes.find("PRIVATE KEY-----") == std::string::npos ? "no_private_key" : "bad_private_key");
}

} // namespace etls::tls
