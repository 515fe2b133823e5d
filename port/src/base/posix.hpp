#pragma once

#include <string_view>

namespace etls {

/// The atom's text of an errno value, as Erlang spells it: "enoent", "econnrefused", …; "unknown" for one without a name.
[[nodiscard]] std::string_view posix_name(int error) noexcept;

} // namespace etls
