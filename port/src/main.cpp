#include "base/log.hpp"
#include "cli/cnode_mode.hpp"
#include "cli/decode.hpp"
#include "cli/port_mode.hpp"
#include "cli/settings.hpp"
#include "cli/standalone.hpp"
#include "cli/version.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>

namespace {

constexpr int bad_command_line = 2;
constexpr int failed_to_start = 3;

/// Closed, the next socket would take their number, and a line of the log go to a peer.
void open_standard_descriptors()
{
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(fd, F_GETFD) < 0)
            static_cast<void>(::open("/dev/null", O_RDWR)); // the lowest number free is this one
    }
}

int run(const etls::cli::settings& wish)
{
    using mode = etls::cli::settings::mode;
    switch (wish.what) {
    case mode::help:
        std::cout << wish.help;
        return 0;
    case mode::version:
        std::cout << etls::cli::version_text();
        return 0;
    case mode::port:
        return etls::cli::run_port(wish);
    case mode::cnode:
        return etls::cli::run_cnode(wish);
    case mode::decode:
        return etls::cli::run_decode(std::cin, std::cout, std::cerr);
    case mode::echo_server:
        return etls::cli::run_echo_server(wish);
    case mode::client:
        return etls::cli::run_client(wish);
    }
    return bad_command_line;
}

} // namespace

int main(int argc, char** argv)
{
    open_standard_descriptors();
    const auto wish = etls::cli::parse(argc, argv);
    if (const auto* wrong = std::get_if<std::string>(&wish)) {
        std::cerr << "etlsd: " << *wrong << '\n';
        return bad_command_line;
    }
    std::signal(SIGPIPE, SIG_IGN);
    const auto& settings = std::get<etls::cli::settings>(wish);
    etls::log::set_level(settings.level);
    try {
        return run(settings);
    } catch (const std::exception& thrown) {
        std::cerr << "etlsd: " << thrown.what() << '\n';
        return failed_to_start;
    }
}
