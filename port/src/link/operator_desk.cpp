#include "link/operator_desk.hpp"

#include "base/log.hpp"
#include "link/reply_encoder.hpp"
#include "link/term_check.hpp"
#include "link/term_reader.hpp"
#include "link/term_writer.hpp"

#include <openssl/crypto.h>
#include <unistd.h>

#include <utility>

namespace etls::link {

namespace {

void write_info(term_writer& out, const overview& now)
{
    auto sum = now.ended;
    sum.connections = sum.listeners = 0; // of those that are gone, nothing is left
    for (const auto& [_, controller] : now.vms) {
        if (!controller)
            continue;
        const auto one = controller->counts();
        sum.connections += one.connections;
        sum.listeners += one.listeners;
        sum.accepted += one.accepted;
        sum.connected += one.connected;
        sum.handshakes += one.handshakes;
        sum.handshake_failures += one.handshake_failures;
        sum.contexts = one.contexts; // shared
    }
    const std::pair<const char*, std::uint64_t> numbers[] = {
        {"protocol", control::protocol_version},
        {"threads", now.threads},
        {"os_pid", static_cast<std::uint64_t>(::getpid())},
        {"uptime", now.uptime_s},
        {"connections", sum.connections},
        {"listeners", sum.listeners},
        {"accepted", sum.accepted},
        {"connected", sum.connected},
        {"handshakes", sum.handshakes},
        {"handshake_failures", sum.handshake_failures},
        {"contexts", sum.contexts},
    };
    out.map(3 + static_cast<int>(std::size(numbers)));
    out.atom("version").binary(ETLS_VERSION);
    out.atom("openssl").binary(::OpenSSL_version(OPENSSL_VERSION));
    out.atom("nodes").list(static_cast<int>(now.vms.size()));
    for (const auto& each : now.vms)
        out.atom(each.node);
    if (!now.vms.empty())
        out.nil();
    for (const auto& [name, value] : numbers)
        out.atom(name).unsigned_integer(value);
}

void write_connections(term_writer& out, const overview& now)
{
    std::vector<std::pair<std::string, control::controller::connection_summary>> all;
    for (const auto& [node, controller] : now.vms) {
        if (!controller)
            continue;
        for (auto& each : controller->connections())
            all.emplace_back(node, std::move(each));
    }
    out.list(static_cast<int>(all.size()));
    for (const auto& [node, each] : all) {
        out.map(4).atom("conn").unsigned_integer(each.id).atom("node").atom(node);
        encode_address(out.atom("peer"), each.peer);
        encode_address(out.atom("local"), each.local);
    }
    if (!all.empty())
        out.nil();
}

void write_reload(term_writer& out, const overview& now)
{
    std::optional<failure> first;
    for (const auto& [_, controller] : now.vms) {
        auto wrong = controller ? controller->reload() : std::nullopt;
        if (wrong && !first)
            first = std::move(wrong);
    }
    if (first)
        encode_reason(out.tuple(2).atom("error"), *first);
    else
        out.atom("ok");
}

/// `{log_level, L}`.
bool take_log_level(term_reader& in)
{
    const auto arity = in.tuple();
    if (!arity || *arity != 2 || in.atom() != "log_level")
        return false;
    const auto name = in.atom();
    log::level level{};
    if (!name || !log::parse(*name, level))
        return false;
    log::set_level(level);
    return true;
}

} // namespace

bool is_operator_request(std::string_view term)
{
    if (!well_formed(term))
        return false;
    term_reader in{term};
    return in.tuple() == 2 && in.pid();
}

operator_answer answer_operator(std::string_view term, const overview& now)
{
    term_reader in{term};
    static_cast<void>(in.tuple());
    operator_answer answer;
    answer.pid = in.pid().value_or("");
    term_writer out;
    out.tuple(3).atom("etlsd");
    auto name = in.atom();
    if (name == "info")
        write_info(out.atom(*name), now);
    else if (name == "connections")
        write_connections(out.atom(*name), now);
    else if (name == "reload")
        write_reload(out.atom(*name), now);
    else if (!name && take_log_level(in))
        out.atom("log_level").atom("ok");
    else
        out.atom("error").atom("unknown_request");
    answer.term = out.bytes();
    return answer;
}

} // namespace etls::link
