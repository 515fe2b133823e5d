#pragma once

#include <boost/system/error_code.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace etls {

/// An option that cannot be met. `kind` is an atom's text (`enoent`, `key_mismatch`, …); `detail` the file, or empty.
struct option_error {
    std::string option;
    std::string kind;
    std::string detail;

    bool operator==(const option_error&) const = default;
};

/// A fatal alert (RFC 8446, 6), sent or received. `text` is for people.
struct alert_error {
    std::uint8_t description = 0;
    std::string text;

    bool operator==(const alert_error&) const = default;
};

/// A reason that is known by its atom alone and is not a system error (`closed`, `cancelled`, `nxdomain`, …).
struct named_error {
    std::string name;

    bool operator==(const named_error&) const = default;
};

/// A request that makes no sense.
struct request_error {
    std::string text;

    bool operator==(const request_error&) const = default;
};

/// Everything that can go wrong at run time, as the VM will be told it.
using failure = std::variant<boost::system::error_code, option_error, alert_error, named_error, request_error>;

/// A value or why there is none.
template <class T>
class [[nodiscard]] result {
public:
    result(T value) : state_{std::in_place_index<0>, std::move(value)} {}
    result(failure why) : state_{std::in_place_index<1>, std::move(why)} {}

    explicit operator bool() const noexcept { return state_.index() == 0; }
    [[nodiscard]] T& value() { return std::get<0>(state_); }
    [[nodiscard]] const T& value() const { return std::get<0>(state_); }
    [[nodiscard]] failure& error() { return std::get<1>(state_); }
    [[nodiscard]] const failure& error() const { return std::get<1>(state_); }
    T& operator*() { return value(); }
    T* operator->() { return &value(); }

private:
    std::variant<T, failure> state_;
};

} // namespace etls
