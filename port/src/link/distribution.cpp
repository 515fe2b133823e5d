#include "link/distribution.hpp"

#include "link/term_check.hpp"
#include "link/term_reader.hpp"
#include "link/term_writer.hpp"

namespace etls::link {

namespace {

constexpr char pass_through = 112;
constexpr char version_byte = '\x83';

/// Control messages' numbers.
enum operation : std::int64_t {
    link_op = 1,
    send_op = 2,
    exit_op = 3,
    unlink_op = 4,
    reg_send_op = 6,
    exit2_op = 8,
    send_traced_op = 12,
    exit_traced_op = 13,
    reg_send_traced_op = 16,
    exit2_traced_op = 18,
    monitor_op = 19,
    monitor_exit_op = 21,
    send_sender_op = 22,
    send_sender_traced_op = 23,
    unlink_id_op = 35,
    unlink_id_ack_op = 36,
};

/// It is kept and echoed, so it must be no more than it should.
bool take_pid(term_reader& in, control::opaque& out)
{
    const auto pid = in.pid();
    out = pid.value_or("");
    return pid.has_value();
}

std::string framed(const term_writer& control)
{
    return std::string{pass_through}.append(control.bytes());
}

} // namespace

std::optional<distribution_message> read_distribution(std::string_view frame)
{
    using kind = distribution_message::kind;
    if (frame.size() < 2 || frame[0] != pass_through || frame[1] != version_byte)
        return std::nullopt;
    const auto size = term_size(frame.substr(2));
    if (size == 0)
        return std::nullopt;
    distribution_message out;
    out.payload = frame.substr(2 + size);
    term_reader in{frame.substr(1, 1 + size)};
    const auto arity = in.tuple();
    const auto op = arity && *arity >= 1 ? in.integer() : std::nullopt;
    if (!op)
        return std::nullopt;
    const auto has = [&](int least) { return *arity >= least; };
    switch (*op) {
    case reg_send_op:
    case reg_send_traced_op:
        if (!has(4))
            return std::nullopt;
        if (!take_pid(in, out.from))
            return std::nullopt;
        static_cast<void>(in.any()); // the cookie that is not used any more
        if (auto name = in.atom()) {
            out.what = kind::to_name;
            out.name = std::move(*name);
        }
        return out;
    case send_op:
    case send_traced_op:
    case send_sender_op:
    case send_sender_traced_op:
        out.what = kind::to_pid;
        return out;
    case link_op:
        if (!has(3))
            return std::nullopt;
        out.what = kind::link;
        return take_pid(in, out.from) ? std::optional{out} : std::nullopt;
    case unlink_id_op:
        if (!has(4))
            return std::nullopt;
        out.what = kind::unlink;
        out.reference = in.any();
        return take_pid(in, out.from) ? std::optional{out} : std::nullopt;
    case exit_op:
    case exit_traced_op:
    case exit2_op:
    case exit2_traced_op:
        if (!has(4))
            return std::nullopt;
        out.what = kind::exit;
        return take_pid(in, out.from) ? std::optional{out} : std::nullopt;
    case monitor_op:
        if (!has(4))
            return std::nullopt;
        out.what = kind::monitor;
        if (!take_pid(in, out.from))
            return std::nullopt;
        out.to = in.any();
        out.reference = in.any();
        {
            const std::string to = version_byte + out.to;
            if (auto name = term_reader{to}.atom())
                out.name = std::move(*name);
        }
        return out;
    default:
        return out;
    }
}

std::string send_envelope(std::string_view pid)
{
    term_writer out;
    out.tuple(3).integer(send_op).atom("").encoded(pid);
    return framed(out);
}

std::string unlink_acknowledgement(std::string_view reference, std::string_view self, std::string_view pid)
{
    term_writer out;
    out.tuple(4).integer(unlink_id_ack_op).encoded(reference).encoded(self).encoded(pid);
    return framed(out);
}

std::string link_refusal(std::string_view self, std::string_view pid)
{
    term_writer out;
    out.tuple(4).integer(exit_op).encoded(self).encoded(pid).atom("noproc");
    return framed(out);
}

std::string monitor_refusal(std::string_view to, std::string_view pid, std::string_view reference)
{
    term_writer out;
    out.tuple(5).integer(monitor_exit_op).encoded(to).encoded(pid).encoded(reference).atom("noproc");
    return framed(out);
}

} // namespace etls::link
