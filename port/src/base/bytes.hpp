#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace etls {

using byte_view = std::span<const std::byte>;

/// A growable run of bytes, filled at the back and taken from the front.
///
///     | taken | size() bytes to take | room() bytes to fill |
///
/// Unlike std::vector it does not zero what it grows by, and hands out its tail for others to write into.
class byte_buffer {
public:
    byte_buffer() = default;

    /// The bytes not yet taken.
    [[nodiscard]] byte_view view() const noexcept { return {data_.get() + begin_, size()}; }
    [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
    [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }

    /// At least `n` bytes of uninitialised tail to write into; `commit` what was written.
    [[nodiscard]] std::span<std::byte> prepare(std::size_t n)
    {
        reserve_tail(n);
        return {data_.get() + end_, capacity_ - end_};
    }
    void commit(std::size_t n) noexcept { end_ += n; }

    void append(byte_view bytes)
    {
        if (bytes.empty())
            return;
        reserve_tail(bytes.size());
        std::memcpy(data_.get() + end_, bytes.data(), bytes.size());
        end_ += bytes.size();
    }

    /// Takes `n` bytes from the front.
    void consume(std::size_t n) noexcept
    {
        begin_ += std::min(n, size());
        if (begin_ == end_)
            begin_ = end_ = 0;
    }

    /// Empty, capacity kept.
    void clear() noexcept { begin_ = end_ = 0; }

    /// Empty, memory given back.
    void release() noexcept
    {
        clear();
        data_.reset();
        capacity_ = 0;
    }

    /// Empty buffers only: a capacity beyond `most` is given back, a smaller one kept.
    void release_if_large(std::size_t most) noexcept
    {
        if (empty() && capacity_ > most)
            release();
    }

private:
    void reserve_tail(std::size_t n)
    {
        if (capacity_ - end_ >= n)
            return;
        const std::size_t used = size();
        if (capacity_ >= used + n && begin_ >= used) {
            std::memcpy(data_.get(), data_.get() + begin_, used);
        } else {
            const std::size_t grown = std::max(used + n, capacity_ + capacity_ / 2);
            auto bigger = std::make_unique_for_overwrite<std::byte[]>(grown);
            if (used != 0)
                std::memcpy(bigger.get(), data_.get() + begin_, used);
            data_ = std::move(bigger);
            capacity_ = grown;
        }
        begin_ = 0;
        end_ = used;
    }

    std::unique_ptr<std::byte[]> data_;
    std::size_t capacity_ = 0;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

} // namespace etls
