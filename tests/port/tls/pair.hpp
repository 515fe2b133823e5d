#pragma once

#include "base/bytes.hpp"
#include "tls/alert.hpp"
#include "tls/context.hpp"
#include "tls/session.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace etls::tls {

inline std::ostream& operator<<(std::ostream& out, session::state now)
{
    switch (now) {
    case session::state::handshaking:
        return out << "handshaking";
    case session::state::established:
        return out << "established";
    case session::state::ended:
        return out << "ended";
    case session::state::failed:
        return out << "failed";
    }
    return out;
}

inline std::ostream& operator<<(std::ostream& out, protocol_version version)
{
    return out << (version == protocol_version::tls_1_2 ? "TLS 1.2" : "TLS 1.3");
}

} // namespace etls::tls

/// Two sessions with a wire between them that a test can hold, cut and bend.
namespace etls::test {

using state = tls::session::state;

inline byte_view bytes_of(std::string_view text)
{
    return std::as_bytes(std::span{text.data(), text.size()});
}

inline std::string text_of(byte_view bytes)
{
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string taken(byte_buffer& from)
{
    auto text = text_of(from.view());
    from.clear();
    return text;
}

/// One side: its session, what it has to say, what it has heard.
struct actor {
    actor(std::shared_ptr<const tls::context> context, tls::session_options options)
        : session{std::move(context), std::move(options)}
    {
        session.start(out);
    }

    void say(std::string_view text) { session.send(bytes_of(text), out); }
    void close() { session.close(out); }

    state hear(std::string_view ciphertext)
    {
        const auto now = session.receive(bytes_of(ciphertext), plain, out);
        heard += taken(plain);
        return now;
    }

    [[nodiscard]] state now() const { return session.current(); }
    /// The alert's name in state failed, else "none".
    [[nodiscard]] std::string alert() const
    {
        return now() == state::failed ? std::string{tls::alert_name(session.why().description)} : "none";
    }
    [[nodiscard]] std::string text() const { return session.why().text; }

    tls::session session;
    byte_buffer plain;
    byte_buffer out;
    std::string heard;
};

struct pair {
    pair(std::shared_ptr<const tls::context> for_client, std::shared_ptr<const tls::context> for_server,
         tls::session_options of_client = {}, tls::session_options of_server = {})
        : client{std::move(for_client), std::move(of_client)}, server{std::move(for_server), std::move(of_server)}
    {
    }

    /// Carries everything both ways until nobody has anything to say.
    void carry()
    {
        while (!client.out.empty() || !server.out.empty()) {
            if (!client.out.empty())
                server.hear(taken(client.out));
            if (!server.out.empty())
                client.hear(taken(server.out));
        }
    }

    actor client;
    actor server;
};

inline std::shared_ptr<const tls::context> make_context(tls::role side, const tls::context_options& options)
{
    auto made = tls::context::make(side, options);
    if (!made) {
        const auto* why = std::get_if<option_error>(&made.error());
        throw std::runtime_error{why != nullptr ? why->option + ": " + why->kind + " " + why->detail : "no context"};
    }
    return *made;
}

inline std::string some_text(std::size_t size)
{
    std::string text(size, '\0');
    for (std::size_t at = 0; at < size; ++at)
        text[at] = static_cast<char>((at * 7919 + at / 251) & 0xff);
    return text;
}

} // namespace etls::test
