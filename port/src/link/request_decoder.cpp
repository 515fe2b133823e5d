#include "link/request_decoder.hpp"

#include "base/limits.hpp"
#include "link/lane_terms.hpp"
#include "link/term_check.hpp"
#include "link/term_reader.hpp"

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace etls::link {

namespace {

namespace commands = control::commands;

/// The first thing wrong with a request, or nothing yet.
class complaint {
public:
    void about(const std::string& what)
    {
        if (text_.empty())
            text_ = what;
    }
    [[nodiscard]] bool any() const noexcept { return !text_.empty(); }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
    std::string text_;
};

/// The entries of a map: one function per key, called when the reader stands before its value; it answers false when
/// the value is not what it should be.
using fields = std::map<std::string, std::function<bool(term_reader&)>>;

/// Reads a map of `known` keys, all of `required`; false: a complaint has been made.
bool read_map(term_reader& in, const fields& known, const std::set<std::string>& required, complaint& wrong)
{
    const auto pairs = in.map();
    if (!pairs) {
        wrong.about("arguments are not a map");
        return false;
    }
    std::set<std::string> missing = required;
    for (int i = 0; i < *pairs; ++i) {
        const auto key = in.atom();
        const auto at = key ? known.find(*key) : known.end();
        if (at == known.end()) {
            wrong.about(key ? "unknown key " + *key : "a key is not an atom");
            return false;
        }
        if (!at->second(in)) {
            wrong.about("bad value of " + *key);
            return false;
        }
        missing.erase(*key);
    }
    if (!missing.empty()) {
        wrong.about("missing key " + *missing.begin());
        return false;
    }
    return true;
}

template <class Value, class Read>
bool into(std::optional<Value>& out, Read&& value)
{
    if (value)
        out = std::move(*value);
    return out.has_value();
}

bool read(term_reader& in, bool& out)
{
    const auto value = in.flag();
    out = value.value_or(false);
    return value.has_value();
}

bool read(term_reader& in, std::optional<bool>& out)
{
    return into(out, in.flag());
}

bool read(term_reader& in, std::optional<std::string>& out)
{
    return into(out, in.binary());
}

/// Text that becomes a C string somewhere: a NUL would cut it short.
bool read_text(term_reader& in, std::optional<std::string>& out)
{
    return read(in, out) && out->find('\0') == std::string::npos && !out->empty();
}

bool read(term_reader& in, std::optional<int>& out)
{
    const auto value = in.integer();
    if (!value || *value < 0 || *value > std::numeric_limits<int>::max())
        return false;
    out = static_cast<int>(*value);
    return true;
}

bool read(term_reader& in, std::uint64_t& out)
{
    const auto value = in.integer();
    if (!value || *value < 0)
        return false;
    out = static_cast<std::uint64_t>(*value);
    return true;
}

bool read_port(term_reader& in, std::uint16_t& out)
{
    const auto value = in.integer();
    if (!value || *value < 0 || *value > std::numeric_limits<std::uint16_t>::max())
        return false;
    out = static_cast<std::uint16_t>(*value);
    return true;
}

template <class Each>
bool read_list(term_reader& in, Each&& each)
{
    const auto length = in.list();
    if (!length)
        return false;
    for (int i = 0; i < *length; ++i) {
        if (!each(in))
            return false;
    }
    return *length == 0 || in.list_end();
}

bool read(term_reader& in, std::vector<std::string>& out)
{
    out.clear();
    return read_list(in, [&](term_reader& each) {
        auto value = each.binary();
        if (value)
            out.push_back(std::move(*value));
        return value.has_value();
    });
}

bool read_linger(term_reader& in, std::optional<std::pair<bool, int>>& out)
{
    if (in.tuple() != 2)
        return false;
    const auto on = in.flag();
    std::optional<int> seconds;
    if (!on || !read(in, seconds))
        return false;
    out = std::pair{*on, *seconds};
    return true;
}

template <class Number, std::size_t Size>
bool read_numbers(term_reader& in, std::array<Number, Size>& out)
{
    for (auto& each : out) {
        const auto value = in.integer();
        if (!value || *value < 0 || *value > std::numeric_limits<Number>::max())
            return false;
        each = static_cast<Number>(*value);
    }
    return true;
}

/// `ip`, the tuple's arity having been read.
bool read_ip(term_reader& in, int arity, std::uint16_t port, net::address& out)
{
    if (arity == 4) {
        std::array<std::uint8_t, 4> ip{};
        if (!read_numbers(in, ip))
            return false;
        out = net::address::ipv4(ip, port);
        return true;
    }
    if (arity == 8) {
        std::array<std::uint16_t, 8> ip{};
        if (!read_numbers(in, ip))
            return false;
        out = net::address::ipv6(ip, port);
        return true;
    }
    return false;
}

/// The rest of `{local, Path}`, its tuple having been read.
bool read_local(term_reader& in, net::address& out)
{
    const auto name = in.atom();
    const auto path = in.binary();
    if (name != "local" || !path)
        return false;
    auto at = net::address::local(*path);
    if (at)
        out = *at;
    return static_cast<bool>(at);
}

/// `{ip, Port}` or `{local, Path}`.
bool read_address(term_reader& in, net::address& out)
{
    if (in.tuple() != 2)
        return false;
    term_reader ahead = in;
    if (ahead.atom())
        return read_local(in, out);
    // The port comes behind the address that it belongs to.
    (void)ahead.any();
    std::uint16_t port = 0;
    if (!read_port(ahead, port))
        return false;
    const auto arity = in.tuple();
    if (!arity || !read_ip(in, *arity, port, out))
        return false;
    (void)in.any();
    return true;
}

bool read_address(term_reader& in, std::optional<net::address>& out)
{
    net::address value;
    if (!read_address(in, value))
        return false;
    out = value;
    return true;
}

std::optional<net::family> family_of(const std::string& name)
{
    if (name == "inet")
        return net::family::inet;
    if (name == "inet6")
        return net::family::inet6;
    if (name == "local")
        return net::family::local;
    return std::nullopt;
}

bool read_tcp(term_reader& in, net::tcp_options& out, complaint& wrong)
{
    const fields known{
        {"nodelay", [&](auto& at) { return read(at, out.nodelay); }},
        {"keepalive", [&](auto& at) { return read(at, out.keepalive); }},
        {"sndbuf", [&](auto& at) { return read(at, out.sndbuf); }},
        {"recbuf", [&](auto& at) { return read(at, out.recbuf); }},
        {"linger", [&](auto& at) { return read_linger(at, out.linger); }},
        {"reuseaddr", [&](auto& at) { return read(at, out.reuseaddr); }},
        {"ipv6_v6only", [&](auto& at) { return read(at, out.ipv6_v6only); }},
        {"backlog", [&](auto& at) { return read(at, out.backlog); }},
    };
    return read_map(in, known, {}, wrong);
}

bool read_versions(term_reader& in, std::vector<tls::protocol_version>& out)
{
    out.clear();
    return read_list(in, [&](term_reader& each) {
        const auto name = each.atom();
        if (name == "tlsv1.2")
            out.push_back(tls::protocol_version::tls_1_2);
        else if (name == "tlsv1.3")
            out.push_back(tls::protocol_version::tls_1_3);
        else
            return false;
        return true;
    });
}

bool read_verify(term_reader& in, bool& out)
{
    const auto name = in.atom();
    out = name == "peer";
    return name == "peer" || name == "none";
}

bool read_tls(term_reader& in, tls::context_options& out, complaint& wrong)
{
    const fields known{
        {"versions", [&](auto& at) { return read_versions(at, out.versions); }},
        {"verify", [&](auto& at) { return read_verify(at, out.verify_peer); }},
        {"fail_if_no_peer_cert", [&](auto& at) { return read(at, out.fail_if_no_peer_cert); }},
        {"verify_client_once", [&](auto& at) { return read(at, out.verify_client_once); }},
        {"cacerts", [&](auto& at) { return read(at, out.cacerts); }},
        {"cacertfile", [&](auto& at) { return read_text(at, out.cacertfile); }},
        {"crls", [&](auto& at) { return read(at, out.crls); }},
        {"certfile", [&](auto& at) { return read_text(at, out.certfile); }},
        {"keyfile", [&](auto& at) { return read_text(at, out.keyfile); }},
        {"chain", [&](auto& at) { return read(at, out.chain); }},
        {"ciphers", [&](auto& at) { return read_text(at, out.ciphers); }},
        {"alpn", [&](auto& at) { return read(at, out.alpn); }},
    };
    return read_map(in, known, {}, wrong);
}

// ---- one function per command

bool read_args(term_reader& in, commands::hello& out, complaint& wrong)
{
    const fields known{{"protocol", [&](auto& at) {
                            const auto value = at.integer();
                            out.protocol = value.value_or(0);
                            return value.has_value();
                        }}};
    return read_map(in, known, {"protocol"}, wrong);
}

bool read_args(term_reader& in, commands::listen& out, complaint& wrong)
{
    std::optional<net::family> family;
    const fields known{
        {"address", [&](auto& at) { return read_address(at, out.address); }},
        {"family",
         [&](auto& at) {
             const auto name = at.atom();
             return name && into(family, family_of(*name));
         }},
        {"tcp", [&](auto& at) { return read_tcp(at, out.tcp, wrong); }},
        {"tls", [&](auto& at) { return read_tls(at, out.tls, wrong); }},
        {"hostname", [&](auto& at) { return read_text(at, out.hostname); }},
    };
    if (!read_map(in, known, {"address"}, wrong))
        return false;
    if (family && *family != out.address.kind()) {
        wrong.about("family and address differ");
        return false;
    }
    return true;
}

bool read_args(term_reader& in, commands::accept& out, complaint& wrong)
{
    return read_map(in, {{"listener", [&](auto& at) { return read(at, out.listener); }}}, {"listener"}, wrong);
}

bool read_args(term_reader& in, commands::connect& out, complaint& wrong)
{
    std::optional<std::string> name;
    std::optional<net::address> local;
    std::optional<std::pair<int, term_reader>> ip; // the port may come later
    const auto read_host = [&](term_reader& at) {
        if (read_text(at, name))
            return true;
        const auto arity = at.tuple();
        if (!arity)
            return false;
        if (*arity == 2) {
            net::address path;
            if (!read_local(at, path))
                return false;
            local = path;
            return true;
        }
        ip.emplace(*arity, at);
        net::address checked;
        return read_ip(at, *arity, 0, checked);
    };
    const auto read_family = [&](term_reader& at) {
        const auto given = at.atom();
        return given && (*given == "any" || into(out.only, family_of(*given)));
    };
    const fields known{
        {"host", read_host},
        {"port", [&](auto& at) { return read_port(at, out.port); }},
        {"family", read_family},
        {"bind", [&](auto& at) { return read_address(at, out.bind); }},
        {"tcp", [&](auto& at) { return read_tcp(at, out.tcp, wrong); }},
        {"tls", [&](auto& at) { return read_tls(at, out.tls, wrong); }},
        {"hostname", [&](auto& at) { return read_text(at, out.hostname); }},
        {"server_name", [&](auto& at) { return read_text(at, out.server_name); }},
    };
    if (!read_map(in, known, {"host", "port"}, wrong))
        return false;
    if (name) {
        out.host = *name;
    } else if (local) {
        out.host = *local;
    } else {
        net::address at;
        read_ip(ip->second, ip->first, out.port, at);
        out.host = at;
    }
    return true;
}

bool read_args(term_reader& in, commands::handshake& out, complaint& wrong)
{
    const auto read_subject = [&](term_reader& at) {
        out.subject = at.any();
        return out.subject.size() <= limits::echoed_term_bytes;
    };
    const fields known{{"conn", [&](auto& at) { return read(at, out.connection); }}, {"subject", read_subject}};
    return read_map(in, known, {"conn", "subject"}, wrong);
}

bool read_args(term_reader& in, commands::cancel& out, complaint& wrong)
{
    const auto read_request = [&](term_reader& at) {
        out.request = at.any();
        return true;
    };
    return read_map(in, {{"request", read_request}}, {"request"}, wrong);
}

bool read_args(term_reader& in, commands::close& out, complaint& wrong)
{
    out.stall = limits::close_stall_time;
    const fields known{
        {"conn", [&](auto& at) { return read(at, out.connection); }},
        {"mode",
         [&](auto& at) {
             const auto name = at.atom();
             out.mode = name == "abort" ? conn::flow::closing_mode::abort : conn::flow::closing_mode::graceful;
             return name == "abort" || name == "graceful";
         }},
        {"stall",
         [&](auto& at) {
             std::optional<int> value;
             if (!read(at, value))
                 return false;
             out.stall = std::chrono::milliseconds{*value};
             return true;
         }},
    };
    return read_map(in, known, {"conn", "mode"}, wrong);
}

bool read_args(term_reader& in, commands::close_listener& out, complaint& wrong)
{
    return read_map(in, {{"listener", [&](auto& at) { return read(at, out.listener); }}}, {"listener"}, wrong);
}

/// `conn` or `listener`, one of them.
template <class Options>
bool read_whose(term_reader& in, Options& out, fields others, complaint& wrong)
{
    bool listener = false;
    others.emplace("conn", [&](auto& at) {
        std::uint64_t value = 0;
        if (!read(at, value))
            return false;
        out.connection = value;
        return true;
    });
    others.emplace("listener", [&](auto& at) { return listener = read(at, out.listener); });
    if (!read_map(in, others, {}, wrong))
        return false;
    if (listener == out.connection.has_value()) {
        wrong.about("conn or listener, one of them");
        return false;
    }
    return true;
}

bool read_args(term_reader& in, commands::set_options& out, complaint& wrong)
{
    return read_whose(in, out, {{"tcp", [&](auto& at) { return read_tcp(at, out.tcp, wrong); }}}, wrong);
}

bool read_args(term_reader& in, commands::get_options& out, complaint& wrong)
{
    static const std::set<std::string> existing{"nodelay", "keepalive", "sndbuf",      "recbuf",
                                                "linger",  "reuseaddr", "ipv6_v6only", "backlog"};
    const auto read_names = [&](term_reader& at) {
        return read_list(at, [&](term_reader& each) {
            auto name = each.atom();
            if (!name || !existing.contains(*name))
                return false;
            out.names.push_back(std::move(*name));
            return true;
        });
    };
    return read_whose(in, out, {{"names", read_names}}, wrong);
}

bool read_args(term_reader& in, commands::attach& out, complaint& wrong)
{
    return read_map(in, {{"conn", [&](auto& at) { return read(at, out.connection); }}}, {"conn"}, wrong);
}

bool read_args(term_reader& in, commands::info& out, complaint& wrong)
{
    return read_map(in, {{"conn", [&](auto& at) { return read(at, out.connection); }}}, {"conn"}, wrong);
}

bool read_args(term_reader& in, commands::cipher_suites& out, complaint& wrong)
{
    return read_map(in, {{"filter", [&](auto& at) { return read_text(at, out.filter); }}}, {}, wrong);
}

bool read_args(term_reader& in, commands::log_level& out, complaint& wrong)
{
    const auto read_level = [&](term_reader& at) {
        const auto name = at.atom();
        return name && log::parse(*name, out.level);
    };
    return read_map(in, {{"level", read_level}}, {"level"}, wrong);
}

template <class Nothing>
bool read_args(term_reader& in, Nothing&, complaint& wrong)
{
    return read_map(in, {}, {}, wrong);
}

using decoder = std::function<std::optional<control::command>(term_reader&, complaint&)>;

template <class Command>
decoder decode_as()
{
    return [](term_reader& in, complaint& wrong) -> std::optional<control::command> {
        Command out;
        if (!read_args(in, out, wrong))
            return std::nullopt;
        return out;
    };
}

/// `close` is two commands under one name.
std::optional<control::command> decode_close(term_reader& in, complaint& wrong)
{
    term_reader ahead = in;
    complaint about_listener;
    commands::close_listener listener;
    if (read_args(ahead, listener, about_listener)) {
        in = ahead;
        return listener;
    }
    return decode_as<commands::close>()(in, wrong);
}

const std::map<std::string, decoder>& decoders()
{
    static const std::map<std::string, decoder> table{
        {"hello", decode_as<commands::hello>()},
        {"listen", decode_as<commands::listen>()},
        {"accept", decode_as<commands::accept>()},
        {"connect", decode_as<commands::connect>()},
        {"handshake", decode_as<commands::handshake>()},
        {"attach", decode_as<commands::attach>()},
        {"cancel", decode_as<commands::cancel>()},
        {"close", decode_close},
        {"set_options", decode_as<commands::set_options>()},
        {"get_options", decode_as<commands::get_options>()},
        {"info", decode_as<commands::info>()},
        {"stats", decode_as<commands::stats>()},
        {"cipher_suites", decode_as<commands::cipher_suites>()},
        {"log_level", decode_as<commands::log_level>()},
        {"reload", decode_as<commands::reload>()},
        {"stop", decode_as<commands::stop>()},
    };
    return table;
}

} // namespace

message decode_message(std::string_view frame)
{
    if (!well_formed(frame))
        return senseless{std::nullopt, request_error{"not a term"}, {}};
    term_reader in{frame};
    const auto arity = in.tuple();
    const auto kind = arity && *arity >= 2 ? in.atom() : std::nullopt;
    if (!kind)
        return senseless{std::nullopt, request_error{"not a request"}, {}};
    if (*kind != "request") {
        if (auto term = read_lane_term(*kind, *arity, in))
            return *term;
        return senseless{std::nullopt, request_error{"neither a request nor a lane's term"}, {}};
    }
    control::opaque id{in.any()};
    if (id.size() > limits::echoed_term_bytes)
        return senseless{std::nullopt, request_error{"Id too long"}, {}};
    if (*arity != 4)
        return senseless{std::move(id), request_error{"not {request, Id, Command, Args}"}, {}};
    const auto name = in.atom();
    if (!name)
        return senseless{std::move(id), request_error{"the command is not an atom"}, {}};
    const auto at = decoders().find(*name);
    if (at == decoders().end())
        return senseless{std::move(id), request_error{"unknown command"}, *name};
    complaint wrong;
    auto what = at->second(in, wrong);
    if (!what)
        return senseless{std::move(id), request_error{*name + ": " + wrong.text()}, {}};
    return control::request{std::move(id), std::move(*what)};
}

} // namespace etls::link
