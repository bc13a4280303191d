#pragma once

// UCX's codes as Status, in one place.

#include <ucs/type/status.h>

#include <string_view>

#include "common/base/status.h"

namespace baton::kv_transfer {

// OK for UCS_OK; worker_lost for everything that means a dead or closed peer, invalid_argument for
// a rejection by the receiver, else internal. `what` says which call.
Status from_ucx(ucs_status_t status, std::string_view what);

}  // namespace baton::kv_transfer
