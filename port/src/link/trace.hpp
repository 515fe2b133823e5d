#pragma once

#include "base/error.hpp"
#include "link/tracer.hpp"
#include "net/unique_fd.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace etls::link {

/// A file with a line for each term on the links, redacted as term_text is:
///
///     2026-12-01T02:10:00.123456Z port <- {request,{<<"<0.99.0>">>,7},stats,#{}}.
///
/// `<-` comes from the VM, `->` goes to it. What comes and is no term is told by its size, behind a `%`. Written at
/// least once a second, and at the end. A file that takes no more (a full disk) ends the trace with a warning and
/// nothing else. Lives on the control thread.
class link_trace : public std::enable_shared_from_this<link_trace> {
public:
    /// Appends to the file `path`; a new one is readable to its owner only. Never waits for a reader of a FIFO.
    static result<std::shared_ptr<link_trace>> open(const std::string& path, boost::asio::any_io_executor);

    ~link_trace();
    link_trace(const link_trace&) = delete;
    link_trace& operator=(const link_trace&) = delete;

    void line(direction, std::string_view who, std::string_view term);

    /// This trace, for links.
    [[nodiscard]] tracer as_tracer();

    /// Writes what waits.
    void flush();

private:
    link_trace(std::string path, net::unique_fd, boost::asio::any_io_executor);
    void flush_soon();
    bool write_all();

    const std::string path_;
    net::unique_fd file_; // gone once it took no more
    std::string lines_;
    boost::asio::steady_timer timer_;
    bool waiting_ = false;
};

} // namespace etls::link
