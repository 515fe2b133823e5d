#include "tls/alpn.hpp"

namespace etls::tls {

result<std::string> encode_alpn(const std::vector<std::string>& names, std::string option)
{
    std::string list;
    for (const auto& name : names) {
        if (name.empty() || name.size() > 255)
            return failure{option_error{std::move(option), "bad_protocol_name", {}}};
        list += static_cast<char>(name.size());
        list += name;
    }
    if (list.size() > 65535)
        return failure{option_error{std::move(option), "too_long", {}}};
    return list;
}

} // namespace etls::tls
