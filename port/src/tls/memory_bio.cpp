#include "tls/memory_bio.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace etls::tls {

namespace {

memory_channel& channel_of(BIO* bio)
{
    return *static_cast<memory_channel*>(BIO_get_data(bio));
}

int on_read(BIO* bio, char* to, std::size_t room, std::size_t* taken)
{
    BIO_clear_retry_flags(bio);
    auto& input = channel_of(bio).input;
    *taken = std::min(room, input.size());
    if (*taken == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    std::memcpy(to, input.data(), *taken);
    input = input.subspan(*taken);
    return 1;
}

int on_write(BIO* bio, const char* from, std::size_t count, std::size_t* written)
{
    BIO_clear_retry_flags(bio);
    *written = 0;
    auto* output = channel_of(bio).output;
    if (output == nullptr)
        return -1;
    try {
        output->append(std::as_bytes(std::span{from, count}));
    } catch (const std::bad_alloc&) {
        return -1; // no exception may cross OpenSSL's frames
    }
    *written = count;
    return 1;
}

long on_control(BIO*, int command, long, void*)
{
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

bio_method_ptr make_method()
{
    bio_method_ptr method{BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "etls memory")};
    if (!method || BIO_meth_set_read_ex(method.get(), on_read) != 1 ||
        BIO_meth_set_write_ex(method.get(), on_write) != 1 || BIO_meth_set_ctrl(method.get(), on_control) != 1)
        throw std::bad_alloc{};
    return method;
}

} // namespace

bio_ptr make_memory_bio(memory_channel& channel)
{
    static const bio_method_ptr method = make_method();
    bio_ptr bio{BIO_new(method.get())};
    if (!bio)
        throw std::bad_alloc{};
    BIO_set_data(bio.get(), &channel);
    return bio;
}

} // namespace etls::tls
