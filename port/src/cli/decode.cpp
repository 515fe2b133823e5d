#include "cli/decode.hpp"

#include "base/limits.hpp"
#include "link/term_text.hpp"

#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>

namespace etls::cli {

namespace {

constexpr int bad_input = 2;
constexpr std::size_t length_bytes = 4;
constexpr std::size_t most_bytes = limits::frame_bytes + length_bytes;

/// To the end, or one byte more than there may be.
std::string read_all(std::istream& in)
{
    constexpr std::size_t step = 64 * 1024;
    std::string out;
    while (in && out.size() <= most_bytes) {
        const auto before = out.size();
        out.resize(before + step);
        in.read(out.data() + before, step);
        out.resize(before + static_cast<std::size_t>(in.gcount()));
    }
    return out;
}

std::uint64_t big_endian(std::string_view bytes)
{
    std::uint64_t out = 0;
    for (const char each : bytes)
        out = out << 8 | static_cast<std::uint8_t>(each);
    return out;
}

} // namespace

int run_decode(std::istream& in, std::ostream& out, std::ostream& err)
{
    const auto complain = [&](const auto&... parts) {
        err << "etlsd: --decode: ";
        (err << ... << parts) << std::endl;
        return bad_input;
    };
    const auto input = read_all(in);
    std::string_view term = input;
    if (term.size() > most_bytes)
        return complain("more than a frame may have, ", limits::frame_bytes, " bytes");
    if (term.empty())
        return complain("nothing on standard input");
    // A frame whose length begins like this would be over the limit.
    constexpr char version = '\x83';
    if (term.front() != version && term.size() >= length_bytes) {
        const auto told = big_endian(term.substr(0, length_bytes));
        term.remove_prefix(length_bytes);
        if (told != term.size())
            return complain("neither a term nor a frame: its length would be ", told, ", and ", term.size(),
                            " bytes follow");
        if (term.empty())
            return complain("a frame of no bytes, which keeps a link alive and says nothing");
    }
    const auto text = link::term_text(term);
    if (!text)
        return complain(term.size(), " bytes that are no well-formed term");
    out << *text << '.' << std::endl;
    return 0;
}

} // namespace etls::cli
