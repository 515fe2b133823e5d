#pragma once

#include <ei.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace etls::link {

/// Builds one term in the external format. Throws std::bad_alloc where there is no memory.
class term_writer {
public:
    /// Begins with the version byte.
    term_writer();
    ~term_writer();
    term_writer(const term_writer&) = delete;
    term_writer& operator=(const term_writer&) = delete;

    term_writer& tuple(int arity);
    term_writer& map(int pairs);
    /// Of `length` elements; a list that is not empty is ended by `nil`.
    term_writer& list(int length);
    term_writer& nil();
    term_writer& atom(std::string_view);
    term_writer& flag(bool);
    term_writer& integer(std::int64_t);
    term_writer& unsigned_integer(std::uint64_t);
    term_writer& binary(std::string_view);
    term_writer& pid(const erlang_pid&);
    /// A term already encoded, without a version byte.
    term_writer& encoded(std::string_view);

    [[nodiscard]] std::string_view bytes() const noexcept;

private:
    ei_x_buff buffer_{};
};

} // namespace etls::link
