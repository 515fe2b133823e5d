#include "tls/session.hpp"

#include "tls/alert.hpp"
#include "tls/error_queue.hpp"
#include "tls/fault.hpp"
#include "tls/memory_bio.hpp"
#include "tls/peer_name.hpp"

#include <new>
#include <utility>

namespace etls::tls {

namespace {

/// Plaintext of the largest record (RFC 8446, 5.1).
constexpr std::size_t record_bytes = 16 * 1024;

/// What a record adds at most: header, explicit IV, MAC and padding of the CBC suites.
constexpr std::size_t record_overhead = 96;

/// Records sent with one key: AES-GCM is safe for 2^24.5 (RFC 8446, 5.5). 256 GiB of full ones.
constexpr std::uint64_t records_per_key = std::uint64_t{1} << 24;

/// Held plaintext. An honest peer finishes its message within a round trip.
constexpr std::size_t held_bytes = 1024 * 1024;

std::size_t records_of(std::size_t plain)
{
    return (plain + record_bytes - 1) / record_bytes;
}

std::string der_of(X509* certificate)
{
    unsigned char* bytes = nullptr;
    const int size = i2d_X509(certificate, &bytes);
    if (size < 0)
        throw std::bad_alloc{};
    std::string der{reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
    OPENSSL_free(bytes);
    return der;
}

std::vector<std::string> peer_chain_of(SSL* ssl)
{
    std::vector<std::string> chain;
    const x509_ptr leaf{SSL_get1_peer_certificate(ssl)};
    if (!leaf)
        return chain;
    chain.push_back(der_of(leaf.get()));
    const auto* sent = SSL_get_peer_cert_chain(ssl);
    // A client finds the leaf in here as well, a server does not.
    const int first = SSL_is_server(ssl) == 1 ? 0 : 1;
    for (int at = first; at < sk_X509_num(sent); ++at)
        chain.push_back(der_of(sk_X509_value(sent, at)));
    return chain;
}

} // namespace

//  handshaking ──► established ──► ended         the peer's close_notify
//       │               │
//       └──► failed ◄───┘                        a fatal alert of either side, or what can only be answered by one
//
// Nothing of OpenSSL is called on the connection any more once it has failed.
struct session::impl {
    impl(std::shared_ptr<const context>, const session_options&);

    /// Lends the caller's buffers to the BIO for one call.
    class lending {
    public:
        lending(impl& to, byte_view input, byte_buffer& output) : to_{to}
        {
            to_.channel.input = input;
            to_.channel.output = &output;
        }
        ~lending() { to_.channel = {}; }
        lending(const lending&) = delete;
        lending& operator=(const lending&) = delete;

    private:
        impl& to_;
        error_queue errors_;
    };

    void shake();
    void read(byte_buffer& plain);
    void write(byte_view plain);
    void hold(byte_view plain);
    void resume_sending();
    void say_goodbye();
    void stopped(int result);
    void fail(unsigned long code);
    void refuse(std::uint8_t description, const char* text);
    [[nodiscard]] bool can_send() const noexcept;

    static void on_info(const SSL*, int where, int value);
    static int on_verify(int good, X509_STORE_CTX*);

    std::shared_ptr<const context> from;
    memory_channel channel;
    ssl_ptr ssl; // its BIO points to `channel`
    session::state now = session::state::handshaking;
    alert_error why;
    fault noted;
    byte_buffer held;
    std::uint64_t records_sent = 0; // with the current key
    bool closing = false;
    bool closed = false;
};

session::impl::impl(std::shared_ptr<const context> context, const session_options& options)
    : from{std::move(context)}, ssl{SSL_new(from->native())}
{
    if (!ssl)
        throw std::bad_alloc{};
    const error_queue errors;
    noted.side = from->side();
    auto bio = make_memory_bio(channel);
    auto* borrowed = bio.release();
    SSL_set_bio(ssl.get(), borrowed, borrowed); // takes it
    SSL_set_app_data(ssl.get(), this);
    SSL_set_info_callback(ssl.get(), on_info);
    SSL_set_verify(ssl.get(), SSL_get_verify_mode(ssl.get()), on_verify);
    if (noted.side == role::client)
        SSL_set_connect_state(ssl.get());
    else
        SSL_set_accept_state(ssl.get());

    if (options.hostname) {
        if (!set_expected_name(ssl.get(), *options.hostname))
            refuse(alert::internal_error, "the host name to verify is none");
        if (noted.side == role::server)
            separate_sessions(ssl.get(), *options.hostname);
    }
    if (options.server_name && noted.side == role::client && !set_server_name(ssl.get(), *options.server_name))
        refuse(alert::internal_error, "the server name to send is none");
}

// ---- OpenSSL's callbacks only take notes

void session::impl::on_info(const SSL* ssl, int where, int value)
{
    if ((where & SSL_CB_ALERT) == 0)
        return;
    auto& noted = static_cast<impl*>(SSL_get_app_data(ssl))->noted;
    const auto description = static_cast<std::uint8_t>(value & 0xff);
    if ((where & SSL_CB_READ) != 0)
        noted.received = description;
    else if ((value >> 8) == SSL3_AL_FATAL)
        noted.sent = description;
}

int session::impl::on_verify(int good, X509_STORE_CTX* store)
{
    if (good == 1)
        return 1;
    const auto* ssl = static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    const int error = X509_STORE_CTX_get_error(store);
    static_cast<impl*>(SSL_get_app_data(ssl))->noted.verification = error;
    // "expired or not currently valid" is one alert (RFC 8446, 6.2), for which OpenSSL has only the first half.
    if (error == X509_V_ERR_CERT_NOT_YET_VALID)
        X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_HAS_EXPIRED);
    return 0;
}

// ---- steps

void session::impl::shake()
{
    const int result = SSL_do_handshake(ssl.get());
    if (result == 1)
        now = session::state::established;
    else
        stopped(result);
}

void session::impl::read(byte_buffer& plain)
{
    // Room for all at once: what is here now, and the part of a record that came before.
    static_cast<void>(plain.prepare(channel.input.size() + record_bytes));
    while (!channel.input.empty() || SSL_has_pending(ssl.get()) == 1) {
        const auto room = plain.prepare(record_bytes);
        std::size_t got = 0;
        const int result = SSL_read_ex(ssl.get(), room.data(), room.size(), &got);
        if (result != 1) {
            stopped(result);
            return;
        }
        plain.commit(got);
    }
}

void session::impl::write(byte_view plain)
{
    if (records_sent >= records_per_key && SSL_version(ssl.get()) == TLS1_3_VERSION) {
        if (SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
            records_sent = 0;
        error_queue::empty(); // it may not be the moment; the next write tries again
    }
    std::size_t written = 0;
    const int result = SSL_write_ex(ssl.get(), plain.data(), plain.size(), &written);
    if (result == 1)
        records_sent += records_of(plain.size());
    else if (SSL_get_error(ssl.get(), result) == SSL_ERROR_WANT_READ)
        hold(plain);
    else
        fail(error_queue::drain());
}

void session::impl::hold(byte_view plain)
{
    if (held.size() + plain.size() > held_bytes)
        refuse(alert::unexpected_message, "the peer does not finish its handshake message");
    else
        held.append(plain);
}

void session::impl::resume_sending()
{
    if (!held.empty()) {
        const auto waiting = std::exchange(held, {});
        write(waiting.view());
    }
    if (closing && held.empty())
        say_goodbye();
}

void session::impl::say_goodbye()
{
    if (closed || !can_send() || SSL_in_init(ssl.get()) == 1)
        return;
    closed = true;
    SSL_shutdown(ssl.get());
}

void session::impl::stopped(int result)
{
    switch (SSL_get_error(ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
        break;
    case SSL_ERROR_ZERO_RETURN:
        if (now == session::state::established)
            now = session::state::ended;
        else
            refuse(alert::close_notify, "received close_notify during the handshake");
        break;
    default:
        fail(error_queue::drain());
        break;
    }
}

void session::impl::fail(unsigned long code)
{
    now = session::state::failed;
    noted.code = code;
    why = explain(noted);
    held.release();
}

/// A failure that OpenSSL knows nothing of.
void session::impl::refuse(std::uint8_t description, const char* text)
{
    now = session::state::failed;
    why = {description, (noted.side == role::client ? "TLS client: " : "TLS server: ") + std::string{text}};
    held.release();
}

bool session::impl::can_send() const noexcept
{
    return now == session::state::established || now == session::state::ended;
}

// ---- the session

session::session(std::shared_ptr<const context> from, session_options options)
    : impl_{std::make_unique<impl>(std::move(from), options)}
{
}

session::~session() = default;
session::session(session&&) noexcept = default;

session::state session::start(byte_buffer& out)
{
    if (impl_->now == state::handshaking && impl_->noted.side == role::client) {
        const impl::lending lent{*impl_, {}, out};
        impl_->shake();
    }
    return impl_->now;
}

session::state session::receive(byte_view ciphertext, byte_buffer& plain, byte_buffer& out)
{
    if (impl_->now == state::ended || impl_->now == state::failed)
        return impl_->now;
    const impl::lending lent{*impl_, ciphertext, out};
    if (impl_->now == state::handshaking)
        impl_->shake();
    if (impl_->now == state::established)
        impl_->read(plain);
    if (impl_->can_send())
        impl_->resume_sending();
    return impl_->now;
}

session::state session::send(byte_view plain, byte_buffer& out)
{
    if (!impl_->can_send() || impl_->closing || plain.empty())
        return impl_->now;
    if (!impl_->held.empty()) {
        impl_->hold(plain);
        return impl_->now;
    }
    static_cast<void>(out.prepare(plain.size() + (records_of(plain.size()) + 1) * record_overhead));
    const impl::lending lent{*impl_, {}, out};
    impl_->write(plain);
    return impl_->now;
}

session::state session::update_keys(bool both_ways, byte_buffer& out)
{
    auto* ssl = impl_->ssl.get();
    if (!impl_->can_send() || impl_->closing || SSL_version(ssl) != TLS1_3_VERSION || SSL_in_init(ssl) == 1)
        return impl_->now;
    const impl::lending lent{*impl_, {}, out};
    const int kind = both_ways ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED;
    if (SSL_key_update(ssl, kind) == 1 && SSL_do_handshake(ssl) == 1)
        impl_->records_sent = 0;
    else
        impl_->fail(error_queue::drain());
    return impl_->now;
}

std::size_t session::held() const noexcept
{
    return impl_->held.size();
}

bool session::owes() const noexcept
{
    return !impl_->held.empty() || (impl_->closing && !impl_->closed && impl_->can_send());
}

void session::close(byte_buffer& out)
{
    if (!impl_->can_send() || impl_->closing)
        return;
    impl_->closing = true;
    const impl::lending lent{*impl_, {}, out};
    if (impl_->held.empty())
        impl_->say_goodbye();
}

session::state session::current() const noexcept
{
    return impl_->now;
}

const alert_error& session::why() const noexcept
{
    return impl_->why;
}

handshake_info session::info() const
{
    auto* ssl = impl_->ssl.get();
    handshake_info info;
    info.version = SSL_version(ssl) == TLS1_3_VERSION ? "tlsv1.3" : "tlsv1.2";
    const SSL_CIPHER* suite = SSL_get_current_cipher(ssl);
    info.cipher = SSL_CIPHER_get_name(suite);
    if (const char* standard = SSL_CIPHER_standard_name(suite))
        info.cipher_standard = standard;
    info.resumed = SSL_session_reused(ssl) == 1;
    info.peer_chain = peer_chain_of(ssl);
    const unsigned char* protocol = nullptr;
    unsigned int protocol_size = 0;
    SSL_get0_alpn_selected(ssl, &protocol, &protocol_size);
    if (protocol_size != 0)
        info.alpn.emplace(reinterpret_cast<const char*>(protocol), protocol_size);
    if (const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name))
        info.server_name = name;
    return info;
}

} // namespace etls::tls
