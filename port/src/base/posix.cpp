#include "base/posix.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace etls {

namespace {

using entry = std::pair<int, std::string_view>;

// EWOULDBLOCK is EAGAIN on Linux, and EOPNOTSUPP is ENOTSUP; Erlang knows them by the names below.
constexpr std::array table{
    entry{E2BIG, "e2big"},
    entry{EACCES, "eacces"},
    entry{EADDRINUSE, "eaddrinuse"},
    entry{EADDRNOTAVAIL, "eaddrnotavail"},
    entry{EAFNOSUPPORT, "eafnosupport"},
    entry{EAGAIN, "eagain"},
    entry{EALREADY, "ealready"},
    entry{EBADF, "ebadf"},
    entry{EBADMSG, "ebadmsg"},
    entry{EBUSY, "ebusy"},
    entry{ECANCELED, "ecanceled"},
    entry{ECHILD, "echild"},
    entry{ECOMM, "ecomm"},
    entry{ECONNABORTED, "econnaborted"},
    entry{ECONNREFUSED, "econnrefused"},
    entry{ECONNRESET, "econnreset"},
    entry{EDEADLK, "edeadlk"},
    entry{EDESTADDRREQ, "edestaddrreq"},
    entry{EDOM, "edom"},
    entry{EDQUOT, "edquot"},
    entry{EEXIST, "eexist"},
    entry{EFAULT, "efault"},
    entry{EFBIG, "efbig"},
    entry{EHOSTDOWN, "ehostdown"},
    entry{EHOSTUNREACH, "ehostunreach"},
    entry{EILSEQ, "eilseq"},
    entry{EINPROGRESS, "einprogress"},
    entry{EINTR, "eintr"},
    entry{EINVAL, "einval"},
    entry{EIO, "eio"},
    entry{EISCONN, "eisconn"},
    entry{EISDIR, "eisdir"},
    entry{ELOOP, "eloop"},
    entry{EMFILE, "emfile"},
    entry{EMLINK, "emlink"},
    entry{EMSGSIZE, "emsgsize"},
    entry{ENAMETOOLONG, "enametoolong"},
    entry{ENETDOWN, "enetdown"},
    entry{ENETRESET, "enetreset"},
    entry{ENETUNREACH, "enetunreach"},
    entry{ENFILE, "enfile"},
    entry{ENOBUFS, "enobufs"},
    entry{ENODATA, "enodata"},
    entry{ENODEV, "enodev"},
    entry{ENOENT, "enoent"},
    entry{ENOEXEC, "enoexec"},
    entry{ENOLCK, "enolck"},
    entry{ENOLINK, "enolink"},
    entry{ENOMEM, "enomem"},
    entry{ENOPROTOOPT, "enoprotoopt"},
    entry{ENOSPC, "enospc"},
    entry{ENOSYS, "enosys"},
    entry{ENOTBLK, "enotblk"},
    entry{ENOTCONN, "enotconn"},
    entry{ENOTDIR, "enotdir"},
    entry{ENOTEMPTY, "enotempty"},
    entry{ENOTSOCK, "enotsock"},
    entry{ENOTSUP, "enotsup"},
    entry{ENOTTY, "enotty"},
    entry{ENXIO, "enxio"},
    entry{EOVERFLOW, "eoverflow"},
    entry{EPERM, "eperm"},
    entry{EPFNOSUPPORT, "epfnosupport"},
    entry{EPIPE, "epipe"},
    entry{EPROTO, "eproto"},
    entry{EPROTONOSUPPORT, "eprotonosupport"},
    entry{EPROTOTYPE, "eprototype"},
    entry{ERANGE, "erange"},
    entry{EREMOTEIO, "eremoteio"},
    entry{EROFS, "erofs"},
    entry{ESHUTDOWN, "eshutdown"},
    entry{ESOCKTNOSUPPORT, "esocktnosupport"},
    entry{ESPIPE, "espipe"},
    entry{ESRCH, "esrch"},
    entry{ESTALE, "estale"},
    entry{ETIME, "etime"},
    entry{ETIMEDOUT, "etimedout"},
    entry{ETXTBSY, "etxtbsy"},
    entry{EXDEV, "exdev"},
};

} // namespace

std::string_view posix_name(int error) noexcept
{
    const auto found = std::find_if(table.begin(), table.end(), [&](const entry& one) { return one.first == error; });
    return found == table.end() ? "unknown" : found->second;
}

} // namespace etls
