#pragma once

#include "control/controller.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace etls::link {

/// What a daemon that serves several VMs can tell an operator.
struct overview {
    struct vm {
        std::string node;
        std::shared_ptr<control::controller> controller; ///< none: the node is connected and has not said hello
    };
    std::vector<vm> vms;
    control::replies::stats ended; ///< what VMs did that are gone
    std::uint64_t uptime_s = 0;
    std::uint64_t threads = 0;
};

/// An answer and the process that it is for.
struct operator_answer {
    std::string pid;  ///< encoded
    std::string term; ///< version byte included
};

/// Whether a term is an operator's: `{Pid, Request}`.
[[nodiscard]] bool is_operator_request(std::string_view term);

/// Carries out what somebody typed into a shell, as `{etlsd, Node} ! {self(), Request}` (proto/PROTOCOL.md, 8):
/// info, connections, reload, {log_level, L}; any other is answered as unknown.
operator_answer answer_operator(std::string_view term, const overview&);

} // namespace etls::link
