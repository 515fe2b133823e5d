#include "tls/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace etls::tls {

namespace {

class descriptor {
public:
    explicit descriptor(int fd) : fd_{fd} {}
    ~descriptor()
    {
        if (fd_ >= 0)
            ::close(fd_);
    }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;

    [[nodiscard]] int get() const noexcept { return fd_; }

private:
    int fd_;
};

std::int64_t nanoseconds(const timespec& time) noexcept
{
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

} // namespace

std::variant<std::string, int> read_file(const std::string& path)
{
    if (path.find('\0') != std::string::npos)
        return ENOENT; // the kernel would see another, shorter name
    // Without O_NONBLOCK, opening a FIFO would wait for its writer.
    const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.get() < 0)
        return errno;
    std::string content;
    constexpr std::size_t portion = 64 * 1024;
    for (std::size_t used = 0;;) {
        content.resize(used + portion);
        const auto n = ::read(file.get(), content.data() + used, portion);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        used += static_cast<std::size_t>(n);
        if (n == 0) {
            content.resize(used);
            return content;
        }
        if (used > file_bytes)
            return EFBIG;
    }
}

file_identity identify_file(const std::string& path) noexcept
{
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return {};
    return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), nanoseconds(status.st_mtim),
            nanoseconds(status.st_ctim)};
}

} // namespace etls::tls
