#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace etls::lane {

/// Lane directories are called so, with six random characters behind.
constexpr std::string_view directory_prefix = "etlsd-";

/// The lane socket in its directory.
constexpr std::string_view socket_name = "lane";

/// A directory younger than this may belong to a daemon that does not listen yet.
constexpr std::chrono::seconds youngest_leftover{10};

/// Removes the lane directories in `base` that daemons of this user have left behind by dying (kill -9, a crash):
/// those whose socket nobody listens on any more. Returns how many.
int remove_leftovers(const std::string& base, std::chrono::seconds youngest = youngest_leftover);

} // namespace etls::lane
