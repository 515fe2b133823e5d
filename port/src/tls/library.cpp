#include "tls/library.hpp"

#include <openssl/ssl.h>

#include <stdexcept>

namespace etls::tls {

void start_library()
{
    static const bool started = OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1;
    if (!started)
        throw std::runtime_error{"OpenSSL does not start"};
}

} // namespace etls::tls
