#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace etls::link {

/// Walks a term that `well_formed` has let pass. Each read takes the next term if it is of the kind asked for, and else
/// leaves it and answers nothing.
class term_reader {
public:
    /// `bytes` begin with the version byte and outlive the reader.
    explicit term_reader(std::string_view bytes);

    std::optional<int> tuple(); ///< its arity; the elements follow
    std::optional<int> map();   ///< its pairs; keys and values follow in turns
    std::optional<int> list();  ///< its length (0 for []); the elements follow, then, unless 0, `list_end`
    bool list_end();            ///< the tail of a proper list
    std::optional<std::string> atom();
    std::optional<bool> flag();
    std::optional<std::int64_t> integer();
    std::optional<std::string> binary();
    std::optional<std::string_view> binary_view(); ///< without a copy
    std::optional<std::string_view> pid();         ///< as it is encoded
    std::string_view any();                        ///< whatever is next, as it is encoded

private:
    [[nodiscard]] int kind() const;

    std::string_view bytes_;
    int at_ = 0;
};

} // namespace etls::link
