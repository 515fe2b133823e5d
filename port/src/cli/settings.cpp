#include "cli/settings.hpp"

#include <boost/program_options.hpp>

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

} // namespace

std::variant<settings, std::string> parse(int argc, const char* const* argv)
{
    settings out;
    po::options_description general{"etlsd: TLS for Erlang, outside the VM. One of"};
    po::options_description alone{"On its own, to try TLS without Erlang"};
    po::options_description common{"With any of them"};
    // clang-format off
    general.add_options()
        ("port", "serve the Erlang VM on standard input and output (proto/PROTOCOL.md)")
        ("listen", po::value<std::string>()->value_name("ADDR:PORT"), "TLS server; needs --cert and --echo")
        ("connect", po::value<std::string>()->value_name("HOST:PORT"), "TLS client: standard input to the peer, its answers to standard output")
        ("help", "this text")
        ("version", "versions of etlsd and its libraries, crypto features of the CPU");
    alone.add_options()
        ("echo", "with --listen: send back what comes")
        ("cert", po::value<std::string>()->value_name("FILE"), "own certificate and chain, PEM")
        ("key", po::value<std::string>()->value_name("FILE"), "its key, PEM (default: in --cert)")
        ("cacert", po::value<std::string>()->value_name("FILE"), "trusted CAs, PEM (default: the system's)")
        ("verify", "verify the peer: a client the server and its name, a server that the client has a certificate")
        ("server-name", po::value<std::string>()->value_name("NAME"), "with --connect: SNI and name to verify (default: HOST)");
    common.add_options()
        ("threads", po::value<unsigned>()->value_name("N"), "I/O threads (default: one per core)")
        ("log-level", po::value<std::string>()->value_name("LEVEL"), "error, warning, notice (default), info or debug");
    // clang-format on
    po::options_description all;
    all.add(general).add(alone).add(common);
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
    if (has("port") + has("listen") + has("connect") != 1)
        return std::string{"one of --port, --listen and --connect is needed (see --help)"};
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

    if (has("port")) {
        for (const char* stray : {"echo", "cert", "key", "cacert", "verify", "server-name"}) {
            if (has(stray))
                return "--" + std::string{stray} + " does not go with --port";
        }
        out.what = settings::mode::port;
        return out;
    }
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
