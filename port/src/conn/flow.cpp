#include "conn/flow.hpp"

namespace etls::conn {

bool flow::vm_done() const noexcept
{
    return closing != closing_mode::none || lane_hung_up || (handshake == handshake_phase::failed && handshake_told);
}

bool flow::can_send() const noexcept
{
    return handshake == handshake_phase::done && end != peer_end::failed && !tcp_broken && !close_notify_said;
}

bool flow::over() const noexcept
{
    return handshake == handshake_phase::failed || end == peer_end::failed || close_notify_said;
}

flow::step flow::next() const noexcept
{
    const bool handshake_over = handshake == handshake_phase::done || handshake == handshake_phase::failed;
    if (closing == closing_mode::abort) {
        if (handshake_asked && !handshake_told)
            return step::tell_handshake;
        return closed_told ? step::finish : step::tell_closed;
    }
    if (handshake_over && handshake_asked && !handshake_told)
        return step::tell_handshake;
    if (end != peer_end::none && handshake_told && !end_told && !vm_done())
        return step::tell_ended;
    if (end != peer_end::none && lane == lane_phase::attached && !to_lane && !lane_out_shut && !vm_done())
        return step::shut_lane;
    if (lane_eof && handshake == handshake_phase::done && end != peer_end::failed && !close_notify_said && !tcp_broken)
        return step::say_close_notify;
    if (over() && !to_peer && !held && !fin_sent && !tcp_broken)
        return step::send_fin;
    if (closing == closing_mode::graceful && flushed() && !closed_told)
        return step::tell_closed;
    // Even after a failure the lane is the VM's to end: a send that met a closed lane would cost it what it has not read.
    if (lane == lane_phase::attached && flushed() && vm_done())
        return step::drop_lane;
    if (lane != lane_phase::attached && flushed() && vm_done() && (tcp_eof || tcp_broken))
        return step::finish;
    return step::none;
}

flow::interest flow::wanted() const noexcept
{
    interest want;
    if (closing == closing_mode::abort)
        return want;
    const bool attached = lane == lane_phase::attached;
    const bool done = handshake == handshake_phase::done;
    if (!tcp_eof) {
        if (handshake == handshake_phase::running)
            want.read_tcp = true;
        else if (vm_done() || end == peer_end::failed)
            want.read_tcp = handshake != handshake_phase::idle; // to see its FIN, and not to answer its data by RST
        else
            want.read_tcp = done && end == peer_end::none && attached && !to_lane;
    }
    want.read_tcp = want.read_tcp && !glutted;
    want.write_tcp = to_peer && !tcp_broken;
    // Before the handshake only the lane's end is of interest; after a failure its data are read to be dropped.
    want.read_lane = attached && !lane_eof && (done ? (!to_peer && !held) || !can_send() : !lane_early);
    want.write_lane = attached && to_lane && !lane_out_shut && !vm_done();
    want.watch_lane = attached && (lane_eof || (lane_early && !done)) && !lane_hung_up;
    return want;
}

flow::deadline flow::limit() const noexcept
{
    if (closing == closing_mode::abort)
        return deadline::none;
    if (lane == lane_phase::awaited && !vm_done())
        return deadline::attach;
    // A VM that only half-closed waits for a slow peer as long as it likes.
    const bool failed = handshake == handshake_phase::failed || end == peer_end::failed;
    if (!flushed() && (vm_done() || (failed && to_peer)))
        return deadline::stall;
    if (lane != lane_phase::attached && flushed() && vm_done() && !tcp_eof)
        return deadline::linger;
    return deadline::none;
}

} // namespace etls::conn
