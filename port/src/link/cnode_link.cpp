#include "link/cnode_link.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "link/dispatch.hpp"
#include "link/frames.hpp"
#include "link/operator_desk.hpp"
#include "link/reply_encoder.hpp"
#include "link/term_check.hpp"
#include "link/term_reader.hpp"
#include "link/term_writer.hpp"
#include "net/sockets.hpp"

#include <boost/asio/post.hpp>

#include <sys/socket.h>

#include <exception>
#include <utility>

namespace etls::link {

namespace asio = boost::asio;

namespace {

constexpr std::size_t read_at_once = 256 * 1024;

/// The name that VMs send to.
constexpr const char* registered_name = "etlsd";

/// Ticks per net_ticktime, as net_kernel has it.
constexpr int ticks = 4;

/// The hello that would begin a session.
const control::commands::hello* hello_of(const message& read)
{
    const auto* asked = std::get_if<control::request>(&read);
    return asked != nullptr ? std::get_if<control::commands::hello>(&asked->what) : nullptr;
}

} // namespace

cnode_link::cnode_link(surroundings around, net::unique_fd fd, std::string node)
    : around_{std::move(around)},
      socket_{std::make_shared<net::readiness>(around_.commons.context, std::move(fd))},
      channel_{std::make_shared<channel>(socket_, node, around_.trace)},
      node_{std::move(node)},
      timer_{around_.commons.context},
      heard_{std::chrono::steady_clock::now()},
      progressed_{heard_}
{
}

std::shared_ptr<control::controller> cnode_link::controller() const
{
    return session_ ? session_->controller : nullptr;
}

void cnode_link::run(std::function<void()> over)
{
    over_ = std::move(over);
    channel_->on_trouble([weak = weak_from_this()](channel::trouble why) {
        if (const auto self = weak.lock())
            self->drop(why == channel::trouble::gone ? "has closed the connection" : "takes no more");
    });
    socket_->on_readable([self = shared_from_this()] { self->on_readable(); });
    watch_time();
}

/// Nothing that one node says may end what serves the others.
void cnode_link::on_readable()
{
    try {
        receive();
    } catch (const std::exception& thrown) {
        log::error("node ", node_, ": a fault in what serves it: ", thrown.what());
        drop("is let go");
    }
}

void cnode_link::receive()
{
    const auto tail = input_.prepare(read_at_once);
    const auto n = ::recv(socket_->fd(), tail.data(), tail.size(), 0);
    if (n > 0) {
        heard_ = std::chrono::steady_clock::now();
        input_.commit(static_cast<std::size_t>(n));
        if (!take_frames())
            return;
    } else if (n == 0 || !net::would_block(net::last_error())) {
        return drop("has closed the connection");
    }
    if (socket_->is_open())
        socket_->on_readable([self = shared_from_this()] { self->on_readable(); });
}

/// False: the link is over.
bool cnode_link::take_frames()
{
    while (input_.size() >= frame_header_bytes) {
        const auto size = frame_size(input_.view());
        if (size > limits::frame_bytes) {
            drop("sent a frame of " + std::to_string(size) + " bytes, the limit is " +
                 std::to_string(limits::frame_bytes));
            return false;
        }
        if (input_.size() < frame_header_bytes + size)
            return true;
        const auto body = input_.view().subspan(frame_header_bytes, size);
        if (size == 0) {
            if (channel_->idle()) // else it hears from us anyway
                channel_->put_tick();
        } else if (!take({reinterpret_cast<const char*>(body.data()), body.size()})) {
            drop("sent what is no distribution message");
            return false;
        }
        if (!socket_->is_open())
            return false;
        input_.consume(frame_header_bytes + size);
    }
    input_.release_if_large(limits::link_data_bytes);
    return true;
}

bool cnode_link::take(std::string_view frame)
{
    using kind = distribution_message::kind;
    const auto got = read_distribution(frame);
    if (!got)
        return false;
    const auto& self = around_.commons.self;
    switch (got->what) {
    case kind::to_name:
        if (got->name == registered_name)
            to_etlsd(*got);
        else if (got->name == "net_kernel")
            to_net_kernel(got->payload);
        break;
    case kind::link:
        if (!session_ || session_->owner != got->from)
            channel_->put(link_refusal(self, got->from), {});
        break;
    case kind::unlink:
        channel_->put(unlink_acknowledgement(got->reference, self, got->from), {});
        break;
    case kind::exit:
        if (session_ && session_->owner == got->from) {
            log::info("node ", node_, ": its application has ended");
            end_session();
        }
        break;
    case kind::monitor:
        if (got->to != self && got->name != registered_name && got->name != "net_kernel")
            channel_->put(monitor_refusal(got->to, got->from, got->reference), {});
        break;
    case kind::to_pid:
    case kind::other:
        break;
    }
    return true;
}

void cnode_link::to_etlsd(const distribution_message& got)
{
    if (around_.trace)
        around_.trace(direction::from_vm, node_, got.payload);
    if (is_operator_request(got.payload))
        return around_.on_operator(*this, got.payload);
    auto read = decode_message(got.payload);
    if (const auto* hello = hello_of(read); hello != nullptr && (!session_ || session_->owner != got.from)) {
        if (hello->protocol != control::protocol_version) {
            log::warning("node ", node_, " speaks protocol version ", hello->protocol, ", this daemon ",
                         control::protocol_version);
            term_writer refusal;
            encode_reply(refusal, std::get<control::request>(read).id, control::replies::wrong_version{});
            return send(got.from, refusal.bytes());
        }
        begin_session(got.from);
    }
    if (session_)
        return dispatch(std::move(read), *session_->controller, *session_->out);
    const auto* asked = std::get_if<control::request>(&read);
    const auto* bad = std::get_if<senseless>(&read);
    if (asked == nullptr && (bad == nullptr || !bad->id)) {
        log::debug("node ", node_, ": a term without a session, dropped");
        return;
    }
    term_writer answer;
    encode_rejection(answer, senseless{asked != nullptr ? asked->id : *bad->id, request_error{"hello first"}, {}});
    send(got.from, answer.bytes());
}

/// net_adm:ping/1 asks a node's net_kernel `{is_auth, Node}`.
void cnode_link::to_net_kernel(std::string_view payload)
{
    if (!well_formed(payload))
        return;
    term_reader in{payload};
    if (in.tuple() != 3 || in.atom() != "$gen_call" || in.tuple() != 2)
        return;
    const auto from = in.pid();
    if (!from)
        return;
    const auto tag = in.any();
    if (in.tuple() != 2 || in.atom() != "is_auth")
        return;
    term_writer out;
    out.tuple(2).encoded(tag).atom("yes");
    send(*from, out.bytes());
}

void cnode_link::send(std::string_view pid, std::string_view term)
{
    channel_->put(send_envelope(pid), term);
}

// ---- sessions

void cnode_link::begin_session(const control::opaque& owner)
{
    end_session();
    auto out = std::make_shared<vm_outbox>(channel_, send_envelope(owner));
    auto made = std::make_shared<control::controller>(around_.commons, out);
    made->on_stop_request([weak = weak_from_this(), &context = around_.commons.context, which = made.get()] {
        // Later: the request is still being carried out.
        asio::post(context, [weak, which] {
            const auto self = weak.lock();
            if (!self || self->controller().get() != which)
                return;
            if (self->around_.on_stop_request)
                self->around_.on_stop_request();
            else
                self->end_session();
        });
    });
    session_ = std::make_unique<session>(session{owner, std::move(out), std::move(made)});
    log::notice("node ", node_, ": served");
}

/// Its connections say goodbye; the controller stays until they have.
void cnode_link::end_session(std::function<void()> done)
{
    const auto ending = std::exchange(session_, nullptr);
    if (!ending)
        return done();
    around_.on_session_end(ending->controller->counts());
    ending->controller->stop([keep = ending->controller, over = around_.on_session_over, done = std::move(done)] {
        over();
        done();
    });
}

// ---- the end

void cnode_link::stop(std::chrono::steady_clock::time_point until, std::function<void()> done)
{
    end_session([self = shared_from_this(), until, done = std::move(done)] {
        self->channel_->drain(until);
        self->finish();
        done();
    });
}

void cnode_link::drop(const std::string& why)
{
    if (over_)
        log::notice("node ", node_, ": ", why, session_ ? ", its connections are closed" : "");
    finish();
}

void cnode_link::finish()
{
    channel_->close();
    timer_.cancel();
    end_session();
    if (over_)
        asio::post(around_.commons.context, std::exchange(over_, nullptr));
}

// ---- time

void cnode_link::watch_time()
{
    timer_.expires_after(around_.ticktime / ticks);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
        if (!ec && self->socket_->is_open())
            self->check_time();
    });
}

/// A node that is there says something, if only a tick, four times in its net_ticktime, and reads what it is told.
void cnode_link::check_time()
{
    const auto now = std::chrono::steady_clock::now();
    const auto limit = around_.ticktime;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit).count();
    const bool wrote = std::exchange(written_, channel_->written()) != channel_->written();
    if (wrote || channel_->idle())
        progressed_ = now;
    // A quarter more, as net_kernel grants: the other side's ticks are not in step with ours.
    if (now - heard_ > limit + limit / ticks)
        return drop("has said nothing for " + std::to_string(seconds) + " s");
    if (now - progressed_ > limit)
        return drop("has read nothing for " + std::to_string(seconds) + " s");
    if (!wrote && channel_->idle())
        channel_->put_tick();
    watch_time();
}

} // namespace etls::link
