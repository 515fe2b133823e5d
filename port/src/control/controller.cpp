#include "control/controller.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"
#include "net/readiness.hpp"
#include "net/sockets.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <openssl/crypto.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace etls::control {

namespace asio = boost::asio;

namespace {

failure named(const char* name)
{
    return named_error{name};
}

/// `cancel` could not tell which of two is meant.
failure id_in_use()
{
    return request_error{"Id in use"};
}

/// Records leave when the user writes (DESIGN.md, 2): small messages must not wait for Nagle's algorithm.
net::tcp_options with_defaults(net::tcp_options options)
{
    if (!options.nodelay)
        options.nodelay = true;
    return options;
}

/// A daemon that comes back must get its ports back from connections in TIME_WAIT, which works only where they and the
/// new listener both have SO_REUSEADDR (socket(7)); on Linux it lets no two listeners share a port.
net::tcp_options listener_options(net::tcp_options options)
{
    if (!options.reuseaddr)
        options.reuseaddr = true;
    return with_defaults(std::move(options));
}

/// Always there: co_spawn only wants what it passes on to have a default value.
using resolved = std::optional<result<std::vector<net::address>>>;

asio::awaitable<resolved> resolve_here(std::string host, std::uint16_t port, std::optional<net::family> only)
{
    co_return net::resolve(host, port, only);
}

} // namespace

struct controller::listener : std::enable_shared_from_this<listener> {
    listener(listener_id id_, asio::io_context& where, net::unique_fd fd, const commands::listen& wish,
             std::shared_ptr<const tls::context> made)
        : id{id_},
          socket{where, std::move(fd)},
          address{net::local_name(socket.fd())},
          tls{wish.tls},
          hostname{wish.hostname},
          context{std::move(made)}
    {
    }

    const listener_id id;
    net::readiness socket;
    const net::address address;
    const tls::context_options tls; ///< for `reload`
    const std::optional<std::string> hostname;
    std::shared_ptr<const tls::context> context;
    std::deque<opaque> waiting; ///< accepts, oldest first
};

controller::controller(commons& shared, std::shared_ptr<outbox> out)
    : commons_{shared}, context_{shared.context}, outbox_{std::move(out)}, stop_timer_{shared.context}
{
}

void controller::handle(request asked)
{
    if (!greeted_ && !std::holds_alternative<commands::hello>(asked.what))
        return answer(asked.id, failure{request_error{"hello first"}});
    std::visit([&](auto& what) { carry_out(asked.id, what); }, asked.what);
}

void controller::answer(const opaque& id, const reply& value)
{
    outbox_->answer(id, value);
}

bool controller::waits(const opaque& id) const
{
    return accepts_.contains(id) || connects_.contains(id);
}

controller::member* controller::find(connection_id id)
{
    const auto at = members_.find(id);
    return at == members_.end() ? nullptr : &at->second;
}

// ---- the daemon itself

void controller::carry_out(const opaque& id, commands::hello& wish)
{
    if (wish.protocol != protocol_version) {
        log::error("the VM speaks protocol version ", wish.protocol, ", this daemon ", protocol_version);
        return answer(id, replies::wrong_version{});
    }
    greeted_ = true;
    answer(id, replies::hello{::OpenSSL_version(OPENSSL_VERSION), commons_.lane_path(), commons_.threads.size(),
                              commons_.self});
}

replies::stats controller::counts() const
{
    auto now = counts_;
    now.connections = members_.size();
    now.listeners = listeners_.size();
    now.accepts_waiting = accepts_.size();
    now.contexts = commons_.contexts.size();
    return now;
}

std::vector<controller::connection_summary> controller::connections() const
{
    std::vector<connection_summary> all;
    all.reserve(members_.size());
    for (const auto& [id, who] : members_)
        all.push_back({id, who.connection->peer(), who.connection->local()});
    return all;
}

void controller::carry_out(const opaque& id, commands::stats&)
{
    answer(id, counts());
}

void controller::carry_out(const opaque& id, commands::cipher_suites& wish)
{
    auto names = tls::cipher_suites(wish.filter);
    if (!names)
        return answer(id, names.error());
    answer(id, replies::suites{std::move(*names)});
}

void controller::carry_out(const opaque& id, commands::log_level& wish)
{
    log::set_level(wish.level);
    answer(id, replies::done{});
}

std::optional<failure> controller::reload()
{
    commons_.contexts.clear();
    std::optional<failure> first;
    for (const auto& [_, at] : listeners_) {
        auto made = commons_.contexts.get(tls::role::server, at->tls);
        if (made)
            at->context = std::move(*made);
        else if (!first)
            first = made.error(); // this listener keeps what it has, the others do not wait for it
    }
    return first;
}

void controller::carry_out(const opaque& id, commands::reload&)
{
    const auto wrong = reload();
    answer(id, wrong ? reply{*wrong} : reply{replies::done{}});
}

void controller::carry_out(const opaque& id, commands::stop&)
{
    answer(id, replies::done{});
    if (stop_requested_)
        stop_requested_();
}

// ---- listeners

void controller::carry_out(const opaque& id, commands::listen& wish)
{
    auto made = commons_.contexts.get(tls::role::server, wish.tls);
    if (!made)
        return answer(id, made.error());
    auto fd = net::open_listener(wish.address, listener_options(wish.tcp));
    if (!fd)
        return answer(id, fd.error());
    const auto at =
        std::make_shared<listener>(commons_.next_number(), context_, std::move(*fd), wish, std::move(*made));
    listeners_.emplace(at->id, at);
    log::info("listener ", at->id, ": listening on ", at->address.text());
    answer(id, replies::listening{at->id, at->address});
}

void controller::carry_out(const opaque& id, commands::accept& wish)
{
    const auto at = listeners_.find(wish.listener);
    if (at == listeners_.end())
        return answer(id, named("closed"));
    if (waits(id))
        return answer(id, id_in_use());
    at->second->waiting.push_back(id);
    accepts_.emplace(id, wish.listener);
    take(*at->second);
}

/// Gives waiting accepts what the kernel has. Waits for more only while somebody asks: its backlog holds the rest.
void controller::take(listener& from)
{
    while (!from.waiting.empty() && from.socket.is_open()) {
        auto fd = net::accept_from(from.socket.fd());
        if (!fd && net::would_block(std::get<boost::system::error_code>(fd.error()))) {
            from.socket.on_readable([this, self = shared_from_this(), at = from.shared_from_this()] { take(*at); });
            return;
        }
        const opaque id = std::move(from.waiting.front());
        from.waiting.pop_front();
        accepts_.erase(id);
        if (!fd) {
            answer(id, fd.error());
            continue;
        }
        ++counts_.accepted;
        const auto made = enrol(std::move(*fd), from.context, {.server_name = {}, .hostname = from.hostname});
        members_.at(made.connection).connection->start(false);
        answer(id, made);
    }
}

void controller::carry_out(const opaque& id, commands::close_listener& wish)
{
    if (const auto at = listeners_.find(wish.listener); at != listeners_.end()) {
        const auto closing = std::move(at->second);
        listeners_.erase(at);
        close_listener(*closing);
    }
    answer(id, replies::done{});
}

void controller::close_listener(listener& at)
{
    log::info("listener ", at.id, ": closed");
    if (at.address.kind() == net::family::local && !at.address.path().empty() && at.address.path().front() != '\0')
        ::unlink(at.address.path().c_str());
    at.socket.close();
    for (const auto& waiting : std::exchange(at.waiting, {})) {
        accepts_.erase(waiting);
        answer(waiting, named("closed"));
    }
}

// ---- connections

replies::opened controller::enrol(net::unique_fd fd, std::shared_ptr<const tls::context> context,
                                  tls::session_options options)
{
    const auto id = commons_.next_number();
    const auto token = commons_.expect_lane([weak = weak_from_this(), id](net::unique_fd lane) {
        if (const auto self = weak.lock())
            self->lane_arrived(id, std::move(lane));
    });
    auto made = std::make_shared<conn::connection>(id, commons_.threads.pick(), std::move(fd), std::move(context),
                                                   std::move(options), weak_from_this());
    replies::opened out{id, token, made->peer(), made->local()};
    members_.emplace(id, member{std::move(made), token, std::nullopt, {}, {}});
    ++alive_;
    return out;
}

void controller::lane_arrived(connection_id id, net::unique_fd fd)
{
    auto& who = members_.at(id);
    who.token.reset();
    who.connection->attach_lane(std::move(fd));
}

void controller::carry_out(const opaque& id, commands::attach& wish)
{
    auto* who = find(wish.connection);
    if (who == nullptr)
        return answer(id, named("closed"));
    if (!who->token)
        return answer(id, failure{request_error{"attach: it has a lane"}});
    auto pair = net::open_pair();
    if (!pair)
        return answer(id, pair.error());
    commons_.forget_lane(*who->token);
    who->token.reset();
    const auto made = std::make_shared<lane::link_lane>(context_, wish.connection, std::move(pair->first), outbox_,
                                                        [this, keep = weak_from_this(), at = wish.connection] {
                                                            if (const auto self = keep.lock())
                                                                lanes_.erase(at);
                                                        });
    lanes_.emplace(wish.connection, made);
    who->connection->attach_lane(std::move(pair->second));
    answer(id, replies::attached{limits::lane_window_bytes});
    made->begin();
}

void controller::handle(const lane_term& term)
{
    const auto at = lanes_.find(term.connection);
    if (at == lanes_.end())
        return;                   // late, which is nobody's fault
    const auto lane = at->second; // it may go meanwhile
    switch (term.what) {
    case lane_term::kind::data:
        if (!lane->data(std::as_bytes(std::span{term.data.data(), term.data.size()}))) {
            if (auto* who = find(term.connection))
                who->connection->close(conn::flow::closing_mode::abort, limits::close_stall_time);
        }
        break;
    case lane_term::kind::credit:
        lane->grant(term.credit);
        break;
    case lane_term::kind::eof:
        lane->end();
        break;
    case lane_term::kind::hangup:
        lane->hang_up();
        break;
    }
}

void controller::forget(connection_id id)
{
    const auto at = members_.find(id);
    if (at == members_.end())
        return;
    if (at->second.token)
        commons_.forget_lane(*at->second.token);
    members_.erase(at);
}

void controller::carry_out(const opaque& id, commands::connect& wish)
{
    if (waits(id))
        return answer(id, id_in_use());
    auto made = commons_.contexts.get(tls::role::client, wish.tls);
    if (!made)
        return answer(id, made.error());
    const auto attempt = std::make_shared<net::connect_attempt>();
    connects_.emplace(id, attempt);
    asio::co_spawn(context_, connect(id, std::move(wish), std::move(*made), attempt),
                   [self = shared_from_this()](const std::exception_ptr& thrown) {
                       if (thrown)
                           std::rethrow_exception(thrown);
                   });
}

asio::awaitable<void> controller::connect(opaque id, commands::connect wish,
                                          std::shared_ptr<const tls::context> context,
                                          std::shared_ptr<net::connect_attempt> attempt)
{
    auto fd = co_await connect_any(wish, attempt);
    if (attempt->interrupted())
        co_return; // answered by whoever interrupted
    connects_.erase(id);
    if (!fd) {
        answer(id, fd.error());
        co_return;
    }
    ++counts_.connected;
    const auto made = enrol(std::move(*fd), std::move(context),
                            {.server_name = std::move(wish.server_name), .hostname = std::move(wish.hostname)});
    members_.at(made.connection).connection->start(true);
    answer(id, made);
}

asio::awaitable<result<net::unique_fd>> controller::connect_any(const commands::connect& wish,
                                                                std::shared_ptr<net::connect_attempt> attempt)
{
    std::vector<net::address> candidates;
    if (const auto* given = std::get_if<net::address>(&wish.host)) {
        candidates.push_back(*given);
    } else {
        const auto& name = std::get<std::string>(wish.host);
        if (const auto literal = net::address::parse_ip(name, wish.port)) {
            candidates.push_back(*literal);
        } else {
            auto found = co_await asio::co_spawn(commons_.resolvers, resolve_here(name, wish.port, wish.only),
                                                 asio::use_awaitable);
            if (!*found)
                co_return found->error();
            candidates = std::move(found->value());
        }
    }
    if (wish.only)
        std::erase_if(candidates, [&](const auto& each) { return each.kind() != *wish.only; });
    if (wish.bind)
        std::erase_if(candidates, [&](const auto& each) { return each.kind() != wish.bind->kind(); });
    result<net::unique_fd> last{failure{boost::system::error_code{EAFNOSUPPORT, boost::system::system_category()}}};
    for (const auto& to : candidates) {
        last = co_await net::connect_to(attempt, to, with_defaults(wish.tcp), wish.bind);
        if (last || attempt->interrupted())
            break;
        log::debug("connect: ", to.text(), ": ", std::get<boost::system::error_code>(last.error()).message());
    }
    co_return last;
}

void controller::carry_out(const opaque& id, commands::handshake& wish)
{
    auto* who = find(wish.connection);
    if (who == nullptr)
        return answer(id, named("closed"));
    if (who->handshake || !who->subject.empty())
        return answer(id, failure{request_error{"second handshake"}});
    who->handshake = id;
    who->subject = std::move(wish.subject);
    who->connection->ask_handshake();
}

void controller::carry_out(const opaque& id, commands::cancel& wish)
{
    if (const auto at = accepts_.find(wish.request); at != accepts_.end()) {
        std::erase(listeners_.at(at->second)->waiting, wish.request);
        accepts_.erase(at);
        answer(wish.request, named("cancelled"));
    } else if (const auto trying = connects_.find(wish.request); trying != connects_.end()) {
        const auto attempt = std::move(trying->second);
        connects_.erase(trying);
        attempt->interrupt();
        answer(wish.request, named("cancelled"));
    }
    answer(id, replies::done{});
}

void controller::carry_out(const opaque& id, commands::close& wish)
{
    auto* who = find(wish.connection);
    if (who == nullptr)
        return answer(id, replies::done{});
    who->closes.push_back(id);
    who->connection->close(wish.mode, wish.stall);
}

void controller::carry_out(const opaque& id, commands::set_options& wish)
{
    if (!wish.connection) {
        const auto at = listeners_.find(wish.listener);
        if (at == listeners_.end())
            return answer(id, named("closed"));
        const auto ec = net::apply(at->second->socket.fd(), at->second->address.kind(), wish.tcp);
        return ec ? answer(id, failure{ec}) : answer(id, replies::done{});
    }
    auto* who = find(*wish.connection);
    if (who == nullptr)
        return answer(id, named("closed"));
    who->connection->with_socket([weak = weak_from_this(), id, tcp = wish.tcp](int fd, net::family kind) {
        reply out = replies::done{};
        if (fd < 0)
            out = named("closed");
        else if (const auto ec = net::apply(fd, kind, tcp))
            out = failure{ec};
        if (const auto self = weak.lock())
            self->later([id, out = std::move(out)](controller& it) { it.answer(id, out); });
    });
}

void controller::carry_out(const opaque& id, commands::get_options& wish)
{
    if (!wish.connection) {
        const auto at = listeners_.find(wish.listener);
        if (at == listeners_.end())
            return answer(id, named("closed"));
        auto values = net::read_options(at->second->socket.fd(), at->second->address.kind());
        return answer(id, replies::options{std::move(wish.names), values});
    }
    auto* who = find(*wish.connection);
    if (who == nullptr)
        return answer(id, named("closed"));
    who->connection->with_socket([weak = weak_from_this(), id, names = wish.names](int fd, net::family kind) {
        reply out = fd < 0 ? reply{named("closed")} : reply{replies::options{names, net::read_options(fd, kind)}};
        if (const auto self = weak.lock())
            self->later([id, out = std::move(out)](controller& it) { it.answer(id, out); });
    });
}

void controller::carry_out(const opaque& id, commands::info& wish)
{
    auto* who = find(wish.connection);
    if (who == nullptr)
        return answer(id, named("closed"));
    who->connection->with_counters([weak = weak_from_this(), id](const conn::counters& now) {
        if (const auto self = weak.lock())
            self->later([id, now](controller& it) { it.answer(id, now); });
    });
}

// ---- what connections tell, on their threads

void controller::later(std::function<void(controller&)> work)
{
    asio::post(context_, [self = shared_from_this(), work = std::move(work)] { work(*self); });
}

void controller::handshake_over(connection_id id, result<tls::handshake_info> outcome)
{
    later([id, outcome = std::move(outcome)](controller& self) mutable {
        auto* who = self.find(id);
        if (who == nullptr || !who->handshake)
            return;
        const opaque asked = std::move(*who->handshake);
        who->handshake.reset();
        if (outcome) {
            ++self.counts_.handshakes;
            return self.answer(asked, std::move(*outcome));
        }
        ++self.counts_.handshake_failures;
        const auto closes = std::move(who->closes);
        self.forget(id); // it says its alert and goes by itself
        self.answer(asked, outcome.error());
        for (const auto& waiting : closes)
            self.answer(waiting, replies::done{});
    });
}

void controller::ended(connection_id id, conn::end_of_data how)
{
    later([id, how = std::move(how)](controller& self) {
        if (const auto* who = self.find(id))
            self.outbox_->tell_ended(who->subject, how);
    });
}

void controller::closed(connection_id id)
{
    later([id](controller& self) { self.dismiss(id); });
}

void controller::gone(connection_id id)
{
    later([id](controller& self) {
        self.dismiss(id);
        --self.alive_;
        if (self.alive_ == 0 && self.stopped_)
            self.finish_stop();
    });
}

/// Forgets a connection that is over and answers whoever still waits for it. A handshake may have been asked for while
/// the close was under way.
void controller::dismiss(connection_id id)
{
    auto* who = find(id);
    if (who == nullptr)
        return;
    const auto shaking = std::move(who->handshake);
    const auto closes = std::move(who->closes);
    forget(id);
    if (shaking)
        answer(*shaking, named("closed"));
    for (const auto& waiting : closes)
        answer(waiting, replies::done{});
}

// ---- the end

void controller::stop(std::function<void()> done)
{
    if (stopped_)
        return;
    stopped_ = std::move(done);
    for (const auto& [_, lane] : std::map{lanes_.begin(), lanes_.end()}) // each may go as it is told
        lane->hang_up();
    for (const auto& [_, at] : std::exchange(listeners_, {}))
        close_listener(*at);
    for (const auto& [id, attempt] : std::exchange(connects_, {})) {
        attempt->interrupt();
        answer(id, named("closed"));
    }
    for (const auto& [_, who] : members_)
        who.connection->wind_up(limits::stop_time);
    if (alive_ == 0)
        return finish_stop();
    stop_timer_.expires_after(limits::stop_time);
    stop_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
        if (ec)
            return;
        log::info("stopping with ", self->alive_, " connections that would not end");
        self->finish_stop();
    });
}

void controller::finish_stop()
{
    stop_timer_.cancel();
    // From a fresh stack: whoever is told may let go of this controller.
    asio::post(context_, std::exchange(stopped_, [] {}));
}

} // namespace etls::control
