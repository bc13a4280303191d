#include "kv_transfer/transports/ucx/ucx_status.h"

#include <string>

namespace baton::kv_transfer {

Status from_ucx(ucs_status_t status, std::string_view what) {
  if (status == UCS_OK) {
    return Status();
  }
  const std::string text = std::string(what) + ": " + ucs_status_string(status);
  switch (status) {
    case UCS_ERR_REJECTED:
      return invalid_argument(text);
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return resource_exhausted(text);
    // Which code a dead peer gives differs between transports and versions.
    case UCS_ERR_CANCELED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_TIMED_OUT:
      return worker_lost(text);
    default:
      return internal_error(text);
  }
}

}  // namespace baton::kv_transfer
