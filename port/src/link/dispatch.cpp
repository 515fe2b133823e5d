#include "link/dispatch.hpp"

#include "base/log.hpp"
#include "control/controller.hpp"
#include "link/reply_encoder.hpp"
#include "link/term_writer.hpp"
#include "link/vm_outbox.hpp"

#include <utility>
#include <variant>

namespace etls::link {

void dispatch(std::string_view term, control::controller& controller, vm_outbox& out)
{
    dispatch(decode_message(term), controller, out);
}

void dispatch(message read, control::controller& controller, vm_outbox& out)
{
    if (auto* asked = std::get_if<control::request>(&read))
        return controller.handle(std::move(*asked));
    if (const auto* lane = std::get_if<control::lane_term>(&read))
        return controller.handle(*lane);
    const auto& bad = std::get<senseless>(read);
    log::warning("link: a term makes no sense: ", std::get<request_error>(bad.why).text);
    if (!bad.id)
        return;
    term_writer answer;
    encode_rejection(answer, bad);
    out.put(answer);
}

} // namespace etls::link
