// The golden vectors of proto/vectors: every request must decode, every reply must be encoded to the very bytes that
// the VM's tests decode. `ETLS_WRITE_VECTORS=1` writes the replies anew, after a deliberate change of the wire.
#define BOOST_TEST_MODULE vectors
#include <boost/test/unit_test.hpp>

#include "link/lane_terms.hpp"
#include "link/reply_encoder.hpp"
#include "link/request_decoder.hpp"
#include "link/term_check.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <typeinfo>

using namespace etls;
using link::term_writer;
namespace commands = control::commands;
namespace replies = control::replies;
namespace fs = std::filesystem;

namespace {

const fs::path vectors = fs::path{ETLS_SOURCE_DIR} / "proto" / "vectors";

std::string contents(const fs::path& path)
{
    std::ifstream in{path, std::ios::binary};
    BOOST_REQUIRE_MESSAGE(in, path.string() << " is missing");
    return {std::istreambuf_iterator<char>{in}, {}};
}

/// `{<<"<0.99.0>">>, N}` without the version byte.
control::opaque id(int tag)
{
    term_writer out;
    out.tuple(2).binary("<0.99.0>").integer(tag);
    return control::opaque{out.bytes().substr(1)};
}

net::address localhost(std::uint16_t port)
{
    return net::address::ipv4({127, 0, 0, 1}, port);
}

lane::token token()
{
    lane::token out{};
    const std::string_view text = "0123456789abcdef";
    std::transform(text.begin(), text.end(), out.begin(), [](char each) { return static_cast<std::byte>(each); });
    return out;
}

conn::counters counters()
{
    conn::counters out;
    out.received = {.octets = 100, .count = 2, .max = 60, .deviation = 5.5};
    out.sent = {.octets = ~std::uint64_t{0}, .count = 1, .max = 1, .deviation = 0};
    out.pending = 9;
    return out;
}

failure posix(int number)
{
    return boost::system::error_code{number, boost::system::system_category()};
}

constexpr std::uint8_t unknown_ca = 48;
constexpr std::uint8_t bad_certificate = 42;

std::string reply(const control::reply& what)
{
    term_writer out;
    link::encode_reply(out, id(7), what);
    return std::string{out.bytes()};
}

std::string ended(conn::end_of_data how)
{
    term_writer out;
    link::encode_ended(out, id(8), how);
    return std::string{out.bytes()};
}

std::string unknown_command()
{
    term_writer out;
    link::encode_rejection(out, {id(7), request_error{"unknown command"}, "fly"});
    return std::string{out.bytes()};
}

std::string log_line()
{
    term_writer out;
    link::encode_log(out, log::level::warning, "a line");
    return std::string{out.bytes()};
}

std::map<std::string, std::string> said()
{
    using how = conn::flow::peer_end;
    net::tcp_options tcp;
    tcp.nodelay = true;
    tcp.linger = std::pair{false, 0};
    tcp.sndbuf = 1; // there, but not asked for
    const std::string suite = "TLS_AES_128_GCM_SHA256";
    return {
        {"ok", reply(replies::done{})},
        {"listening", reply(replies::listening{1, localhost(8443)})},
        {"opened", reply(replies::opened{2, token(), net::address::ipv6({0, 0, 0, 0, 0, 0, 0, 1}, 1000),
                                         *net::address::local("/run/x")})},
        {"attached", reply(replies::attached{524288})},
        {"handshake", reply(tls::handshake_info{"tlsv1.3", suite, suite, false, {"leaf", "ca"}, "h2", "localhost"})},
        {"handshake_bare", reply(tls::handshake_info{"tlsv1.2", "C", "S", true, {}, {}, {}})},
        {"options", reply(replies::options{{"linger", "nodelay", "ipv6_v6only"}, tcp})},
        {"counters", reply(counters())},
        {"stats", reply(replies::stats{1, 2, 3, 4, 5, 6, 7, 8})},
        {"suites", reply(replies::suites{{"TLS_AES_256_GCM_SHA384", "ECDHE-RSA-AES128-SHA"}})},
        {"error_posix", reply(posix(ECONNREFUSED))},
        {"error_named", reply(failure{named_error{"closed"}})},
        {"error_alert", reply(failure{alert_error{unknown_ca, "TLS client: sent fatal alert unknown_ca"}})},
        {"error_file", reply(failure{option_error{"certfile", "enoent", "/c.pem"}})},
        {"error_option", reply(failure{option_error{"certfile", "required", ""}})},
        {"error_request", reply(failure{request_error{"hello first"}})},
        {"error_version", reply(replies::wrong_version{})},
        {"error_command", unknown_command()},
        {"ended_close_notify", ended({how::close_notify, {}})},
        {"ended_truncated", ended({how::truncated, {}})},
        {"ended_alert", ended({how::failed, failure{alert_error{bad_certificate,
                                                                "TLS server: received fatal alert bad_certificate"}}})},
        {"ended_reset", ended({how::failed, posix(ECONNRESET)})},
        {"log", log_line()},
    };
}

/// A lane's term as the daemon says it.
std::string lane_term(const control::lane_term& what)
{
    using kind = control::lane_term::kind;
    term_writer out;
    switch (what.what) {
    case kind::data: {
        auto head = link::data_head(what.connection);
        link::set_data_size(head, what.data.size());
        return head.append(what.data);
    }
    case kind::credit:
        link::encode_credit(out, what.connection, static_cast<std::size_t>(what.credit));
        break;
    case kind::eof:
        link::encode_eof(out, what.connection);
        break;
    case kind::hangup:
        link::encode_hangup(out, what.connection);
        break;
    }
    return std::string{out.bytes()};
}

std::map<std::string, control::lane_term> lane_terms()
{
    using kind = control::lane_term::kind;
    return {
        {"data", {kind::data, 3, 0, "plaintext"}},
        {"credit", {kind::credit, 3, 131072, {}}},
        {"eof", {kind::eof, 3, 0, {}}},
        {"hangup", {kind::hangup, 18446744073, 0, {}}},
    };
}

std::set<std::string> names(const fs::path& directory)
{
    std::set<std::string> out;
    for (const auto& each : fs::directory_iterator{directory}) {
        if (each.path().extension() == ".term")
            out.insert(each.path().stem().string());
    }
    return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(every_request_decodes)
{
    for (const auto& name : names(vectors / "requests")) {
        const auto bytes = contents(vectors / "requests" / (name + ".etf"));
        const auto read = link::decode_message(bytes);
        if (const auto* bad = std::get_if<link::senseless>(&read))
            BOOST_ERROR(name << ": " << std::get<request_error>(bad->why).text);
        else
            BOOST_TEST((std::get<control::request>(read).id == id(7)), name);
    }
}

BOOST_AUTO_TEST_CASE(every_command_has_a_vector)
{
    std::set<std::size_t> seen;
    for (const auto& name : names(vectors / "requests")) {
        const auto read = link::decode_message(contents(vectors / "requests" / (name + ".etf")));
        seen.insert(std::get<control::request>(read).what.index());
    }
    BOOST_TEST(seen.size() == std::variant_size_v<control::command>);
}

BOOST_AUTO_TEST_CASE(a_request_means_what_it_says)
{
    const auto get = [](const char* name) {
        return std::get<control::request>(
                   link::decode_message(contents(vectors / "requests" / (std::string{name} + ".etf"))))
            .what;
    };
    const auto listen = std::get<commands::listen>(get("listen"));
    BOOST_TEST(listen.address.text() == "127.0.0.1:8443");
    BOOST_TEST(listen.tls.alpn.size() == 2u);
    BOOST_TEST(listen.tls.ciphers.value() == "HIGH");
    BOOST_TEST(listen.hostname.value() == "client.example");
    const auto connect = std::get<commands::connect>(get("connect_name"));
    BOOST_TEST(std::get<std::string>(connect.host) == "example.org");
    BOOST_TEST(connect.tls.verify_peer);
    const auto handshake = std::get<commands::handshake>(get("handshake"));
    BOOST_TEST(handshake.connection == 18446744073u);
    BOOST_TEST((handshake.subject == id(8)));
    const auto close = std::get<commands::close>(get("close_graceful"));
    BOOST_TEST(close.stall.count() == 30000);
}

BOOST_AUTO_TEST_CASE(every_reply_is_its_vector)
{
    const auto now = said();
    std::set<std::string> ours;
    for (const auto& [name, bytes] : now) {
        ours.insert(name);
        BOOST_TEST(link::well_formed(bytes), name);
        const auto path = vectors / "replies" / (name + ".etf");
        if (std::getenv("ETLS_WRITE_VECTORS") != nullptr)
            std::ofstream{path, std::ios::binary} << bytes;
        BOOST_TEST((contents(path) == bytes), name << " differs from its vector");
    }
    BOOST_TEST(ours == names(vectors / "replies"), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_lane_term_is_its_vector_both_ways)
{
    std::set<std::string> ours;
    for (const auto& [name, term] : lane_terms()) {
        ours.insert(name);
        const auto bytes = lane_term(term);
        BOOST_TEST(link::well_formed(bytes), name);
        const auto path = vectors / "lanes" / (name + ".etf");
        if (std::getenv("ETLS_WRITE_VECTORS") != nullptr)
            std::ofstream{path, std::ios::binary} << bytes;
        const auto vector = contents(path);
        BOOST_TEST((vector == bytes), name << " differs from its vector");
        const auto read = link::decode_message(vector);
        const auto* got = std::get_if<control::lane_term>(&read);
        BOOST_REQUIRE_MESSAGE(got != nullptr, name << " is not read");
        BOOST_TEST((got->what == term.what), name);
        BOOST_TEST(got->connection == term.connection, name);
        BOOST_TEST(got->credit == term.credit, name);
        BOOST_TEST(got->data == term.data, name);
    }
    BOOST_TEST(ours == names(vectors / "lanes"), boost::test_tools::per_element());
}
