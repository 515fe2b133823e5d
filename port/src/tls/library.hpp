#pragma once

namespace etls::tls {

/// Starts OpenSSL without its configuration file, so that what etls negotiates depends on etls alone. Must run before
/// anything else of OpenSSL does; later calls, from any thread, do nothing.
void start_library();

} // namespace etls::tls
