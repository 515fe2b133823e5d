// What people see of terms: Erlang's syntax, bounded, and never a secret. The expected lines are those of
// `io:format("~0tp")` where nothing is redacted.
#define BOOST_TEST_MODULE term_text
#include <boost/test/unit_test.hpp>

#include "base/log.hpp"
#include "cli/decode.hpp"
#include "link/term_text.hpp"
#include "link/term_writer.hpp"
#include "link/trace.hpp"

#include <boost/asio/io_context.hpp>

#include <sys/stat.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

using namespace etls;
using link::term_text;
using link::term_writer;
namespace fs = std::filesystem;

namespace {

using namespace std::string_literals;

std::string text(const term_writer& term)
{
    return term_text(term.bytes()).value();
}

/// Of bytes behind the version byte.
std::string raw(const std::string& bytes)
{
    return term_text('\x83' + bytes).value_or("no term");
}

std::string atom(std::string_view name)
{
    term_writer out;
    out.atom(name);
    return text(out);
}

/// The writer has no floats, nor has the protocol.
std::string floating(double value)
{
    std::string bytes = "F";
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8)
        bytes += static_cast<char>(bits >> shift);
    return raw(bytes);
}

std::string contents(const fs::path& path)
{
    std::ifstream in{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
}

struct scratch {
    scratch()
    {
        std::string name = (fs::temp_directory_path() / "etls-trace.XXXXXX").string();
        path = ::mkdtemp(name.data());
    }
    ~scratch() { fs::remove_all(path); }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    fs::path path;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_request_reads_as_its_golden_term)
{
    term_writer out;
    out.tuple(4).atom("request").tuple(2).binary("<0.99.0>").integer(7).atom("connect").map(6);
    out.atom("host")
        .binary("example.org")
        .atom("port")
        .integer(443)
        .atom("bind")
        .tuple(2)
        .atom("local")
        .binary("/run/x");
    out.atom("names").list(2).atom("nodelay").atom("true").nil();
    out.atom("tls").map(1).atom("alpn").list(1).binary("h2").nil();
    out.atom("server_name").binary("b\xc3\xbc\"cher\n");
    BOOST_TEST(text(out) == "{request,{<<\"<0.99.0>\">>,7},connect,#{host => <<\"example.org\">>,port => 443,"
                            "bind => {local,<<\"/run/x\">>},names => [nodelay,true],tls => #{alpn => [<<\"h2\">>]},"
                            "server_name => <<\"b\xc3\xbc\\\"cher\\n\"/utf8>>}}");
}

BOOST_AUTO_TEST_CASE(what_may_be_secret_is_told_by_its_size)
{
    term_writer data;
    data.tuple(3).atom("data").integer(3).binary("password");
    BOOST_TEST(text(data) == "{data,3,<<8 bytes>>}");

    term_writer opened;
    opened.tuple(3).atom("reply").tuple(2).binary("<0.9.0>").integer(1).tuple(2).atom("ok").map(4);
    opened.atom("token").binary("0123456789abcdef").atom("peer_chain").list(2).binary("leaf").binary("c").nil();
    opened.atom("cacerts").list(1).binary("").nil().atom("host").binary("\xff\xfe");
    BOOST_TEST(text(opened) == "{reply,{<<\"<0.9.0>\">>,1},{ok,#{token => <<16 bytes>>,peer_chain => [<<4 bytes>>,"
                               "<<1 byte>>],cacerts => [<<>>],host => <<2 bytes>>}}}");
    // Neither an Id that is no process, nor one elsewhere, nor text that is too long, nor a list of bytes.
    term_writer odd;
    odd.tuple(3).atom("reply").tuple(2).binary("secret").integer(1).map(2);
    odd.atom("host").binary(std::string(link::text_binary_bytes + 1, 'a'));
    odd.atom("subject").tuple(2).binary("<0.9.0>").tuple(2).binary("<0.9.0>").integer(1);
    BOOST_TEST(text(odd) == "{reply,{<<6 bytes>>,1},#{host => <<1025 bytes>>,subject => {<<\"<0.9.0>\">>,"
                            "{<<7 bytes>>,1}}}}");
    BOOST_TEST(raw("k\0\3abc"s) == "[3 bytes]");
    BOOST_TEST(raw("t\0\0\0\1w\4hostk\0\3a\"c"s) == "#{host => \"a\\\"c\"}");
}

BOOST_AUTO_TEST_CASE(the_text_of_errors_and_log_lines_is_shown)
{
    term_writer log;
    log.tuple(3).atom("event").atom("log").tuple(2).atom("warning").binary("a line");
    BOOST_TEST(text(log) == "{event,log,{warning,<<\"a line\">>}}");
    term_writer alert;
    alert.tuple(3).atom("event").integer(1).tuple(2).atom("ended").tuple(2).atom("tls_alert");
    alert.tuple(2).atom("unknown_ca").binary("why");
    BOOST_TEST(text(alert) == "{event,1,{ended,{tls_alert,{unknown_ca,<<\"why\">>}}}}");
    term_writer file;
    file.tuple(3).atom("reply").integer(1).tuple(2).atom("error").tuple(2).atom("options");
    file.tuple(2).atom("certfile").tuple(2).atom("enoent").binary("/c.pem");
    BOOST_TEST(text(file) == "{reply,1,{error,{options,{certfile,{enoent,<<\"/c.pem\">>}}}}}");
    term_writer bad;
    bad.tuple(2).atom("bad_request").binary("hello first");
    BOOST_TEST(text(bad) == "{bad_request,<<\"hello first\">>}");
}

BOOST_AUTO_TEST_CASE(atoms_are_quoted_where_erlang_would)
{
    BOOST_TEST(atom("true") == "true");
    BOOST_TEST(atom("a_B@1") == "a_B@1");
    BOOST_TEST(atom("\xc3\xbc") == "\xc3\xbc"); // of Latin-1
    BOOST_TEST(atom("\xce\xbb") == "'\xce\xbb'");
    BOOST_TEST(atom("tlsv1.3") == "'tlsv1.3'");
    BOOST_TEST(atom("when") == "'when'");
    BOOST_TEST(atom("Ok") == "'Ok'");
    BOOST_TEST(atom("") == "''");
    BOOST_TEST(atom("it's\n\x01\\") == "'it\\'s\\n\\001\\\\'");
    BOOST_TEST(raw("s\1\xfc"s) == "\xc3\xbc"); // the old kind, in Latin-1
}

BOOST_AUTO_TEST_CASE(numbers)
{
    term_writer most;
    most.unsigned_integer(std::numeric_limits<std::uint64_t>::max());
    BOOST_TEST(text(most) == "18446744073709551615");
    term_writer least;
    least.integer(std::numeric_limits<std::int64_t>::min());
    BOOST_TEST(text(least) == "-9223372036854775808");
    BOOST_TEST(raw("n\1\1\0"s) == "-0");
    BOOST_TEST(raw("n\2\0\0\1"s) == "256");
    BOOST_TEST(raw("o\0\0\2\0\1"s + std::string(512, '\1')) == "#Integer<512 bytes>");
    BOOST_TEST(floating(1.5) == "1.5");
    BOOST_TEST(floating(-2) == "-2.0");
    BOOST_TEST(floating(1e16) == "1.0e16");
    BOOST_TEST(floating(1.25e-7) == "1.25e-7");
    BOOST_TEST(floating(std::numeric_limits<double>::infinity()) == "#Float<not finite>");
}

BOOST_AUTO_TEST_CASE(processes_references_and_other_kinds)
{
    const std::string node = "w\3a@b"s;
    BOOST_TEST(raw("X"s + node + "\0\0\0\14\0\0\0\1\0\0\0\7"s) == "<a@b.12.1>");
    BOOST_TEST(raw("g"s + node + "\0\0\0\14\0\0\0\1\7"s) == "<a@b.12.1>");
    BOOST_TEST(raw("Z\0\2"s + node + "\0\0\0\7\0\0\0\1\0\0\0\2"s) == "#Ref<a@b.2.1>");
    BOOST_TEST(raw("r\0\2"s + node + "\7\0\0\0\1\0\0\0\2"s) == "#Ref<a@b.2.1>");
    BOOST_TEST(raw("e"s + node + "\0\0\0\5\7"s) == "#Ref<a@b.5>");
    BOOST_TEST(raw("Y"s + node + "\0\0\0\5\0\0\0\7"s) == "#Port<a@b.5>");
    BOOST_TEST(raw("f"s + node + "\0\0\0\5\7"s) == "#Port<a@b.5>");
    BOOST_TEST(raw("x"s + node + "\0\0\0\0\0\0\0\5\0\0\0\7"s) == "#Port<a@b.5>");
    BOOST_TEST(raw("M\0\0\0\2\3\xff\xe0"s) == "<<11 bits>>");
    BOOST_TEST(raw("l\0\0\0\1a\1a\2"s) == "[1|2]");
    BOOST_TEST(raw("i\0\0\0\1h\0"s) == "{{}}");
    BOOST_TEST(raw("j") == "[]");
    BOOST_TEST(raw("t\0\0\0\0"s) == "#{}");
}

BOOST_AUTO_TEST_CASE(no_term_makes_more_text_than_the_limits_say)
{
    // Wide: told from where on it is not printed, and what comes behind it is.
    std::string list = "h\2l\0\x0f\x42\x40"s; // 1'000'000
    for (int i = 0; i < 1'000'000; ++i)
        list += "h\1a\1";
    const auto cut = raw(list + "jw\6behind");
    BOOST_TEST(cut.size() < 1000u);
    BOOST_TEST(cut.ends_with(",{1},...],behind}"), cut);
    // A tail is skipped with the rest.
    std::string improper = "h\2l\0\0\0\x64"s;
    for (int i = 0; i < 100; ++i)
        improper += "a\1";
    BOOST_TEST(raw(improper + "a\2a\3").ends_with(",1,...|2],3}"));
    // Wide at every depth: over when there is text enough.
    std::string nested = "j";
    for (int depth = 0; depth < 3; ++depth) {
        std::string outer = "l\0\0\0\x3c"s;
        for (int i = 0; i < 60; ++i)
            outer += nested;
        nested = outer + 'j';
    }
    const auto deep = raw(nested);
    BOOST_TEST(deep.size() >= link::text_bytes);
    BOOST_TEST(deep.size() < link::text_bytes + 100);
    BOOST_TEST(deep.ends_with("...],...]"), deep.substr(deep.size() - 50));
    // A key that is the last text there is room for leaves a map that can be read.
    std::string map = "t\0\0\0\3"s;
    for (char each = 'a'; each < 'd'; ++each)
        map += "w\1"s + each + nested;
    const auto pairs = raw(map);
    BOOST_TEST(pairs.ends_with("...],...}"), pairs.substr(pairs.size() - 50));
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_term_are_not_printed)
{
    BOOST_TEST(!term_text(""));
    BOOST_TEST(!term_text("\x83"));
    BOOST_TEST(!term_text("\x83m\0\0\0\5abc"s));
    BOOST_TEST(!term_text("\x83"
                          "a\1a"s));
}

BOOST_AUTO_TEST_CASE(decode_takes_a_term_with_and_without_its_length)
{
    const auto decode = [](const std::string& bytes) {
        std::istringstream in{bytes};
        std::ostringstream out, err;
        const int status = cli::run_decode(in, out, err);
        BOOST_TEST((status == 0) == err.str().empty());
        return std::to_string(status) + ' ' + out.str() + err.str();
    };
    const auto term = "\x83h\2a\1w\2ok"s;
    BOOST_TEST(decode(term) == "0 {1,ok}.\n");
    BOOST_TEST(decode("\0\0\0\11"s + term) == "0 {1,ok}.\n");
    BOOST_TEST(decode("") == "2 etlsd: --decode: nothing on standard input\n");
    BOOST_TEST(decode("\0\0\0\12"s + term) ==
               "2 etlsd: --decode: neither a term nor a frame: its length would be 10, and 9 bytes follow\n");
    BOOST_TEST(decode(term + 'x') == "2 etlsd: --decode: 10 bytes that are no well-formed term\n");
    BOOST_TEST(decode("\0\0\0\0"s).starts_with("2 etlsd: --decode: a frame of no bytes"));
    BOOST_TEST(decode("ab") == "2 etlsd: --decode: 2 bytes that are no well-formed term\n");
    BOOST_TEST(decode(std::string(16 * 1024 * 1024 + 5, '\x83')) ==
               "2 etlsd: --decode: more than a frame may have, 16777216 bytes\n");
}

BOOST_AUTO_TEST_CASE(a_trace_has_a_line_for_each_term)
{
    const scratch at;
    const auto path = at.path / "trace";
    boost::asio::io_context loop;
    {
        auto trace = link::link_trace::open(path.string(), loop.get_executor());
        BOOST_REQUIRE(trace);
        const auto tell = (*trace)->as_tracer();
        term_writer term;
        term.tuple(2).atom("eof").integer(3);
        tell(link::direction::from_vm, "port", term.bytes());
        tell(link::direction::to_vm, "a@b\n", term.bytes());
        tell(link::direction::from_vm, "port", "nonsense");
        BOOST_TEST(contents(path) == "");
    }
    const std::string time = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z )";
    const std::regex lines{time + R"(port <- \{eof,3\}\.\n)" + time + R"(a@b\? -> \{eof,3\}\.\n)" + time +
                           "port <- % 8 bytes that are no term\n"};
    BOOST_TEST(std::regex_match(contents(path), lines), contents(path));
    struct stat about {};
    BOOST_TEST(::stat(path.c_str(), &about) == 0);
    BOOST_TEST((about.st_mode & 0777) == 0600u);
}

BOOST_AUTO_TEST_CASE(a_trace_is_written_in_time)
{
    const scratch at;
    const auto path = at.path / "trace";
    boost::asio::io_context loop;
    auto trace = link::link_trace::open(path.string(), loop.get_executor());
    BOOST_REQUIRE(trace);
    (*trace)->line(link::direction::from_vm, "port", "x");
    loop.run(); // to the timer
    const auto first = contents(path).size();
    BOOST_TEST(first > 0u);
    // Full, without a timer.
    while (contents(path).size() == first)
        (*trace)->line(link::direction::from_vm, "port", "x");
    BOOST_TEST(contents(path).size() > 64u * 1024);
}

BOOST_AUTO_TEST_CASE(a_trace_that_cannot_be_written_warns_once_and_ends)
{
    BOOST_TEST(!link::link_trace::open("/nowhere/trace", boost::asio::io_context{}.get_executor()));
    std::string warned;
    boost::asio::io_context loop;
    auto trace = link::link_trace::open("/dev/full", loop.get_executor());
    BOOST_REQUIRE(trace);
    etls::log::set_sink([&](etls::log::level at, const std::string& line) {
        warned += std::string{etls::log::name(at)} + ' ' + line + '\n';
        (*trace)->line(link::direction::to_vm, "port", "x"); // as the event of this line would be
    });
    for (int i = 0; i < 2; ++i) {
        (*trace)->line(link::direction::from_vm, "port", "x");
        (*trace)->flush();
    }
    etls::log::set_sink([](etls::log::level, const std::string&) {});
    BOOST_TEST(warned == "warning the trace ends: /dev/full: No space left on device\n");
}
