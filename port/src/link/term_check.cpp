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

    /// Bytes of the first term; 0: it is not well formed.
    std::size_t first_term() noexcept
    {
        const auto before = left_.size();
        return term(limits::term_depth) ? before - left_.size() : 0;
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
        return number(1, kind) && atom_of(kind);
    }

    /// The rest of an atom; false where `kind` is none.
    bool atom_of(std::uint64_t kind) noexcept
    {
        switch (kind) {
        case atom:
            return latin1_name(2);
        case small_atom:
            return latin1_name(1);
        case atom_utf8:
            return utf8_name(2);
        case small_atom_utf8:
            return utf8_name(1);
        default:
            return false;
        }
    }

    // Names that ei would not copy into its buffers, or not encode again, are refused here. So would the VM.

    bool latin1_name(int width) noexcept
    {
        std::uint64_t size = 0;
        return number(width, size) && size <= longest_name && skip(size);
    }

    bool utf8_name(int width) noexcept
    {
        std::uint64_t size = 0;
        if (!number(width, size) || size > left_.size())
            return false;
        const auto before = left_.size();
        for (std::uint64_t characters = 0; before - left_.size() < size; ++characters) {
            if (characters == longest_name || !utf8_character(size - (before - left_.size())))
                return false;
        }
        return true;
    }

    /// One character of at most `most` bytes, in its shortest form and no surrogate (RFC 3629, 4).
    bool utf8_character(std::uint64_t most) noexcept
    {
        const auto first = static_cast<std::uint8_t>(left_.front());
        const std::uint64_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        if (size == 0 || size > most || first > 0xf4)
            return false;
        for (std::size_t i = 1; i < size; ++i) {
            if ((static_cast<std::uint8_t>(left_[i]) & 0xc0) != 0x80)
                return false;
        }
        const auto second = size > 1 ? static_cast<std::uint8_t>(left_[1]) : std::uint8_t{0};
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
            (first == 0xf4 && second > 0x8f))
            return false;
        return skip(size);
    }

    /// The last byte has 1 to 8 bits.
    bool bits() noexcept
    {
        std::uint64_t size = 0;
        std::uint64_t used = 0;
        return number(4, size) && number(1, used) && size != 0 && used >= 1 && used <= 8 && skip(size);
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
        case small_atom:
        case small_atom_utf8:
            return atom_of(kind);
        case nil:
            return true;
        case string:
            return sized(2);
        case binary:
            return sized(4);
        case bit_binary:
            return bits();
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

    static constexpr std::uint64_t longest_name = 255; // characters

    std::string_view left_;
};

} // namespace

bool well_formed(std::string_view bytes) noexcept
{
    return walker{bytes}.whole();
}

std::size_t term_size(std::string_view bytes) noexcept
{
    return walker{bytes}.first_term();
}

} // namespace etls::link
