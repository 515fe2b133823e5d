#pragma once

#include "base/bytes.hpp"

#include <array>
#include <cstddef>

namespace etls::link {

/// Both links cut their stream alike: a length of 4 bytes, big-endian, and so many bytes (`{packet, 4}` of a port; the
/// distribution protocol after its handshake).
constexpr std::size_t frame_header_bytes = 4;

inline std::size_t frame_size(byte_view head)
{
    std::size_t size = 0;
    for (const auto each : head.first(frame_header_bytes))
        size = size << 8 | std::to_integer<std::size_t>(each);
    return size;
}

inline std::array<std::byte, frame_header_bytes> frame_header(std::size_t size)
{
    std::array<std::byte, frame_header_bytes> head{};
    for (std::size_t i = 0; i < frame_header_bytes; ++i)
        head[frame_header_bytes - 1 - i] = static_cast<std::byte>(size >> (8 * i) & 0xff);
    return head;
}

} // namespace etls::link
