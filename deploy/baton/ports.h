#pragma once

// TCP ports for programs that `baton up` starts. What is free now may be taken a moment later:
// callers are ready to try again.

#include <cstdint>
#include <string>

#include "common/base/random.h"
#include "common/base/status.h"

namespace baton::cli {

// OK when a listener on host:port could be made now. unavailable when the port is in use or may
// not be used; invalid_argument when the host is no address of this machine.
Status check_port(const std::string& host, uint16_t port);

// A free port below the range from which the kernel takes ports for outgoing connections: there, a
// client that dials a listener which is not up yet can connect to itself.
Result<uint16_t> choose_port(const std::string& host, Random& random);

}  // namespace baton::cli
