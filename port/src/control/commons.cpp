#include "control/commons.hpp"

#include "base/limits.hpp"
#include "base/log.hpp"

#include <random>
#include <utility>

namespace etls::control {

commons::commons(boost::asio::io_context& where, net::io_threads& all)
    : context{where},
      threads{all},
      resolvers{limits::resolver_threads},
      last_number_{std::random_device{}() % (1U << 26U)}
{
}

commons::~commons()
{
    resolvers.stop();
}

std::optional<failure> commons::open()
{
    auto made = lane::local_lane_acceptor::open(
        context, [this](const lane::token& shown, net::unique_fd fd) { lane_arrived(shown, std::move(fd)); });
    if (!made)
        return made.error();
    acceptor_ = std::move(*made);
    return std::nullopt;
}

void commons::close()
{
    acceptor_->close();
}

lane::token commons::expect_lane(std::function<void(net::unique_fd)> arrival)
{
    const auto token = lane::make_token();
    expected_.emplace(token, std::move(arrival));
    return token;
}

void commons::forget_lane(const lane::token& token)
{
    expected_.erase(token);
}

void commons::lane_arrived(const lane::token& shown, net::unique_fd fd)
{
    const auto at = expected_.find(shown);
    if (at == expected_.end()) {
        log::debug("lane: a token that nobody waits for");
        return;
    }
    const auto arrival = std::move(at->second);
    expected_.erase(at);
    arrival(std::move(fd));
}

} // namespace etls::control
