#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

namespace etls::tls {

/// A credential file larger than this is none: the largest honest one, a CA bundle, has some 250 KB.
constexpr std::size_t file_bytes = 16 * 1024 * 1024;

/// The whole of a file, or an errno value: also EISDIR, and EFBIG for one over `file_bytes`. Never waits.
[[nodiscard]] std::variant<std::string, int> read_file(const std::string& path);

/// What tells one state of a file from another without reading it. All zero where there is no such file.
struct file_identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified_ns = 0; ///< since the epoch
    std::int64_t changed_ns = 0;  ///< of the inode, which no tool sets back

    bool operator==(const file_identity&) const = default;
};

[[nodiscard]] file_identity identify_file(const std::string& path) noexcept;

} // namespace etls::tls
