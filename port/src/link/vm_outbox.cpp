#include "link/vm_outbox.hpp"

#include "base/limits.hpp"
#include "link/lane_terms.hpp"
#include "link/reply_encoder.hpp"
#include "link/term_writer.hpp"

#include <utility>

namespace etls::link {

vm_outbox::vm_outbox(std::shared_ptr<channel> to, std::string envelope)
    : channel_{std::move(to)}, envelope_{std::move(envelope)}
{
}

void vm_outbox::put(const term_writer& term)
{
    channel_->put(envelope_, term.bytes());
}

void vm_outbox::answer(const control::opaque& id, const control::reply& what)
{
    term_writer out;
    encode_reply(out, id, what);
    put(out);
}

void vm_outbox::tell_ended(const control::opaque& subject, const conn::end_of_data& how)
{
    term_writer out;
    encode_ended(out, subject, how);
    put(out);
}

std::span<std::byte> vm_outbox::begin_data(std::uint64_t connection, std::size_t most,
                                           const std::shared_ptr<lane::link_lane>& lane)
{
    return channel_->begin_data(envelope_, data_head(connection), most, lane);
}

void vm_outbox::end_data(std::size_t bytes)
{
    channel_->end_data(bytes);
}

void vm_outbox::put_credit(std::uint64_t connection, std::size_t bytes)
{
    term_writer out;
    encode_credit(out, connection, bytes);
    put(out);
}

void vm_outbox::put_eof(std::uint64_t connection)
{
    term_writer out;
    encode_eof(out, connection);
    put(out);
}

void vm_outbox::put_hangup(std::uint64_t connection)
{
    term_writer out;
    encode_hangup(out, connection);
    put(out);
}

void vm_outbox::tell_log(log::level level, const std::string& text)
{
    const auto line = [this](log::level at, const std::string& what) {
        term_writer out;
        encode_log(out, at, what);
        put(out);
    };
    const auto now = std::chrono::steady_clock::now();
    if (now - second_ >= std::chrono::seconds{1}) {
        second_ = now;
        lines_ = 0;
        if (suppressed_ != 0)
            line(log::level::warning, std::to_string(std::exchange(suppressed_, 0)) + " log lines dropped");
    }
    if (++lines_ <= limits::log_lines_per_second)
        line(level, text);
    else
        ++suppressed_;
}

} // namespace etls::link
