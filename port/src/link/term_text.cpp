#include "link/term_text.hpp"

#include "link/term_check.hpp"

#include <ei.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace etls::link {

namespace {

/// What the protocol has in a place, and with it what of a binary there may be shown.
enum class place : std::uint8_t {
    anything,
    text,         ///< harmless text, or a list of such
    echoed,       ///< an Id or Subject
    id_process,   ///< the process in it
    level_text,   ///< {Level, Text} of a log line, {Alert, Text} of an alert, {Kind, Path} of an option
    option_fault, ///< {Option, Fault}
};

constexpr std::array<std::string_view, 14> text_keys{
    "hostname", "server_name", "host",   "certfile", "keyfile",         "cacertfile", "version",
    "openssl",  "ciphers",     "cipher", "filter",   "cipher_standard", "alpn",       "suites",
};

constexpr std::array<std::string_view, 27> reserved_words{
    "after", "and",  "andalso", "band",   "begin",   "bnot", "bor", "bsl",  "bsr",
    "bxor",  "case", "catch",   "cond",   "div",     "end",  "fun", "if",   "let",
    "not",   "of",   "or",      "orelse", "receive", "rem",  "try", "when", "xor",
};

template <std::size_t N>
bool among(const std::array<std::string_view, N>& all, std::string_view one)
{
    return std::find(all.begin(), all.end(), one) != all.end();
}

/// Takes the first character of valid or invalid UTF-8; nothing where it is none.
std::optional<char32_t> take_character(std::string_view& text)
{
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const auto first = byte(0);
    const std::size_t size = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
    if (size == 0 || size > text.size())
        return std::nullopt;
    char32_t out = size == 1 ? first : first & (0x7fU >> size);
    for (std::size_t i = 1; i < size; ++i) {
        if ((byte(i) & 0xc0) != 0x80)
            return std::nullopt;
        out = out << 6 | (byte(i) & 0x3fU);
    }
    constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
    if (out < least[size] || out > 0x10ffff || (out >= 0xd800 && out <= 0xdfff))
        return std::nullopt;
    text.remove_prefix(size);
    return out;
}

void put_character(std::string& out, char32_t c)
{
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
    if (c < 0x80) {
        out += static_cast<char>(c);
    } else if (c < 0x800) {
        out += static_cast<char>(0xc0 | c >> 6);
        tail(0);
    } else if (c < 0x10000) {
        out += static_cast<char>(0xe0 | c >> 12);
        tail(6);
        tail(0);
    } else {
        out += static_cast<char>(0xf0 | c >> 18);
        tail(12);
        tail(6);
        tail(0);
    }
}

/// Controls, and what turns the direction of a terminal's text.
bool is_control(char32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/// One character between quotes, escaped as Erlang reads it.
void put_quoted(std::string& out, char32_t c, char quote)
{
    constexpr std::string_view named_codes = "\b\t\n\v\f\r\033\177";
    constexpr std::string_view names = "btnvfred";
    if (c < 0x80) {
        if (const auto at = named_codes.find(static_cast<char>(c)); at != std::string_view::npos) {
            out += '\\';
            out += names[at];
            return;
        }
    }
    if (is_control(c)) {
        std::array<char, 12> digits{};
        std::snprintf(digits.data(), digits.size(), c < 0x100 ? "\\%03o" : "\\x{%x}", static_cast<unsigned>(c));
        out += digits.data();
        return;
    }
    if (c == static_cast<unsigned char>(quote) || c == '\\')
        out += '\\';
    put_character(out, c);
}

std::string utf8_of_latin1(std::string_view text)
{
    std::string out;
    for (const char each : text)
        put_character(out, static_cast<std::uint8_t>(each));
    return out;
}

bool is_lower(char32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 0xdf && c <= 0xff && c != 0xf7);
}

bool is_word(char32_t c)
{
    return is_lower(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@' ||
           (c >= 0xc0 && c <= 0xde && c != 0xd7);
}

bool is_bare(std::string_view name)
{
    if (name.empty() || among(reserved_words, name))
        return false;
    for (bool first = true; !name.empty(); first = false) {
        const auto c = take_character(name);
        if (!c || !(first ? is_lower(*c) : is_word(*c)))
            return false;
    }
    return true;
}

/// Short text of printable characters and white space.
bool is_text(std::string_view bytes)
{
    if (bytes.size() > text_binary_bytes)
        return false;
    while (!bytes.empty()) {
        const auto c = take_character(bytes);
        if (!c || (is_control(*c) && *c != '\n' && *c != '\r' && *c != '\t'))
            return false;
    }
    return true;
}

/// "<0.1.0>"
bool is_process(std::string_view text)
{
    return text.size() >= 3 && text.size() <= 64 && text.front() == '<' && text.back() == '>' &&
           text.substr(1, text.size() - 2).find_first_not_of("0123456789.") == std::string_view::npos;
}

/// Walks bytes that `well_formed` has let pass, so that no length needs to be asked about again.
class printer {
public:
    explicit printer(std::string_view term) : left_{term} {}

    std::string whole()
    {
        top();
        return std::move(out_);
    }

private:
    // ---- bytes

    std::string_view take(std::size_t n)
    {
        const auto out = left_.substr(0, n);
        left_.remove_prefix(out.size());
        return out;
    }

    std::uint64_t number(int width)
    {
        std::uint64_t out = 0;
        for (const char each : take(static_cast<std::size_t>(width)))
            out = out << 8 | static_cast<std::uint8_t>(each);
        return out;
    }

    int tag() { return static_cast<int>(number(1)); }

    /// The name of an atom whose tag was `kind`, as UTF-8.
    std::string name(int kind)
    {
        switch (kind) {
        case ERL_ATOM_EXT:
            return utf8_of_latin1(take(number(2)));
        case ERL_SMALL_ATOM_EXT:
            return utf8_of_latin1(take(number(1)));
        case ERL_ATOM_UTF8_EXT:
            return std::string{take(number(2))};
        default:
            return std::string{take(number(1))};
        }
    }

    /// The name of the atom that comes next; empty where something else does. Takes nothing.
    [[nodiscard]] std::string next_name() const
    {
        printer ahead{left_};
        switch (const int kind = ahead.tag()) {
        case ERL_ATOM_EXT:
        case ERL_SMALL_ATOM_EXT:
        case ERL_ATOM_UTF8_EXT:
        case ERL_SMALL_ATOM_UTF8_EXT:
            return ahead.name(kind);
        default:
            return {};
        }
    }

    // ---- places

    /// What stands at `index` of a tuple of `arity` that begins with the atom `first` and is itself at `at`.
    static place element_place(place at, std::string_view first, std::uint64_t arity, std::uint64_t index)
    {
        switch (at) {
        case place::echoed:
            return arity == 2 && index == 0 ? place::id_process : place::anything;
        case place::level_text:
            return arity == 2 && index == 1 ? place::text : place::anything;
        case place::option_fault:
            return arity == 2 && index == 1 ? place::level_text : place::anything;
        default:
            break;
        }
        if (arity != 2 || index != 1)
            return place::anything;
        if (first == "local" || first == "bad_request")
            return place::text;
        if (first == "tls_alert")
            return place::level_text;
        if (first == "options")
            return place::option_fault;
        return place::anything;
    }

    static place value_place(std::string_view key)
    {
        if (key == "request" || key == "subject")
            return place::echoed;
        return among(text_keys, key) ? place::text : place::anything;
    }

    // ---- terms

    void top()
    {
        const auto before = left_;
        const int kind = tag();
        if (kind != ERL_SMALL_TUPLE_EXT) {
            left_ = before;
            return term(place::anything);
        }
        const auto arity = number(1);
        const auto first = arity == 0 ? std::string{} : next_name();
        const bool has_id = arity >= 3 && (first == "request" || first == "reply" || first == "event");
        bool log_line = false;
        out_ += '{';
        elements(arity, 1, [&](std::uint64_t index) {
            if (index == 1 && first == "event" && arity == 3)
                log_line = next_name() == "log";
            term(index == 1 && has_id     ? place::echoed
                 : index == 2 && log_line ? place::level_text
                                          : element_place(place::anything, first, arity, index));
        });
        out_ += '}';
    }

    void term(place at)
    {
        switch (const int kind = tag()) {
        case ERL_SMALL_INTEGER_EXT:
            return put(number(1));
        case ERL_INTEGER_EXT:
            return put(static_cast<std::int32_t>(number(4)));
        case NEW_FLOAT_EXT:
            return floating(std::bit_cast<double>(number(8)));
        case ERL_ATOM_EXT:
        case ERL_SMALL_ATOM_EXT:
        case ERL_ATOM_UTF8_EXT:
        case ERL_SMALL_ATOM_UTF8_EXT:
            return atom(name(kind));
        case ERL_NIL_EXT:
            out_ += "[]";
            return;
        case ERL_STRING_EXT:
            return byte_list(at, take(number(2)));
        case ERL_BINARY_EXT:
            return binary(at, take(number(4)));
        case ERL_BIT_BINARY_EXT:
            return bits();
        case ERL_SMALL_BIG_EXT:
            return big(number(1));
        case ERL_LARGE_BIG_EXT:
            return big(number(4));
        case ERL_SMALL_TUPLE_EXT:
            return tuple(at, number(1));
        case ERL_LARGE_TUPLE_EXT:
            return tuple(at, number(4));
        case ERL_LIST_EXT:
            return list(at, number(4));
        case ERL_MAP_EXT:
            return map(number(4));
        default:
            return identifier(kind);
        }
    }

    /// `count` elements of `terms_each` terms, as many as are to be printed.
    template <class Element>
    void elements(std::uint64_t count, std::uint64_t terms_each, const Element& element)
    {
        for (std::uint64_t index = 0; index < count; ++index) {
            if (index != 0)
                out_ += ',';
            if (index == text_elements || spent()) {
                out_ += "...";
                return skip((count - index) * terms_each);
            }
            element(index);
        }
    }

    /// Whether there is text enough. From then on nothing is read any more, and what is open is only closed.
    [[nodiscard]] bool spent() const { return out_.size() >= text_bytes; }

    void skip(std::uint64_t terms)
    {
        for (; terms > 0 && !spent(); --terms)
            take(term_size(left_));
    }

    void tuple(place at, std::uint64_t arity)
    {
        const auto first = arity == 0 ? std::string{} : next_name();
        out_ += '{';
        elements(arity, 1, [&](std::uint64_t index) { term(element_place(at, first, arity, index)); });
        out_ += '}';
    }

    void map(std::uint64_t pairs)
    {
        out_ += "#{";
        elements(pairs, 2, [&](std::uint64_t) {
            const auto key = next_name();
            term(place::anything);
            out_ += " => ";
            if (spent())
                out_ += "...";
            else
                term(value_place(key));
        });
        out_ += '}';
    }

    void list(place at, std::uint64_t length)
    {
        const auto each = at == place::text ? at : place::anything;
        out_ += '[';
        elements(length, 1, [&](std::uint64_t) { term(each); });
        if (spent()) {
            out_ += ']';
            return;
        }
        if (left_.front() == ERL_NIL_EXT) {
            take(1);
        } else {
            out_ += '|';
            term(each);
        }
        out_ += ']';
    }

    void atom(const std::string& text)
    {
        if (is_bare(text))
            return void(out_ += text);
        out_ += '\'';
        std::string_view rest = text;
        while (!rest.empty())
            put_quoted(out_, take_character(rest).value(), '\'');
        out_ += '\'';
    }

    void binary(place at, std::string_view bytes)
    {
        if (bytes.empty())
            return void(out_ += "<<>>");
        const bool shown = at == place::text ? is_text(bytes) : at == place::id_process && is_process(bytes);
        if (!shown) {
            out_ += "<<";
            size(bytes.size(), "byte");
            out_ += ">>";
            return;
        }
        const bool ascii =
            std::all_of(bytes.begin(), bytes.end(), [](char c) { return static_cast<std::uint8_t>(c) < 0x80; });
        out_ += "<<\"";
        while (!bytes.empty())
            put_quoted(out_, take_character(bytes).value(), '"');
        out_ += ascii ? "\">>" : "\"/utf8>>";
    }

    /// Text as some would send it, and so treated like a binary. The protocol has none.
    void byte_list(place at, std::string_view bytes)
    {
        const auto utf8 = utf8_of_latin1(bytes);
        if (at != place::text || !is_text(utf8)) {
            out_ += '[';
            size(bytes.size(), "byte");
            out_ += ']';
            return;
        }
        out_ += '"';
        std::string_view rest = utf8;
        while (!rest.empty())
            put_quoted(out_, take_character(rest).value(), '"');
        out_ += '"';
    }

    void bits()
    {
        const auto bytes = number(4);
        const auto last = number(1);
        take(bytes);
        out_ += "<<";
        size(8 * (bytes - 1) + last, "bit");
        out_ += ">>";
    }

    void floating(double value)
    {
        if (!std::isfinite(value))
            return void(out_ += "#Float<not finite>");
        std::array<char, 32> digits{};
        // The shortest digits that mean just this; where not every whole number has a float, not as if one had.
        constexpr double whole_numbers = 9007199254740992.0;
        auto* const last = digits.data() + digits.size();
        const auto [end, _] = std::abs(value) < whole_numbers
                                  ? std::to_chars(digits.data(), last, value)
                                  : std::to_chars(digits.data(), last, value, std::chars_format::scientific);
        const std::string_view text{digits.data(), end};
        const auto e = text.find('e');
        out_ += text.substr(0, e);
        if (text.substr(0, e).find('.') == std::string_view::npos)
            out_ += ".0";
        if (e == std::string_view::npos)
            return;
        out_ += 'e';
        auto exponent = text.substr(e + 1);
        if (exponent.front() == '-')
            out_ += '-';
        exponent.remove_prefix(std::min(exponent.find_first_not_of("+-0"), exponent.size() - 1));
        out_ += exponent;
    }

    void big(std::uint64_t bytes)
    {
        const bool negative = number(1) != 0;
        const auto digits = take(bytes);
        if (digits.size() > text_integer_bytes) {
            out_ += "#Integer<";
            size(digits.size(), "byte");
            out_ += '>';
            return;
        }
        // Least significant first. Divided by ten until nothing is left.
        std::vector<std::uint32_t> magnitude(digits.size());
        std::transform(digits.rbegin(), digits.rend(), magnitude.begin(),
                       [](char c) { return static_cast<std::uint8_t>(c); });
        std::string text;
        while (std::any_of(magnitude.begin(), magnitude.end(), [](std::uint32_t each) { return each != 0; })) {
            std::uint32_t rest = 0;
            for (auto& each : magnitude) {
                const auto both = rest << 8 | each;
                each = both / 10;
                rest = both % 10;
            }
            text += static_cast<char>('0' + rest);
        }
        if (text.empty())
            text = "0";
        if (negative)
            out_ += '-';
        out_.append(text.rbegin(), text.rend());
    }

    /// A pid, port or reference: `<node.id.serial>`, `#Port<node.id>`, `#Ref<node.word.word>`.
    void identifier(int kind)
    {
        std::uint64_t words = 1;
        if (kind == ERL_NEW_REFERENCE_EXT || kind == ERL_NEWER_REFERENCE_EXT)
            words = number(2);
        const bool is_pid = kind == ERL_PID_EXT || kind == ERL_NEW_PID_EXT;
        const bool is_port = kind == ERL_PORT_EXT || kind == ERL_NEW_PORT_EXT || kind == ERL_V4_PORT_EXT;
        out_ += is_pid ? "<" : is_port ? "#Port<" : "#Ref<";
        atom(name(tag()));
        const auto creation = [&](bool old) { take(old ? 1 : 4); };
        if (is_pid) {
            part(number(4));
            part(number(4));
            creation(kind == ERL_PID_EXT);
        } else if (is_port) {
            part(number(kind == ERL_V4_PORT_EXT ? 8 : 4));
            creation(kind == ERL_PORT_EXT);
        } else if (kind == ERL_REFERENCE_EXT) {
            part(number(4));
            creation(true);
        } else {
            creation(kind == ERL_NEW_REFERENCE_EXT);
            std::array<std::uint64_t, 5> all{};
            for (std::uint64_t i = 0; i < words; ++i)
                all.at(i) = number(4);
            // Erlang prints the last one first.
            for (auto i = words; i > 0; --i)
                part(all.at(i - 1));
        }
        out_ += '>';
    }

    // ---- text

    template <class Integer>
    void put(Integer value)
    {
        out_ += std::to_string(value);
    }

    void part(std::uint64_t value)
    {
        out_ += '.';
        put(value);
    }

    void size(std::uint64_t count, std::string_view unit)
    {
        put(count);
        out_ += ' ';
        out_ += unit;
        if (count != 1)
            out_ += 's';
    }

    std::string_view left_;
    std::string out_;
};

} // namespace

std::optional<std::string> term_text(std::string_view bytes)
{
    if (!well_formed(bytes))
        return std::nullopt;
    return printer{bytes.substr(1)}.whole();
}

} // namespace etls::link
