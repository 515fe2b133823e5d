#pragma once

#include <cstdint>

namespace etls::conn {

/// What a connection knows and, from it, what it does next. Pure: the shell (connection.cpp) records facts here and
/// performs the steps it is told; no decision about the life of a connection is made anywhere else.
///
///     handshake  idle ─► running ─► done ─────────────► (streaming)
///                             └───► failed ─► told ─► FIN ─► linger ─► finish
///     incoming   none ─► close_notify | truncated | failed      then, once the lane has all plaintext: shut the lane
///     outgoing   lane open ─► lane at end ─► close_notify said ─► FIN sent
///     leaving    the VM closed (gracefully, by hanging up, or aborting), or nothing is left to do: drop the lane, linger, finish
struct flow {
    enum class handshake_phase : std::uint8_t { idle, running, done, failed };
    enum class peer_end : std::uint8_t { none, close_notify, truncated, failed };
    enum class closing_mode : std::uint8_t { none, graceful, abort };
    enum class lane_phase : std::uint8_t { awaited, attached, dropped };

    // Facts, set by the shell.
    handshake_phase handshake = handshake_phase::idle;
    bool handshake_asked = false; ///< the VM waits for its outcome
    bool handshake_told = false;
    lane_phase lane = lane_phase::awaited;
    bool lane_eof = false;      ///< the VM will write no more
    bool lane_early = false;    ///< data came before the handshake was over; they wait in the kernel
    bool lane_hung_up = false;  ///< the VM will read no more either
    bool lane_out_shut = false; ///< we have told the lane its end of data
    bool to_lane = false;       ///< plaintext waits for the lane
    bool to_peer = false;       ///< ciphertext waits for the peer
    bool glutted = false;       ///< so much of it that the peer must not cause any more
    bool held = false;          ///< plaintext or close_notify waits in the session, for the peer to finish its message
    peer_end end = peer_end::none;
    bool end_told = false;
    bool tcp_eof = false;    ///< nothing more to read from the peer
    bool tcp_broken = false; ///< nothing more can be written to it
    bool close_notify_said = false;
    bool fin_sent = false;
    closing_mode closing = closing_mode::none;
    bool closed_told = false;

    enum class step : std::uint8_t {
        none,             ///< wait for the next event
        tell_handshake,   ///< answer the VM's handshake request
        tell_ended,       ///< tell the VM why the peer's data ended
        shut_lane,        ///< half-close the lane towards the VM
        say_close_notify, ///< encrypt close_notify behind all data
        send_fin,         ///< half-close the TCP connection
        tell_closed,      ///< answer the VM's close request
        drop_lane,        ///< close the lane
        finish,           ///< free everything
    };
    [[nodiscard]] step next() const noexcept;

    /// Which readiness is worth waiting for.
    struct interest {
        bool read_tcp = false;
        bool write_tcp = false;
        bool read_lane = false;
        bool write_lane = false;
        bool watch_lane = false; ///< for a hang-up

        bool operator==(const interest&) const = default;
    };
    [[nodiscard]] interest wanted() const noexcept;

    /// Which time limit runs now.
    enum class deadline : std::uint8_t {
        none,
        attach, ///< the lane has to come
        stall,  ///< a leaving connection has to make progress
        linger, ///< the peer has to end after our FIN
    };
    [[nodiscard]] deadline limit() const noexcept;

    /// The VM wants no more of the peer's data.
    [[nodiscard]] bool vm_done() const noexcept;
    /// Plaintext of the VM can still be sent.
    [[nodiscard]] bool can_send() const noexcept;

private:
    [[nodiscard]] bool over() const noexcept;
    [[nodiscard]] bool flushed() const noexcept { return fin_sent || tcp_broken; }
};

} // namespace etls::conn
