#include "lane/leftovers.hpp"

#include "net/sockets.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>

namespace etls::lane {

namespace {

/// Whether somebody listens there: a refusal is the only proof that nobody does.
bool abandoned(const std::string& path)
{
    const auto at = net::address::local(path);
    auto probe = net::open_stream(net::family::local, {}, nullptr);
    if (!at || !probe)
        return false;
    return ::connect(probe->get(), at.value().native(), at.value().size()) != 0 &&
           (errno == ECONNREFUSED || errno == ENOENT);
}

} // namespace

int remove_leftovers(const std::string& base, std::chrono::seconds youngest)
{
    namespace fs = std::filesystem;
    int removed = 0;
    std::error_code ec;
    for (fs::directory_iterator at{base, ec}, end; !ec && at != end; at.increment(ec)) {
        const auto directory = at->path().string();
        struct stat status {};
        if (!at->path().filename().string().starts_with(directory_prefix) || ::lstat(directory.c_str(), &status) != 0 ||
            !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() ||
            std::time(nullptr) - status.st_mtime < youngest.count())
            continue;
        const auto path = directory + '/' + std::string{socket_name};
        if (!abandoned(path))
            continue;
        ::unlink(path.c_str());
        removed += ::rmdir(directory.c_str()) == 0 ? 1 : 0;
    }
    return removed;
}

} // namespace etls::lane
