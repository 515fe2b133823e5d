#include "link/term_reader.hpp"

#include "link/term_check.hpp"

#include <ei.h>

#include <array>
#include <stdexcept>

namespace etls::link {

term_reader::term_reader(std::string_view bytes) : bytes_{bytes}
{
    int version = 0;
    if (ei_decode_version(bytes_.data(), &at_, &version) != 0)
        throw std::logic_error{"term_reader: unchecked bytes"};
}

int term_reader::kind() const
{
    int type = 0;
    int size = 0;
    if (static_cast<std::size_t>(at_) >= bytes_.size() || ei_get_type(bytes_.data(), &at_, &type, &size) != 0)
        return 0;
    return type;
}

std::optional<int> term_reader::tuple()
{
    int arity = 0;
    const int type = kind();
    if ((type != ERL_SMALL_TUPLE_EXT && type != ERL_LARGE_TUPLE_EXT) ||
        ei_decode_tuple_header(bytes_.data(), &at_, &arity) != 0)
        return std::nullopt;
    return arity;
}

std::optional<int> term_reader::map()
{
    int pairs = 0;
    if (kind() != ERL_MAP_EXT || ei_decode_map_header(bytes_.data(), &at_, &pairs) != 0)
        return std::nullopt;
    return pairs;
}

std::optional<int> term_reader::list()
{
    int length = 0;
    const int type = kind();
    if ((type != ERL_LIST_EXT && type != ERL_NIL_EXT) || ei_decode_list_header(bytes_.data(), &at_, &length) != 0)
        return std::nullopt;
    return length;
}

bool term_reader::list_end()
{
    int length = 0;
    return kind() == ERL_NIL_EXT && ei_decode_list_header(bytes_.data(), &at_, &length) == 0;
}

std::optional<std::string> term_reader::atom()
{
    std::array<char, MAXATOMLEN_UTF8> text{};
    const int type = kind();
    if (type != ERL_ATOM_EXT && type != ERL_SMALL_ATOM_EXT && type != ERL_ATOM_UTF8_EXT &&
        type != ERL_SMALL_ATOM_UTF8_EXT)
        return std::nullopt;
    const int before = at_;
    if (ei_decode_atom_as(bytes_.data(), &at_, text.data(), static_cast<int>(text.size()), ERLANG_UTF8, nullptr,
                          nullptr) != 0) {
        at_ = before;
        return std::nullopt;
    }
    return std::string{text.data()};
}

std::optional<bool> term_reader::flag()
{
    const int before = at_;
    if (const auto name = atom()) {
        if (*name == "true")
            return true;
        if (*name == "false")
            return false;
    }
    at_ = before;
    return std::nullopt;
}

std::optional<std::int64_t> term_reader::integer()
{
    long long value = 0;
    const int type = kind();
    if (type != ERL_SMALL_INTEGER_EXT && type != ERL_INTEGER_EXT && type != ERL_SMALL_BIG_EXT)
        return std::nullopt;
    const int before = at_;
    if (ei_decode_longlong(bytes_.data(), &at_, &value) != 0) {
        at_ = before;
        return std::nullopt;
    }
    return value;
}

std::optional<std::string> term_reader::binary()
{
    const auto bytes = binary_view();
    return bytes ? std::optional{std::string{*bytes}} : std::nullopt;
}

std::optional<std::string_view> term_reader::binary_view()
{
    constexpr std::size_t tag_and_size = 5;
    int type = 0;
    int size = 0;
    if (kind() != ERL_BINARY_EXT || ei_get_type(bytes_.data(), &at_, &type, &size) != 0)
        return std::nullopt;
    const auto start = static_cast<std::size_t>(at_) + tag_and_size;
    at_ = static_cast<int>(start) + size;
    return bytes_.substr(start, static_cast<std::size_t>(size));
}

std::optional<std::string_view> term_reader::pid()
{
    const int type = kind();
    if (type != ERL_PID_EXT && type != ERL_NEW_PID_EXT)
        return std::nullopt;
    return any();
}

std::string_view term_reader::any()
{
    // By the check's own walk: ei's refuses terms that are as good as any to be echoed.
    const auto from = bytes_.substr(static_cast<std::size_t>(at_));
    const auto size = term_size(from);
    if (size == 0)
        throw std::logic_error{"term_reader: unchecked bytes"};
    at_ += static_cast<int>(size);
    return from.substr(0, size);
}

} // namespace etls::link
