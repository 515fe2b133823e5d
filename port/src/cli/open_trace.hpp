#pragma once

#include "cli/settings.hpp"
#include "link/trace.hpp"

#include <boost/asio/io_context.hpp>

#include <string>
#include <variant>

namespace etls::cli {

/// The tracer of `--trace-link`, an empty one without; the text: why there can be none.
inline std::variant<link::tracer, std::string> open_trace(const settings& wish, boost::asio::io_context& loop)
{
    if (!wish.trace_link)
        return link::tracer{};
    auto opened = link::link_trace::open(*wish.trace_link, loop.get_executor());
    if (opened)
        return (*opened)->as_tracer();
    const auto* ec = std::get_if<boost::system::error_code>(&opened.error());
    return *wish.trace_link + ": " + (ec != nullptr ? ec->message() : "?");
}

} // namespace etls::cli
