#include "link/reply_encoder.hpp"

#include "base/limits.hpp"
#include "base/posix.hpp"
#include "tls/alert.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <variant>

namespace etls::link {

namespace {

namespace replies = control::replies;

std::string_view text_of(const lane::token& token)
{
    return {reinterpret_cast<const char*>(token.data()), token.size()};
}

void write(term_writer& out, const net::address& at)
{
    out.tuple(2);
    switch (at.kind()) {
    case net::family::inet:
        out.tuple(4);
        for (const auto each : at.v4())
            out.integer(each);
        out.integer(at.port());
        break;
    case net::family::inet6:
        out.tuple(8);
        for (const auto each : at.v6())
            out.integer(each);
        out.integer(at.port());
        break;
    case net::family::local:
        out.atom("local").binary(at.path());
        break;
    }
}

/// The reason alone: what stands behind `error` or `ended`.
struct reason_writer {
    term_writer& out;

    void operator()(const boost::system::error_code& ec) const { out.atom(posix_name(ec.value())); }
    void operator()(const option_error& error) const
    {
        out.tuple(2).atom("options").tuple(2).atom(error.option);
        if (error.detail.empty())
            out.atom(error.kind);
        else
            out.tuple(2).atom(error.kind).binary(error.detail);
    }
    void operator()(const alert_error& error) const
    {
        // close_notify instead of a handshake is a peer that changed its mind, not a fault.
        if (error.description == 0)
            out.atom("closed");
        else
            out.tuple(2).atom("tls_alert").tuple(2).atom(tls::alert_name(error.description)).binary(error.text);
    }
    void operator()(const named_error& error) const { out.atom(error.name); }
    void operator()(const request_error& error) const { out.tuple(2).atom("bad_request").binary(error.text); }
};

void write(term_writer& out, const failure& why)
{
    std::visit(reason_writer{out}, why);
}

/// What stands behind the Id of a reply.
struct result_writer {
    term_writer& out;

    term_writer& ok_map(int pairs) const { return out.tuple(2).atom("ok").map(pairs); }
    void pair(std::string_view key, std::uint64_t value) const { out.atom(key).unsigned_integer(value); }

    void operator()(const replies::done&) const { out.atom("ok"); }
    void operator()(const replies::hello& hello) const
    {
        ok_map(hello.daemon.empty() ? 7 : 8);
        if (!hello.daemon.empty())
            out.atom("pid").encoded(hello.daemon);
        pair("protocol", control::protocol_version);
        out.atom("version").binary(ETLS_VERSION);
        out.atom("openssl").binary(hello.openssl);
        out.atom("lane").tuple(2).atom("local").binary(hello.lane_path);
        pair("threads", hello.threads);
        pair("os_pid", static_cast<std::uint64_t>(::getpid()));
        pair("frame_limit", limits::frame_bytes);
    }
    void operator()(const replies::listening& made) const
    {
        ok_map(2);
        pair("listener", made.listener);
        out.atom("address");
        write(out, made.address);
    }
    void operator()(const replies::opened& made) const
    {
        ok_map(4);
        pair("conn", made.connection);
        out.atom("token").binary(text_of(made.token));
        out.atom("peer");
        write(out, made.peer);
        out.atom("local");
        write(out, made.local);
    }
    void operator()(const replies::attached& made) const
    {
        ok_map(1);
        pair("credit", made.credit);
    }
    void operator()(const tls::handshake_info& info) const
    {
        ok_map(5 + (info.alpn ? 1 : 0) + (info.server_name ? 1 : 0));
        out.atom("version").atom(info.version);
        out.atom("cipher").binary(info.cipher);
        out.atom("cipher_standard").binary(info.cipher_standard);
        out.atom("resumed").flag(info.resumed);
        out.atom("peer_chain").list(static_cast<int>(info.peer_chain.size()));
        for (const auto& der : info.peer_chain)
            out.binary(der);
        if (!info.peer_chain.empty())
            out.nil();
        if (info.alpn)
            out.atom("alpn").binary(*info.alpn);
        if (info.server_name)
            out.atom("server_name").binary(*info.server_name);
    }
    void operator()(const replies::options& options) const
    {
        const auto& values = options.values;
        int pairs = 0;
        term_writer entries; // a map's size comes before its entries
        const auto entry = [&](std::string_view name, const auto& value, auto&& write_value) {
            if (!value || std::find(options.names.begin(), options.names.end(), name) == options.names.end())
                return;
            ++pairs;
            write_value(entries.atom(name), *value);
        };
        const auto flag = [](term_writer& to, bool value) { to.flag(value); };
        const auto number = [](term_writer& to, int value) { to.integer(value); };
        const auto linger = [](term_writer& to, const auto& value) {
            to.tuple(2).flag(value.first).integer(value.second);
        };
        entry("nodelay", values.nodelay, flag);
        entry("keepalive", values.keepalive, flag);
        entry("sndbuf", values.sndbuf, number);
        entry("recbuf", values.recbuf, number);
        entry("linger", values.linger, linger);
        entry("reuseaddr", values.reuseaddr, flag);
        entry("ipv6_v6only", values.ipv6_v6only, flag);
        entry("backlog", values.backlog, number);
        constexpr std::size_t version_byte = 1;
        ok_map(pairs).encoded(entries.bytes().substr(version_byte));
    }
    void operator()(const conn::counters& now) const
    {
        ok_map(10);
        pair("recv_oct", now.received.octets);
        pair("recv_cnt", now.received.count);
        pair("recv_max", now.received.max);
        pair("recv_avg", now.received.average());
        pair("recv_dvi", static_cast<std::uint64_t>(now.received.deviation));
        pair("send_oct", now.sent.octets);
        pair("send_cnt", now.sent.count);
        pair("send_max", now.sent.max);
        pair("send_avg", now.sent.average());
        pair("send_pend", now.pending);
    }
    void operator()(const replies::stats& now) const
    {
        ok_map(8);
        pair("connections", now.connections);
        pair("listeners", now.listeners);
        pair("accepts_waiting", now.accepts_waiting);
        pair("accepted", now.accepted);
        pair("connected", now.connected);
        pair("handshakes", now.handshakes);
        pair("handshake_failures", now.handshake_failures);
        pair("contexts", now.contexts);
    }
    void operator()(const replies::suites& suites) const
    {
        ok_map(1);
        out.atom("suites").list(static_cast<int>(suites.names.size()));
        for (const auto& name : suites.names)
            out.binary(name);
        if (!suites.names.empty())
            out.nil();
    }
    void operator()(const replies::wrong_version&) const
    {
        out.tuple(2).atom("error").tuple(2).atom("protocol_version").integer(control::protocol_version);
    }
    void operator()(const failure& why) const
    {
        out.tuple(2).atom("error");
        write(out, why);
    }
};

} // namespace

void encode_reply(term_writer& out, const control::opaque& id, const control::reply& what)
{
    out.tuple(3).atom("reply").encoded(id);
    std::visit(result_writer{out}, what);
}

void encode_rejection(term_writer& out, const senseless& frame)
{
    out.tuple(3).atom("reply").encoded(*frame.id).tuple(2).atom("error");
    if (!frame.unknown_command.empty())
        out.tuple(2).atom("unknown_command").atom(frame.unknown_command);
    else
        write(out, frame.why);
}

void encode_ended(term_writer& out, const control::opaque& subject, const conn::end_of_data& end)
{
    out.tuple(3).atom("event").encoded(subject).tuple(2).atom("ended");
    switch (end.how) {
    case conn::flow::peer_end::close_notify:
        out.atom("close_notify");
        break;
    case conn::flow::peer_end::truncated:
        out.atom("truncated");
        break;
    case conn::flow::peer_end::none:
    case conn::flow::peer_end::failed:
        write(out, end.why.value_or(failure{named_error{"closed"}}));
        break;
    }
}

void encode_log(term_writer& out, log::level level, std::string_view line)
{
    out.tuple(3).atom("event").atom("log").tuple(2).atom(log::name(level)).binary(line);
}

void encode_reason(term_writer& out, const failure& why)
{
    write(out, why);
}

void encode_address(term_writer& out, const net::address& at)
{
    write(out, at);
}

} // namespace etls::link
