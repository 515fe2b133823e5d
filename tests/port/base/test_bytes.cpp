#define BOOST_TEST_MODULE bytes
#include <boost/test/unit_test.hpp>

#include "base/bytes.hpp"

#include <cstddef>
#include <random>
#include <string>

namespace {

std::string text(etls::byte_view bytes)
{
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

etls::byte_view bytes(const std::string& text)
{
    return std::as_bytes(std::span{text.data(), text.size()});
}

} // namespace

BOOST_AUTO_TEST_CASE(what_goes_in_comes_out_in_order)
{
    etls::byte_buffer buffer;
    BOOST_TEST(buffer.empty());
    buffer.append(bytes("hello "));
    buffer.append(bytes("world"));
    BOOST_TEST(text(buffer.view()) == "hello world");
    buffer.consume(6);
    BOOST_TEST(text(buffer.view()) == "world");
    buffer.consume(1000);
    BOOST_TEST(buffer.empty());
}

BOOST_AUTO_TEST_CASE(the_tail_may_be_written_by_others)
{
    etls::byte_buffer buffer;
    auto tail = buffer.prepare(4);
    BOOST_TEST(tail.size() >= 4u);
    tail[0] = std::byte{'x'};
    buffer.commit(1);
    BOOST_TEST(text(buffer.view()) == "x");
}

BOOST_AUTO_TEST_CASE(a_released_buffer_starts_anew)
{
    etls::byte_buffer buffer;
    buffer.append(bytes("abc"));
    buffer.release();
    BOOST_TEST(buffer.empty());
    buffer.append(bytes("d"));
    BOOST_TEST(text(buffer.view()) == "d");
}

BOOST_AUTO_TEST_CASE(any_mix_of_filling_and_taking_keeps_the_bytes)
{
    std::mt19937 random{20161130};
    etls::byte_buffer buffer;
    std::string model;
    for (int i = 0; i < 20000; ++i) {
        const std::string piece(random() % 300, static_cast<char>('a' + i % 26));
        if (random() % 2 == 0) {
            buffer.append(bytes(piece));
        } else {
            auto tail = buffer.prepare(piece.size());
            std::copy_n(bytes(piece).begin(), piece.size(), tail.begin());
            buffer.commit(piece.size());
        }
        model += piece;
        const auto taken = std::min<std::size_t>(random() % 400, model.size());
        buffer.consume(taken);
        model.erase(0, taken);
        BOOST_REQUIRE_EQUAL(buffer.size(), model.size());
        BOOST_REQUIRE(text(buffer.view()) == model);
    }
}
