// libFuzzer on the link: any bytes that a VM could send, through the decoder, into a real controller.
//
// An input is the stream as it is on the port: frames with their 4-byte length each, the last one perhaps cut short; or
// one bare term (131 ...). A frame that begins like one of the distribution (112) is read as such, its payload then as
// a term of the link. The harness says `hello` first. It answers as the daemon does, so that listeners, accepts,
// connects, handshakes and lanes all happen, but keeps every request at home: addresses become the loopback, ports our
// own listener's, files those of a directory of our own.
//
// Checked: nothing throws; every request with a readable Id has one answer once all is over, and never two; what is
// answered is well formed and fits a frame; no lane carries more than it was granted; the controller stops in time.
#include "base/limits.hpp"
#include "base/log.hpp"
#include "control/controller.hpp"
#include "link/distribution.hpp"
#include "link/reply_encoder.hpp"
#include "link/request_decoder.hpp"
#include "link/term_check.hpp"
#include "link/term_text.hpp"
#include "tls/authority.hpp"
#include "tls/library.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

using namespace etls;
using namespace std::chrono_literals;
namespace commands = control::commands;
namespace replies = control::replies;

namespace {

/// More says nothing new and takes time, sockets or memory.
constexpr int most_frames = 64;
constexpr int most_listeners = 4;
constexpr int most_connections = 8;

/// What an input may call the first, second, … listener or connection of its own.
constexpr std::uint64_t most_numbers = 1000;

constexpr char version_byte = '\x83';

void require(bool good, const char* what, std::string_view term = {})
{
    if (good)
        return;
    std::fprintf(stderr, "fuzz_link: %s: %s\n", what, link::term_text(term).value_or("").c_str());
    std::abort();
}

/// With ETLS_FUZZ_SHOW in the environment, a reproduced input says on stderr what passes.
void show(const char* way, std::string_view term)
{
    static const bool wanted = std::getenv("ETLS_FUZZ_SHOW") != nullptr;
    if (wanted)
        std::fprintf(stderr, "%s %s.\n", way, link::term_text(term).value_or("no term").c_str());
}

/// What lasts from input to input: threads are slow to start.
struct world {
    world()
    {
        tls::start_library();
        std::signal(SIGPIPE, SIG_IGN);
        etls::log::set_sink([](log::level, const std::string&) {});
        test::certificate_wish wish;
        wish.name = "localhost";
        wish.alternatives = "DNS:localhost,IP:127.0.0.1";
        const auto own = test::issue(wish);
        certificate = files.write("own.pem", own.pem() + own.key_pem());
        require(!commons.open(), "no lane socket");
    }

    test::scratch_directory files;
    std::string certificate; ///< with its key
    const std::string path = files.path("listener");
    net::io_threads threads{1};
    boost::asio::io_context loop{1};
    control::commons commons{loop, threads};
};

world& shared()
{
    static world one;
    return one;
}

/// Counts and checks what is said to the VM.
struct recorder : control::outbox {
    void answer(const control::opaque& id, const control::reply& what) override
    {
        link::term_writer out;
        link::encode_reply(out, id, what);
        answered(id, out.bytes());
        if (const auto* made = std::get_if<replies::listening>(&what)) {
            if (made->address.kind() != net::family::local)
                port = made->address.port();
        }
    }
    void tell_ended(const control::opaque& subject, const conn::end_of_data& how) override
    {
        require(!subject.empty(), "an event without a subject");
        link::term_writer out;
        link::encode_ended(out, subject, how);
        check(out.bytes());
    }
    std::span<std::byte> begin_data(std::uint64_t connection, std::size_t most,
                                    const std::shared_ptr<lane::link_lane>& lane) override
    {
        require(most > 0 && most <= limits::lane_data_bytes, "a data term of an odd size");
        // The link is busy now and then.
        if (++asked % 5 == 0) {
            parked.push_back(lane);
            return {};
        }
        sending = connection;
        room.resize(most);
        return {room.data(), most};
    }
    void end_data(std::size_t bytes) override
    {
        auto& left = credit[sending];
        require(bytes <= room.size() && bytes <= left, "more data than were granted");
        left -= bytes;
        lane_term("data", sending, bytes);
    }
    void put_credit(std::uint64_t connection, std::size_t bytes) override
    {
        require(bytes > 0 && bytes <= limits::lane_window_bytes, "an odd credit");
        lane_term("credit", connection, bytes);
    }
    void put_eof(std::uint64_t connection) override
    {
        require(eofs[connection]++ == 0, "a second eof");
        lane_term("eof", connection, 0);
    }
    void put_hangup(std::uint64_t connection) override
    {
        require(hangups[connection]++ == 0, "a second hangup");
        lane_term("hangup", connection, 0);
    }

    void answered(const control::opaque& id, std::string_view term)
    {
        check(term);
        const auto at = waiting.find(id);
        require(at != waiting.end(), "an answer that nobody waits for", term);
        if (--at->second == 0)
            waiting.erase(at);
    }
    void check(std::string_view term) const
    {
        show("->", term);
        require(link::well_formed(term) && term.size() <= limits::frame_bytes, "not well formed");
        require(link::term_text(term).has_value(), "no text");
    }

    /// Lanes that found the link busy.
    void resume()
    {
        for (const auto& each : std::exchange(parked, {})) {
            if (const auto lane = each.lock())
                lane->resume();
        }
    }

    std::map<control::opaque, int> waiting; ///< requests without an answer, by Id
    std::map<std::uint64_t, std::uint64_t> credit;
    std::map<std::uint64_t, int> eofs, hangups;
    std::optional<std::uint16_t> port; ///< of our last listener

private:
    static void lane_term(const char* what, std::uint64_t connection, std::size_t bytes)
    {
        link::term_writer out;
        out.tuple(3).atom(what).unsigned_integer(connection).unsigned_integer(bytes);
        show("->", out.bytes());
    }

    std::deque<std::weak_ptr<lane::link_lane>> parked;
    std::vector<std::byte> room;
    std::uint64_t sending = 0;
    unsigned asked = 0;
};

/// One input's VM.
class session {
public:
    session() : base_{shared().commons.next_number()}
    {
        control_->on_stop_request([this] { over_ = true; });
        hello();
    }

    void frame(std::string_view bytes)
    {
        constexpr char pass_through = 112;
        if (!bytes.starts_with(pass_through))
            return term(bytes);
        if (const auto message = link::read_distribution(bytes))
            distributed(*message);
    }

    void term(std::string_view bytes)
    {
        static_cast<void>(link::term_text(bytes));
        show("<-", bytes);
        auto read = link::decode_message(bytes);
        if (auto* asked = std::get_if<control::request>(&read)) {
            if (!at_home(asked->what))
                return;
            ++out_->waiting[asked->id];
            in_work_ = !std::holds_alternative<commands::accept>(asked->what);
            control_->handle(std::move(*asked));
        } else if (auto* lane = std::get_if<control::lane_term>(&read)) {
            own(lane->connection);
            if (lane->what == control::lane_term::kind::credit)
                out_->credit[lane->connection] += std::min(lane->credit, limits::lane_credit_bytes);
            control_->handle(*lane);
            in_work_ = true;
        } else if (const auto& bad = std::get<link::senseless>(read); bad.id) {
            ++out_->waiting[*bad.id];
            link::term_writer answer;
            link::encode_rejection(answer, bad);
            out_->answered(*bad.id, answer.bytes());
        }
        turn();
    }

    [[nodiscard]] bool over() const { return over_; }

    void end()
    {
        bool done = false;
        control_->stop([&] { done = true; });
        const auto until = std::chrono::steady_clock::now() + 5s;
        while (!done && std::chrono::steady_clock::now() < until) {
            shared().loop.restart();
            shared().loop.run_one_for(10ms);
            out_->resume();
        }
        require(done, "the controller does not stop");
        // Answers that come by way of the connections' threads may be the last.
        while (!out_->waiting.empty() && std::chrono::steady_clock::now() < until) {
            shared().loop.restart();
            shared().loop.run_one_for(10ms);
        }
        if (!out_->waiting.empty())
            require(false, "no answer", version_byte + out_->waiting.begin()->first);
        control_.reset();
        shared().commons.contexts.clear();
    }

private:
    void hello()
    {
        link::term_writer id;
        id.atom("hello");
        const control::opaque text{id.bytes().substr(1)}; // without the version byte
        ++out_->waiting[text];
        control_->handle({text, commands::hello{control::protocol_version}});
        require(out_->waiting.empty(), "no answer to hello");
    }

    /// Whoever is answered is answered with what can be read again.
    void distributed(const link::distribution_message& message)
    {
        using kind = link::distribution_message::kind;
        const auto readable = [](const std::string& frame) {
            require(link::read_distribution(frame).has_value(), "a message that is none");
        };
        erlang_pid number{};
        std::string{"etlsd@localhost"}.copy(number.node, sizeof number.node - 1);
        link::term_writer self;
        self.pid(number);
        const auto own = self.bytes().substr(1);
        switch (message.what) {
        case kind::to_name:
            readable(link::send_envelope(message.from));
            return term(message.payload);
        case kind::to_pid:
            return term(message.payload);
        case kind::link:
            return readable(link::link_refusal(own, message.from));
        case kind::unlink:
            return readable(link::unlink_acknowledgement(message.reference, own, message.from));
        case kind::monitor:
            return readable(link::monitor_refusal(message.to, message.from, message.reference));
        case kind::exit:
        case kind::other:
            break;
        }
    }

    /// Lets what was asked happen, for a time that an input cannot stretch.
    void turn()
    {
        auto& loop = shared().loop;
        loop.restart();
        loop.poll();
        out_->resume();
        if (!in_work_ || (out_->waiting.empty() && !lanes_))
            return;
        const auto until = std::chrono::steady_clock::now() + 2ms;
        while (std::chrono::steady_clock::now() < until) {
            loop.restart();
            if (loop.run_one_for(1ms) == 0)
                break;
        }
        out_->resume();
        in_work_ = false;
    }

    /// The numbers of an input begin at 1, whatever came before it.
    void own(std::uint64_t& number) const
    {
        if (number > 0 && number <= most_numbers)
            number += base_;
    }
    void own(std::optional<std::uint64_t>& number) const
    {
        if (number)
            own(*number);
    }

    static void own(std::optional<std::string>& file)
    {
        if (file)
            file = file->ends_with(".pem") ? shared().certificate : shared().certificate + ".missing";
    }
    static void own(tls::context_options& wish)
    {
        own(wish.certfile);
        own(wish.keyfile);
        own(wish.cacertfile);
    }
    /// close(2) waits for data with it.
    static void own(net::tcp_options& wish)
    {
        if (wish.linger)
            wish.linger->second = 0;
    }
    [[nodiscard]] static net::address loopback(net::family kind, std::uint16_t port)
    {
        return kind == net::family::inet6 ? net::address::ipv6({0, 0, 0, 0, 0, 0, 0, 1}, port)
                                          : net::address::ipv4({127, 0, 0, 1}, port);
    }

    /// Turns what is asked into what may happen here; false: nothing may.
    bool at_home(control::command& what)
    {
        return std::visit([this](auto& each) { return at_home(each); }, what);
    }
    bool at_home(commands::listen& wish)
    {
        own(wish.tls);
        own(wish.tcp);
        const auto kind = wish.address.kind();
        // A path of the directory that we are in; closing it removes the file.
        wish.address = kind == net::family::local ? *net::address::local(shared().path) : loopback(kind, 0);
        return ++listeners_ <= most_listeners;
    }
    bool at_home(commands::connect& wish)
    {
        own(wish.tls);
        own(wish.tcp);
        constexpr std::uint16_t nobody = 1;
        const auto port = out_->port.value_or(nobody);
        wish.port = port;
        if (auto* to = std::get_if<net::address>(&wish.host))
            *to = to->kind() == net::family::local ? *net::address::local(shared().path) : loopback(to->kind(), port);
        else
            wish.host = "127.0.0.1"; // no resolver, which may take its time
        if (wish.bind)
            wish.bind =
                wish.bind->kind() == net::family::local ? std::nullopt : std::optional{loopback(wish.bind->kind(), 0)};
        return ++connections_ <= most_connections;
    }
    bool at_home(commands::accept& wish)
    {
        own(wish.listener);
        return true;
    }
    bool at_home(commands::handshake& wish)
    {
        own(wish.connection);
        return true;
    }
    bool at_home(commands::attach& wish)
    {
        own(wish.connection);
        lanes_ = true;
        return true;
    }
    bool at_home(commands::close& wish)
    {
        own(wish.connection);
        return true;
    }
    bool at_home(commands::close_listener& wish)
    {
        own(wish.listener);
        return true;
    }
    bool at_home(commands::set_options& wish)
    {
        own(wish.connection);
        own(wish.listener);
        own(wish.tcp);
        return true;
    }
    bool at_home(commands::get_options& wish)
    {
        own(wish.connection);
        own(wish.listener);
        return true;
    }
    bool at_home(commands::info& wish)
    {
        own(wish.connection);
        return true;
    }
    template <class Other>
    bool at_home(Other&)
    {
        return true;
    }

    std::shared_ptr<recorder> out_ = std::make_shared<recorder>();
    std::shared_ptr<control::controller> control_ = std::make_shared<control::controller>(shared().commons, out_);
    std::uint64_t base_;
    int listeners_ = 0;
    int connections_ = 0;
    bool lanes_ = false;
    bool in_work_ = false; ///< something is under way that threads or sockets have to finish
    bool over_ = false;
};

/// The next frame, taken from `left`. What is cut short is a frame, too.
std::string_view take_frame(std::string_view& left)
{
    constexpr std::size_t header = 4;
    if (left.front() == version_byte || left.size() < header)
        return std::exchange(left, {});
    std::uint64_t size = 0;
    for (const char each : left.substr(0, header))
        size = size << 8 | static_cast<std::uint8_t>(each);
    const auto frame = left.substr(header, size);
    left.remove_prefix(header + frame.size());
    return frame;
}

using frames = std::vector<std::string>;

frames split(std::string_view left)
{
    frames out;
    while (!left.empty())
        out.emplace_back(take_frame(left));
    return out;
}

/// As many whole frames as there is room for; the bytes they took.
std::size_t join(const frames& all, std::uint8_t* out, std::size_t room)
{
    std::size_t used = 0;
    for (const auto& each : all) {
        constexpr std::size_t header = 4;
        if (header + each.size() > room - used)
            break;
        for (int shift = 24; shift >= 0; shift -= 8)
            out[used++] = static_cast<std::uint8_t>(each.size() >> shift);
        std::copy(each.begin(), each.end(), out + used);
        used += each.size();
    }
    return used;
}

} // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

// Bytes alone rarely become another frame: frames change places, come twice, go, and change inside.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed)
{
    std::minstd_rand random{seed};
    auto all = split({reinterpret_cast<const char*>(data), size});
    const auto any = [&] { return random() % all.size(); };
    if (all.empty() || random() % 8 == 0)
        return LLVMFuzzerMutate(data, size, room);
    switch (random() % 6) {
    case 0:
        std::swap(all[any()], all[any()]);
        break;
    case 1:
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(any()), std::string{all[any()]});
        break;
    case 2:
        if (all.size() > 1)
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(any()));
        break;
    default: {
        auto& one = all[any()];
        const auto before = one.size();
        one.resize(before + 64);
        one.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(one.data()), before, one.size()));
    }
    }
    const auto used = join(all, data, room);
    return used != 0 ? used : LLVMFuzzerMutate(data, size, room);
}

/// Some frames of the second session, in the midst of the first.
extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second, std::size_t second_size, std::uint8_t* out,
                                                 std::size_t room, unsigned seed)
{
    std::minstd_rand random{seed};
    auto all = split({reinterpret_cast<const char*>(first), first_size});
    const auto more = split({reinterpret_cast<const char*>(second), second_size});
    if (!more.empty()) {
        const auto from = random() % more.size();
        const auto to = from + 1 + random() % (more.size() - from);
        const auto at = static_cast<std::ptrdiff_t>(random() % (all.size() + 1));
        all.insert(all.begin() + at, more.begin() + static_cast<std::ptrdiff_t>(from),
                   more.begin() + static_cast<std::ptrdiff_t>(to));
    }
    return join(all, out, room);
}

extern "C" int LLVMFuzzerInitialize(int*, char***)
{
    shared();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    // A copy of each frame's own, so that a read behind its end is seen.
    std::string_view left{reinterpret_cast<const char*>(data), size};
    session vm;
    for (int frames = 0; !left.empty() && frames < most_frames && !vm.over(); ++frames) {
        const auto frame = take_frame(left);
        const auto alone = std::make_unique<char[]>(frame.size());
        std::copy(frame.begin(), frame.end(), alone.get());
        vm.frame({alone.get(), frame.size()});
    }
    vm.end();
    return 0;
}
