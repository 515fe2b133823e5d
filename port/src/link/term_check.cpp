#include "link/term_check.hpp"

#include "base/limits.hpp"

#include <cstddef>
#include <cstdint>

namespace etls::link {

namespace {

// Tags of the external term format (ERTS User's Guide, "External Term Format").
enum tag : std::uint8_t {
    new_float = 70,
    bit_binary = 77,
    new_pid = 88,
    new_port = 89,
    newer_reference = 90,
    small_integer = 97,
    integer = 98,
    atom = 100,
    reference = 101,
    port = 102,
    pid = 103,
    small_tuple = 104,
    large_tuple = 105,
    nil = 106,
    string = 107,
    list = 108,
    binary = 109,
    small_big = 110,
    large_big = 111,
    new_reference = 114,
    small_atom = 115,
    map = 116,
    atom_utf8 = 118,
    small_atom_utf8 = 119,
    v4_port = 120,
};

class walker {
public:
    explicit walker(std::string_view bytes) noexcept : left_{bytes} {}

    bool whole() noexcept
    {
        constexpr std::uint8_t version = 131;
        std::uint64_t first = 0;
        return number(1, first) && first == version && term(limits::term_depth) && left_.empty();
    }

private:
    bool skip(std::uint64_t n) noexcept
    {
        if (n > left_.size())
            return false;
        left_.remove_prefix(static_cast<std::size_t>(n));
        return true;
    }

    bool number(int width, std::uint64_t& out) noexcept
    {
        if (left_.size() < static_cast<std::size_t>(width))
            return false;
        out = 0;
        for (int i = 0; i < width; ++i)
            out = out << 8 | static_cast<std::uint8_t>(left_[static_cast<std::size_t>(i)]);
        return skip(static_cast<std::uint64_t>(width));
    }

    bool sized(int width, std::uint64_t extra = 0) noexcept
    {
        std::uint64_t size = 0;
        return number(width, size) && skip(size) && skip(extra);
    }

    bool atom_term() noexcept
    {
        std::uint64_t kind = 0;
        if (!number(1, kind))
            return false;
        switch (kind) {
        case atom:
        case atom_utf8:
            return name(2);
        case small_atom:
        case small_atom_utf8:
            return name(1);
        default:
            return false;
        }
    }

    /// ei copies atoms into buffers of MAXATOMLEN_UTF8: 255 characters of up to 4 bytes.
    bool name(int width) noexcept
    {
        constexpr std::uint64_t longest = 255 * 4;
        std::uint64_t size = 0;
        return number(width, size) && size <= longest && skip(size);
    }

    bool terms(std::uint64_t count, int depth) noexcept
    {
        if (count > left_.size()) // each takes a byte at least
            return false;
        for (std::uint64_t i = 0; i < count; ++i) {
            if (!term(depth))
                return false;
        }
        return true;
    }

    bool term(int depth) noexcept
    {
        if (depth == 0)
            return false;
        std::uint64_t kind = 0;
        std::uint64_t count = 0;
        if (!number(1, kind))
            return false;
        switch (kind) {
        case small_integer:
            return skip(1);
        case integer:
            return skip(4);
        case new_float:
            return skip(8);
        case atom:
        case atom_utf8:
            return name(2);
        case small_atom:
        case small_atom_utf8:
            return name(1);
        case nil:
            return true;
        case string:
            return sized(2);
        case binary:
            return sized(4);
        case bit_binary:
            return sized(4, 1);
        case small_big:
            return sized(1, 1);
        case large_big:
            return sized(4, 1);
        case small_tuple:
            return number(1, count) && terms(count, depth - 1);
        case large_tuple:
            return number(4, count) && terms(count, depth - 1);
        case list:
            return number(4, count) && terms(count + 1, depth - 1);
        case map:
            return number(4, count) && terms(2 * count, depth - 1);
        case pid:
            return atom_term() && skip(9);
        case new_pid:
            return atom_term() && skip(12);
        case port:
        case reference:
            return atom_term() && skip(5);
        case new_port:
            return atom_term() && skip(8);
        case v4_port:
            return atom_term() && skip(12);
        case new_reference:
            return number(2, count) && count <= 5 && atom_term() && skip(1 + 4 * count);
        case newer_reference:
            return number(2, count) && count <= 5 && atom_term() && skip(4 + 4 * count);
        default:
            return false;
        }
    }

    std::string_view left_;
};

} // namespace

bool well_formed(std::string_view bytes) noexcept
{
    return walker{bytes}.whole();
}

} // namespace etls::link
