#include "cli/version.hpp"

#include <boost/version.hpp>

#include <openssl/crypto.h>

#include <sstream>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace etls::cli {

namespace {

std::string cpu_features()
{
    std::string out;
    const auto add = [&](bool there, const char* name) {
        if (there)
            out += (out.empty() ? "" : " ") + std::string{name};
    };
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) != 0) {
        add((c & bit_AES) != 0, "aes-ni");
        add((c & bit_PCLMUL) != 0, "pclmulqdq");
        add((c & bit_AVX) != 0, "avx");
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
        add((b & bit_AVX2) != 0, "avx2");
        add((b & bit_AVX512F) != 0, "avx512f");
        add((b & bit_SHA) != 0, "sha-ni");
        add((c & bit_VAES) != 0, "vaes");
        add((c & bit_VPCLMULQDQ) != 0, "vpclmulqdq");
    }
#elif defined(__aarch64__)
    const unsigned long caps = ::getauxval(AT_HWCAP);
    add((caps & (1UL << 3)) != 0, "aes");
    add((caps & (1UL << 4)) != 0, "pmull");
    add((caps & (1UL << 6)) != 0, "sha2");
#endif
    return out.empty() ? "none known" : out;
}

} // namespace

std::string version_text()
{
    std::ostringstream out;
    out << "etlsd " << ETLS_VERSION << '\n'
        << ::OpenSSL_version(OPENSSL_VERSION) << '\n'
        << "Boost " << BOOST_VERSION / 100000 << '.' << BOOST_VERSION / 100 % 1000 << '.' << BOOST_VERSION % 100 << '\n'
        << "ei " << ETLS_EI_VERSION << '\n'
        << "CPU " << cpu_features() << '\n';
    // What OpenSSL itself found, OPENSSL_ia32cap overrides included.
    if (const char* seen = ::OPENSSL_info(OPENSSL_INFO_CPU_SETTINGS))
        out << "OpenSSL sees " << seen << '\n';
    return out.str();
}

} // namespace etls::cli
