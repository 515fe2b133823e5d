#include "link/lane_terms.hpp"

namespace etls::link {

namespace {

constexpr std::size_t binary_size_bytes = 4;

} // namespace

std::string data_head(std::uint64_t connection)
{
    term_writer out;
    out.tuple(3).atom("data").unsigned_integer(connection).binary({});
    return std::string{out.bytes()};
}

void set_data_size(std::string& head, std::size_t bytes)
{
    for (std::size_t i = 0; i < binary_size_bytes; ++i)
        head[head.size() - 1 - i] = static_cast<char>(bytes >> (8 * i) & 0xff);
}

void encode_credit(term_writer& out, std::uint64_t connection, std::size_t bytes)
{
    out.tuple(3).atom("credit").unsigned_integer(connection).unsigned_integer(bytes);
}

void encode_eof(term_writer& out, std::uint64_t connection)
{
    out.tuple(2).atom("eof").unsigned_integer(connection);
}

void encode_hangup(term_writer& out, std::uint64_t connection)
{
    out.tuple(2).atom("hangup").unsigned_integer(connection);
}

std::optional<control::lane_term> read_lane_term(std::string_view name, int arity, term_reader& in)
{
    using kind = control::lane_term::kind;
    control::lane_term out;
    const auto connection = in.integer();
    if (!connection || *connection < 0)
        return std::nullopt;
    out.connection = static_cast<std::uint64_t>(*connection);
    if (arity == 3 && name == "data") {
        const auto data = in.binary_view();
        if (!data || data->empty())
            return std::nullopt;
        out.what = kind::data;
        out.data = *data;
    } else if (arity == 3 && name == "credit") {
        const auto bytes = in.integer();
        if (!bytes || *bytes <= 0)
            return std::nullopt;
        out.what = kind::credit;
        out.credit = static_cast<std::uint64_t>(*bytes);
    } else if (arity == 2 && name == "eof") {
        out.what = kind::eof;
    } else if (arity == 2 && name == "hangup") {
        out.what = kind::hangup;
    } else {
        return std::nullopt;
    }
    return out;
}

} // namespace etls::link
