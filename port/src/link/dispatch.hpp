#pragma once

#include "link/request_decoder.hpp"

#include <string_view>

namespace etls::control {
class controller;
}

namespace etls::link {

class vm_outbox;

/// What a VM says, from its frame to the controller; what makes no sense is answered where it has an Id, and logged.
void dispatch(std::string_view term, control::controller&, vm_outbox&);
void dispatch(message, control::controller&, vm_outbox&);

} // namespace etls::link
