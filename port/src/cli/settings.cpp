#include "cli/settings.hpp"

#include <boost/program_options.hpp>

#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

namespace etls::cli {

namespace {

namespace po = boost::program_options;

/// More I/O threads than this is a slip of the hand.
constexpr unsigned most_threads = 1024;

/// "HOST:PORT", "[IPV6]:PORT"; false where it is neither.
bool split(const std::string& text, std::string& host, std::string& port)
{
    const auto colon = text.rfind(':');
    if (colon == std::string::npos || colon + 1 == text.size() || colon == 0)
        return false;
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string::npos)
        return false;
    if (host.empty() || port.find_first_not_of("0123456789") != std::string::npos || port.size() > 5)
        return false;
    return std::stoul(port) <= 65535;
}

template <class Value>
void take(const po::variables_map& given, const char* name, std::optional<Value>& out)
{
    if (given.count(name) != 0)
        out = given[name].as<Value>();
}

/// What ei and epmd take for a name.
bool is_node_part(const std::string& text)
{
    constexpr std::size_t longest = 100;
    return !text.empty() && text.size() <= longest &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:") ==
               std::string::npos;
}

std::variant<settings, std::string> parse_cnode(const po::variables_map& given, settings out)
{
    constexpr unsigned most_ticktime = 86400;
    constexpr unsigned least_ticktime = 4; // a tick a second
    const auto name = given["cnode"].as<std::string>();
    const auto at = name.find('@');
    if (at == std::string::npos || !is_node_part(name.substr(0, at)) || !is_node_part(name.substr(at + 1)))
        return std::string{"--cnode: NAME@HOST"};
    out.what = settings::mode::cnode;
    out.node = name.substr(0, at);
    out.host = name.substr(at + 1);
    take(given, "cookie-file", out.cookie_file);
    take(given, "listen-address", out.listen_address);
    out.epmd = given.count("no-epmd") == 0;
    out.until_eof = given.count("until-eof") != 0;
    if (given.count("dist-port") != 0) {
        const auto port = given["dist-port"].as<unsigned>();
        if (port == 0 || port > 65535)
            return std::string{"--dist-port: a number from 1 to 65535"};
        out.dist_port = static_cast<std::uint16_t>(port);
    }
    if (!out.epmd && out.dist_port == 0)
        return std::string{"--no-epmd needs --dist-port: nothing else tells where this node is"};
    if (given.count("net-ticktime") != 0)
        out.ticktime_s = given["net-ticktime"].as<unsigned>();
    if (out.ticktime_s < least_ticktime || out.ticktime_s > most_ticktime)
        return "--net-ticktime: a number of seconds from " + std::to_string(least_ticktime) + " to " +
               std::to_string(most_ticktime);
    return out;
}

} // namespace

std::variant<settings, std::string> parse(int argc, const char* const* argv)
{
    settings out;
    po::options_description general{"etlsd: TLS for Erlang, outside the VM. One of"};
    po::options_description node{"With --cnode"};
    po::options_description alone{"On its own, to try TLS without Erlang"};
    po::options_description common{"With any of them"};
    // clang-format off
    general.add_options()
        ("port", "serve the Erlang VM on standard input and output (proto/PROTOCOL.md)")
        ("cnode", po::value<std::string>()->value_name("NAME@HOST"), "serve Erlang nodes that connect to this one; the cookie: --cookie-file, or ETLSD_COOKIE in the environment")
        ("listen", po::value<std::string>()->value_name("ADDR:PORT"), "TLS server; needs --cert and --echo")
        ("connect", po::value<std::string>()->value_name("HOST:PORT"), "TLS client: standard input to the peer, its answers to standard output")
        ("decode", "print the link frame (a term in the external format) that comes on standard input")
        ("help", "this text")
        ("version", "versions of etlsd and its libraries, crypto features of the CPU");
    node.add_options()
        ("cookie-file", po::value<std::string>()->value_name("FILE"), "the nodes' cookie; readable by its owner only")
        ("listen-address", po::value<std::string>()->value_name("IP"), "where nodes connect (default: the loopback)")
        ("dist-port", po::value<unsigned>()->value_name("PORT"), "the port they connect to (default: any, epmd tells it)")
        ("no-epmd", "do not register with epmd; needs --dist-port")
        ("net-ticktime", po::value<unsigned>()->value_name("SECONDS"), "a node that says or reads nothing for so long is given up (default: 60, as kernel's)")
        ("until-eof", "stop when standard input ends");
    alone.add_options()
        ("echo", "with --listen: send back what comes")
        ("cert", po::value<std::string>()->value_name("FILE"), "own certificate and chain, PEM")
        ("key", po::value<std::string>()->value_name("FILE"), "its key, PEM (default: in --cert)")
        ("cacert", po::value<std::string>()->value_name("FILE"), "trusted CAs, PEM (default: the system's)")
        ("verify", "verify the peer: a client the server and its name, a server that the client has a certificate")
        ("server-name", po::value<std::string>()->value_name("NAME"), "with --connect: SNI and name to verify (default: HOST)");
    common.add_options()
        ("trace-link", po::value<std::string>()->value_name("FILE"), "with --port and --cnode: append every term of the link, payload and secrets as sizes")
        ("threads", po::value<unsigned>()->value_name("N"), "I/O threads (default: one per core)")
        ("log-level", po::value<std::string>()->value_name("LEVEL"), "error, warning, notice (default), info or debug");
    // clang-format on
    po::options_description all;
    all.add(general).add(node).add(alone).add(common);
    std::ostringstream help;
    help << all;
    out.help = help.str();
    // Words that belong to no flag are taken only to be named.
    constexpr const char* stray_words = "words";
    po::options_description known;
    known.add(all).add_options()(stray_words, po::value<std::vector<std::string>>());
    po::positional_options_description strays;
    strays.add(stray_words, -1);

    po::variables_map given;
    try {
        using style = po::command_line_style::style_t;
        // Abbreviations would make every later flag a change of meaning of today's command lines.
        const int strict = style::unix_style & ~style::allow_guessing;
        po::store(po::command_line_parser(argc, argv).options(known).positional(strays).style(strict).run(), given);
        po::notify(given);
    } catch (const po::error& wrong) {
        return std::string{wrong.what()};
    }

    const auto has = [&](const char* name) { return given.count(name) != 0; };
    if (has(stray_words))
        return "what is '" + given[stray_words].as<std::vector<std::string>>().front() + "'? (see --help)";
    if (has("help"))
        return out;
    if (has("version")) {
        out.what = settings::mode::version;
        return out;
    }
    if (has("port") + has("cnode") + has("listen") + has("connect") + has("decode") != 1)
        return std::string{"one of --port, --cnode, --listen, --connect and --decode is needed (see --help)"};
    if (has("threads")) {
        out.threads = given["threads"].as<unsigned>();
        if (out.threads == 0 || out.threads > most_threads)
            return "--threads: a number from 1 to " + std::to_string(most_threads);
    }
    if (has("log-level") && !log::parse(given["log-level"].as<std::string>(), out.level))
        return std::string{"--log-level: error, warning, notice, info or debug"};
    take(given, "cert", out.cert);
    take(given, "key", out.key);
    take(given, "cacert", out.cacert);
    take(given, "server-name", out.server_name);
    out.verify = has("verify");

    const char* which = "listen";
    for (const char* each : {"port", "cnode", "connect", "decode"}) {
        if (has(each))
            which = each;
    }
    const std::string mode = which;
    const bool serves_vms = mode == "port" || mode == "cnode";
    const auto misplaced = [&](std::initializer_list<const char*> flags) -> std::optional<std::string> {
        for (const char* stray : flags) {
            if (has(stray))
                return "--" + std::string{stray} + " does not go with --" + mode;
        }
        return std::nullopt;
    };
    if (serves_vms || mode == "decode") {
        if (auto wrong = misplaced({"echo", "cert", "key", "cacert", "verify", "server-name"}))
            return *wrong;
    }
    if (mode != "cnode") {
        if (auto wrong =
                misplaced({"cookie-file", "listen-address", "dist-port", "no-epmd", "net-ticktime", "until-eof"}))
            return *wrong;
    }
    if (!serves_vms) {
        if (auto wrong = misplaced({"trace-link"}))
            return *wrong;
    }
    take(given, "trace-link", out.trace_link);
    if (mode == "port") {
        out.what = settings::mode::port;
        return out;
    }
    if (mode == "decode") {
        out.what = settings::mode::decode;
        return out;
    }
    if (mode == "cnode")
        return parse_cnode(given, std::move(out));
    const bool server = has("listen");
    out.what = server ? settings::mode::echo_server : settings::mode::client;
    const auto* name = server ? "listen" : "connect";
    if (!split(given[name].as<std::string>(), out.host, out.port))
        return "--" + std::string{name} + ": HOST:PORT, or [IPV6]:PORT";
    if (server && !has("echo"))
        return std::string{"--listen needs --echo: it is the only server there is"};
    if (server && !out.cert)
        return std::string{"--listen needs --cert"};
    if (server && out.server_name)
        return std::string{"--server-name goes with --connect"};
    if (out.server_name && out.server_name->empty())
        return std::string{"--server-name: a name"};
    if (!server && has("echo"))
        return std::string{"--echo goes with --listen"};
    if (!server && out.key && !out.cert)
        return std::string{"--key needs --cert"};
    return out;
}

} // namespace etls::cli
