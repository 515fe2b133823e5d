#include "cli/cookie.hpp"

#include "net/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace etls::cli {

namespace {

constexpr const char* variable = "ETLSD_COOKIE";

/// Erlang's own limit for an atom; ei takes more.
constexpr std::size_t longest = 255;

std::variant<std::string, no_cookie> checked(std::string cookie, const std::string& from)
{
    const auto end = cookie.find_last_not_of(" \t\r\n");
    cookie.erase(end == std::string::npos ? 0 : end + 1);
    if (cookie.empty())
        return no_cookie{from + ": the cookie is empty"};
    if (cookie.size() > longest)
        return no_cookie{from + ": a cookie has at most " + std::to_string(longest) + " characters"};
    if (cookie.find_first_of(std::string_view{"\0\r\n", 3}) != std::string::npos)
        return no_cookie{from + ": a cookie is one line"};
    return cookie;
}

} // namespace

std::variant<std::string, no_cookie> read_cookie(const std::optional<std::string>& file)
{
    std::optional<std::string> given;
    if (const char* value = std::getenv(variable); value != nullptr) {
        given = value;
        ::unsetenv(variable);
    }
    if (!file) {
        if (!given)
            return no_cookie{std::string{"no cookie: give --cookie-file, or "} + variable + " in the environment"};
        return checked(std::move(*given), variable);
    }
    const net::unique_fd fd{::open(file->c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat status {};
    if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0)
        return no_cookie{*file + ": " + std::strerror(errno)};
    if (!S_ISREG(status.st_mode))
        return no_cookie{*file + ": not a file"};
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return no_cookie{*file + ": others than its owner have access to it (chmod 600)"};
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
        return no_cookie{*file + ": belongs to another user"};
    std::string text(longest + 16, '\0');
    const auto n = ::read(fd.get(), text.data(), text.size());
    if (n < 0)
        return no_cookie{*file + ": " + std::strerror(errno)};
    text.resize(static_cast<std::size_t>(n));
    return checked(std::move(text), *file);
}

} // namespace etls::cli
