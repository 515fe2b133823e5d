#pragma once

#include <openssl/err.h>

namespace etls::tls {

/// OpenSSL keeps a queue of errors per thread, and SSL_get_error believes it: it has to be empty before each call that
/// may fail, and is left empty for whoever comes next.
class error_queue {
public:
    error_queue() { empty(); }
    ~error_queue() { empty(); }
    error_queue(const error_queue&) = delete;
    error_queue& operator=(const error_queue&) = delete;

    static void empty() noexcept
    {
        if (ERR_peek_error() != 0) // peeking is much cheaper than clearing
            ERR_clear_error();
    }

    /// Takes all errors out. The first that libssl raised, which names the cause; else the first of all; 0: there were none.
    [[nodiscard]] static unsigned long drain() noexcept
    {
        unsigned long first = 0;
        unsigned long from_ssl = 0;
        while (const unsigned long code = ERR_get_error()) {
            if (first == 0)
                first = code;
            if (from_ssl == 0 && ERR_GET_LIB(code) == ERR_LIB_SSL)
                from_ssl = code;
        }
        return from_ssl != 0 ? from_ssl : first;
    }

    /// The reason number of the latest error, 0 without one.
    [[nodiscard]] static int last_reason() noexcept { return ERR_GET_REASON(ERR_peek_last_error()); }
};

} // namespace etls::tls
