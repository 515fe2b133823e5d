#pragma once

#include "base/log.hpp"
#include "control/reply.hpp"
#include "link/channel.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace etls::link {

class term_writer;

/// What the daemon tells one receiver, as terms on its channel. Lives on the control thread.
class vm_outbox : public control::outbox {
public:
    /// `envelope`: what names the receiver, in front of each term (see channel::put); empty on a port.
    vm_outbox(std::shared_ptr<channel>, std::string envelope);

    void answer(const control::opaque& id, const control::reply&) override;
    void tell_ended(const control::opaque& subject, const conn::end_of_data&) override;
    std::span<std::byte> begin_data(std::uint64_t connection, std::size_t most,
                                    const std::shared_ptr<lane::link_lane>&) override;
    void end_data(std::size_t bytes) override;
    void put_credit(std::uint64_t connection, std::size_t bytes) override;
    void put_eof(std::uint64_t connection) override;
    void put_hangup(std::uint64_t connection) override;

    /// A log line as an event. A flood is cut, and the cut told, so that a fault cannot fill the VM's mailbox.
    void tell_log(log::level, const std::string& text);

    void put(const term_writer&);

private:
    std::shared_ptr<channel> channel_;
    const std::string envelope_;
    std::chrono::steady_clock::time_point second_{};
    int lines_ = 0;
    int suppressed_ = 0;
};

} // namespace etls::link
