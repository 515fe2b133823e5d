#pragma once

#include "base/bytes.hpp"
#include "tls/openssl_ptr.hpp"

namespace etls::tls {

/// What a session's BIO reads from and writes to, borrowed from the caller for the time of one call. OpenSSL so takes
/// records straight from the caller's ciphertext and leaves its own straight in the caller's buffer.
struct memory_channel {
    byte_view input;
    byte_buffer* output = nullptr;
};

/// A BIO over `channel`, which must outlive it. Reading past the input asks for a retry; writing always succeeds.
[[nodiscard]] bio_ptr make_memory_bio(memory_channel& channel);

} // namespace etls::tls
