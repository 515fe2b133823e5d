#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

/// Every bound of the daemon, in one place: its unit, why it is so, and what trips it.
namespace etls::limits {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// One frame on the link, bytes. The largest honest frame carries a CA bundle (~250 KB); more is a broken peer.
constexpr std::size_t frame_bytes = 16 * 1024 * 1024;

/// Nesting of a term. The protocol's own deepest is 5.
constexpr int term_depth = 32;

/// An echoed `Id` or `Subject`, bytes encoded. The VM's take about 30.
constexpr std::size_t echoed_term_bytes = 256;

/// Frames waiting for a VM that does not read its port, bytes. A healthy VM leaves it at 0.
constexpr std::size_t link_backlog_bytes = 64 * 1024 * 1024;

/// What one side of a link lane may send before the other grants more, bytes: a stuck reader costs its VM or us so much.
/// Told in the reply to `attach`.
constexpr std::size_t lane_window_bytes = 512 * 1024;

/// Plaintext in one data term, bytes: small enough that a tick never waits long behind it.
constexpr std::size_t lane_data_bytes = 64 * 1024;

/// Credit that a VM may pile up, bytes. Beyond this a number is not a window any more.
constexpr std::uint64_t lane_credit_bytes = 1024 * 1024 * 1024;

/// Bytes waiting for the VM on the link from which on data terms wait at their lanes; requests are still answered.
constexpr std::size_t link_data_bytes = 1024 * 1024;

/// Threads in which nodes shake hands with a C-node; one that dawdles holds one of them.
constexpr std::size_t handshake_threads = 16;

/// A read or write of a node's handshake, which has four. Erlang's own limit (net_setuptime) is 7 s for all of it.
constexpr milliseconds node_handshake_time{3'000};

/// At the end, for nodes in the middle of their handshake.
constexpr milliseconds handshakes_end_time{300};

/// Kernel queue of nodes that connect.
constexpr int node_backlog = 64;

/// An answer of epmd, which is on this host.
constexpr milliseconds epmd_time{2'000};

/// An epmd just started takes some milliseconds to listen.
constexpr int epmd_tries = 40;
constexpr milliseconds epmd_pause{50};

/// Between two attempts to register again with an epmd that has gone.
constexpr seconds epmd_retry{2};

/// Log lines told over the link per second; what is over is counted and told as one line.
constexpr int log_lines_per_second = 200;

/// Descriptors told of by one epoll_wait(2).
constexpr std::size_t events_at_once = 128;

/// An I/O thread with a timer sleeps no longer than this at a time; any value that fits epoll_wait(2) would do.
constexpr milliseconds longest_sleep{60'000};

/// Read at once from a TCP socket or lane, bytes. Larger reads did not pay (DESIGN.md, 2); held per I/O thread.
constexpr std::size_t read_bytes = 256 * 1024;

/// Read at once from a lane, bytes: half of the above, so that its ciphertext fits the TCP send buffer more often.
constexpr std::size_t lane_read_bytes = 128 * 1024;

/// Ciphertext that waits for a peer before it is no longer read from, bytes: beyond all that an honest one can cause
/// (held plaintext and one read from the lane), so that it trips only those who provoke answers and do not take them.
constexpr std::size_t unread_answers_bytes = 2 * 1024 * 1024;

/// Kernel buffer for what goes to the VM on one lane, bytes. Measured in bulk: 1 MiB is slower by a tenth, because
/// what the VM reads then has left the cache.
constexpr int lane_buffer_bytes = 256 * 1024;

/// Lanes that have connected and not yet shown their token.
constexpr std::size_t lanes_unproven = 4096;

/// From connecting a lane to its token, and from a token told to its lane. Healthy: microseconds.
constexpr seconds lane_attach_time{10};

/// A graceful close that makes no progress for so long is given up, unless the VM says otherwise.
constexpr milliseconds close_stall_time{30'000};

/// After our FIN we read on for so long, so that what the peer has in flight does not turn our last bytes into a RST.
constexpr milliseconds linger_time{2'000};

/// From the end of the link to the end of the daemon: the time the connections have to say goodbye.
constexpr milliseconds stop_time{600};

/// Threads that resolve host names; a slow name server holds one each.
constexpr std::size_t resolver_threads = 16;

/// Pause of an acceptor that met a passing kernel error (no descriptors, no memory).
constexpr milliseconds accept_pause{100};

/// Kernel queue of lanes to accept.
constexpr int lane_backlog = 4096;

} // namespace etls::limits
