#include "tls/trust.hpp"

#include "tls/credentials.hpp"

#include <iterator>
#include <mutex>
#include <new>
#include <utility>

namespace etls::tls {

namespace {

x509_store_ptr make_store()
{
    x509_store_ptr store{X509_STORE_new()};
    if (!store)
        throw std::bad_alloc{};
    return store;
}

x509_store_ptr read_system_store()
{
    auto store = make_store();
    // A machine without CA certificates has none to trust; a handshake will say so better than this can.
    static_cast<void>(X509_STORE_set_default_paths(store.get()));
    return store;
}

/// The one copy of the system's certificates, which takes most of the time of making a context.
struct system_trust {
    std::mutex mutex;
    x509_store_ptr store;
};

system_trust& the_system_trust()
{
    static system_trust instance;
    return instance;
}

x509_store_ptr shared_system_store()
{
    auto& system = the_system_trust();
    const std::lock_guard lock{system.mutex};
    if (!system.store)
        system.store = read_system_store();
    X509_STORE_up_ref(system.store.get());
    return x509_store_ptr{system.store.get()};
}

} // namespace

result<trust> make_trust(const context_options& options)
{
    trust made;
    std::vector<credential_text> authorities;
    for (const auto& bytes : options.cacerts)
        authorities.push_back({"cacerts", {}, bytes});
    if (options.cacertfile) {
        auto text = read_credentials("cacertfile", *options.cacertfile);
        if (!text)
            return text.error();
        authorities.push_back(std::move(*text));
    }
    for (const auto& text : authorities) {
        auto certificates = parse_certificates(text);
        if (!certificates)
            return certificates.error();
        std::move(certificates->begin(), certificates->end(), std::back_inserter(made.own));
    }
    std::vector<x509_crl_ptr> crls;
    for (const auto& bytes : options.crls) {
        auto lists = parse_crls({"crls", {}, bytes});
        if (!lists)
            return lists.error();
        std::move(lists->begin(), lists->end(), std::back_inserter(crls));
    }

    if (!made.own.empty())
        made.store = make_store();
    else if (crls.empty())
        made.store = shared_system_store();
    else
        made.store = read_system_store(); // its own copy: these lists are not for everybody
    for (const auto& certificate : made.own)
        X509_STORE_add_cert(made.store.get(), certificate.get());
    for (const auto& list : crls)
        X509_STORE_add_crl(made.store.get(), list.get());
    made.check_revocation = !crls.empty();
    return made;
}

void forget_system_trust()
{
    auto& system = the_system_trust();
    const std::lock_guard lock{system.mutex};
    system.store.reset();
}

} // namespace etls::tls
