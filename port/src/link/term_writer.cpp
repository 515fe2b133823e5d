#include "link/term_writer.hpp"

#include <new>

namespace etls::link {

namespace {

/// ei's encoders fail only for want of memory.
void check(int status)
{
    if (status != 0)
        throw std::bad_alloc{};
}

} // namespace

term_writer::term_writer()
{
    check(ei_x_new_with_version(&buffer_));
}

term_writer::~term_writer()
{
    ei_x_free(&buffer_);
}

term_writer& term_writer::tuple(int arity)
{
    check(ei_x_encode_tuple_header(&buffer_, arity));
    return *this;
}

term_writer& term_writer::map(int pairs)
{
    check(ei_x_encode_map_header(&buffer_, pairs));
    return *this;
}

term_writer& term_writer::list(int length)
{
    check(length == 0 ? ei_x_encode_empty_list(&buffer_) : ei_x_encode_list_header(&buffer_, length));
    return *this;
}

term_writer& term_writer::nil()
{
    check(ei_x_encode_empty_list(&buffer_));
    return *this;
}

term_writer& term_writer::atom(std::string_view text)
{
    check(ei_x_encode_atom_len_as(&buffer_, text.data(), static_cast<int>(text.size()), ERLANG_UTF8, ERLANG_UTF8));
    return *this;
}

term_writer& term_writer::flag(bool value)
{
    return atom(value ? "true" : "false");
}

term_writer& term_writer::integer(std::int64_t value)
{
    check(ei_x_encode_longlong(&buffer_, value));
    return *this;
}

term_writer& term_writer::unsigned_integer(std::uint64_t value)
{
    check(ei_x_encode_ulonglong(&buffer_, value));
    return *this;
}

term_writer& term_writer::binary(std::string_view bytes)
{
    check(ei_x_encode_binary(&buffer_, bytes.data(), static_cast<int>(bytes.size())));
    return *this;
}

term_writer& term_writer::pid(const erlang_pid& value)
{
    check(ei_x_encode_pid(&buffer_, &value));
    return *this;
}

term_writer& term_writer::encoded(std::string_view bytes)
{
    check(ei_x_append_buf(&buffer_, bytes.data(), static_cast<int>(bytes.size())));
    return *this;
}

std::string_view term_writer::bytes() const noexcept
{
    return {buffer_.buff, static_cast<std::size_t>(buffer_.index)};
}

} // namespace etls::link
