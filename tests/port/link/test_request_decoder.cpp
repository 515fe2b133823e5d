#define BOOST_TEST_MODULE request_decoder
#include <boost/test/unit_test.hpp>

#include "link/request_decoder.hpp"
#include "link/term_writer.hpp"

#include <functional>
#include <random>
#include <string>

using namespace etls;
using link::decode_message;
using link::senseless;
using link::term_writer;
namespace commands = control::commands;

namespace {

std::string frame(const std::string& command, const std::function<void(term_writer&)>& args)
{
    term_writer out;
    out.tuple(4).atom("request").integer(7).atom(command);
    args(out);
    return std::string{out.bytes()};
}

template <class Command>
Command good(const std::string& bytes)
{
    auto read = decode_message(bytes);
    if (const auto* bad = std::get_if<senseless>(&read))
        BOOST_FAIL(std::get<request_error>(bad->why).text);
    return std::get<Command>(std::get<control::request>(read).what);
}

std::string complaint(const std::string& bytes)
{
    const auto read = decode_message(bytes);
    BOOST_REQUIRE(std::holds_alternative<senseless>(read));
    return std::get<request_error>(std::get<senseless>(read).why).text;
}

void localhost(term_writer& out, int port)
{
    out.tuple(2).tuple(4).integer(127).integer(0).integer(0).integer(1).integer(port);
}

} // namespace

BOOST_AUTO_TEST_CASE(a_listen_with_everything)
{
    const auto got = good<commands::listen>(frame("listen", [](term_writer& out) {
        out.map(4);
        out.atom("address");
        localhost(out, 8443);
        out.atom("family").atom("inet");
        out.atom("tcp").map(4).atom("nodelay").flag(false).atom("backlog").integer(1024);
        out.atom("reuseaddr").flag(true).atom("linger").tuple(2).flag(true).integer(3);
        out.atom("tls").map(5).atom("certfile").binary("/c.pem").atom("verify").atom("peer");
        out.atom("versions").list(1).atom("tlsv1.3").nil();
        out.atom("cacerts").list(2).binary("a").binary("b").nil();
        out.atom("alpn").list(0);
    }));
    BOOST_TEST(got.address.text() == "127.0.0.1:8443");
    BOOST_TEST(got.tcp.nodelay.value() == false);
    BOOST_TEST(got.tcp.backlog.value() == 1024);
    BOOST_TEST(got.tcp.linger.value().second == 3);
    BOOST_TEST(got.tls.certfile.value() == "/c.pem");
    BOOST_TEST(got.tls.verify_peer);
    BOOST_TEST(got.tls.versions.size() == 1u);
    BOOST_TEST(got.tls.cacerts.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_connect_to_each_kind_of_host)
{
    const auto to = [](const std::function<void(term_writer&)>& host) {
        return good<commands::connect>(frame("connect", [&](term_writer& out) {
            out.map(2).atom("host");
            host(out);
            out.atom("port").integer(443);
        }));
    };
    BOOST_TEST(std::get<std::string>(to([](auto& out) { out.binary("example.org"); }).host) == "example.org");
    const auto v4 = to([](auto& out) { out.tuple(4).integer(10).integer(0).integer(0).integer(1); });
    BOOST_TEST(std::get<net::address>(v4.host).text() == "10.0.0.1:443");
    const auto v6 = to([](auto& out) {
        out.tuple(8);
        for (int i = 0; i < 7; ++i)
            out.integer(0);
        out.integer(1);
    });
    BOOST_TEST(std::get<net::address>(v6.host).text() == "[::1]:443");
    const auto local = to([](auto& out) { out.tuple(2).atom("local").binary("/run/x"); });
    BOOST_TEST(std::get<net::address>(local.host).text() == "local:/run/x");
}

BOOST_AUTO_TEST_CASE(the_port_may_stand_before_the_host)
{
    const auto got = good<commands::connect>(frame("connect", [](term_writer& out) {
        out.map(2).atom("port").integer(1).atom("host").tuple(4).integer(1).integer(2).integer(3).integer(4);
    }));
    BOOST_TEST(std::get<net::address>(got.host).text() == "1.2.3.4:1");
}

BOOST_AUTO_TEST_CASE(close_is_of_a_connection_or_of_a_listener)
{
    const auto connection = good<commands::close>(
        frame("close", [](auto& out) { out.map(2).atom("conn").integer(3).atom("mode").atom("abort"); }));
    BOOST_TEST(connection.connection == 3u);
    BOOST_CHECK(connection.mode == conn::flow::closing_mode::abort);
    const auto listener =
        good<commands::close_listener>(frame("close", [](auto& out) { out.map(1).atom("listener").integer(4); }));
    BOOST_TEST(listener.listener == 4u);
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_told_apart)
{
    const auto empty = [](term_writer& out) { out.map(0); };
    BOOST_TEST(complaint("") == "not a term");
    BOOST_TEST(complaint("\x83j") == "not a request");
    BOOST_TEST(complaint(frame("fly", empty)) == "unknown command");
    BOOST_TEST(complaint(frame("accept", empty)) == "accept: missing key listener");
    BOOST_TEST(complaint(frame("stats", [](auto& out) { out.atom("x"); })) == "stats: arguments are not a map");
    BOOST_TEST(complaint(frame("stats", [](auto& out) { out.map(1).atom("x").integer(1); })) == "stats: unknown key x");
    BOOST_TEST(complaint(frame("accept", [](auto& out) { out.map(1).atom("listener").integer(-1); })) ==
               "accept: bad value of listener");
    BOOST_TEST(complaint(frame("connect", [](auto& out) {
                   out.map(2).atom("host").binary("h").atom("port").integer(65536);
               })) == "connect: bad value of port");
    BOOST_TEST(complaint(frame("connect", [](auto& out) {
                   out.map(2).atom("host").binary(std::string{"a\0b", 3}).atom("port").integer(1);
               })) == "connect: bad value of host");
    BOOST_TEST(complaint(frame("info", [](auto& out) { out.map(1).atom("conn").binary("1"); })) ==
               "info: bad value of conn");
}

BOOST_AUTO_TEST_CASE(a_request_whose_id_can_be_read_can_be_answered)
{
    term_writer out;
    out.tuple(3).atom("request").tuple(2).atom("a").integer(1).atom("stats");
    const auto read = decode_message(out.bytes());
    BOOST_TEST(std::get<senseless>(read).id.has_value());
    term_writer other;
    other.atom("hello");
    BOOST_TEST(!std::get<senseless>(decode_message(other.bytes())).id.has_value());
}

BOOST_AUTO_TEST_CASE(an_id_is_kept_byte_by_byte)
{
    term_writer out;
    out.tuple(4).atom("request").tuple(2).binary("pid").integer(99).atom("stats").map(0);
    const auto read = decode_message(out.bytes());
    const auto& id = std::get<control::request>(read).id;
    BOOST_TEST(out.bytes().find(id) != std::string_view::npos);
}

BOOST_AUTO_TEST_CASE(no_mutation_of_a_request_does_harm)
{
    const auto whole = frame("listen", [](term_writer& out) {
        out.map(3).atom("address");
        localhost(out, 1);
        out.atom("tcp").map(1).atom("linger").tuple(2).flag(true).integer(3);
        out.atom("tls").map(2).atom("versions").list(1).atom("tlsv1.2").nil().atom("certfile").binary("/c");
    });
    std::mt19937 random{7};
    for (int i = 0; i < 100000; ++i) {
        auto bytes = whole;
        for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        (void)decode_message(bytes);
    }
    BOOST_TEST(true);
}
