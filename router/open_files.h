#pragma once

// Every connection of a client is an open file, of which a process may have so many only.

#include <cstdint>

namespace baton::router {

struct OpenFiles {
  uint64_t limit = 0;        // to be set; never below what it is
  uint64_t connections = 0;  // of clients that fit: at most as many as are wanted
};
// `limit` may be raised to `most`. Some files are left for workers, logs, and connections that are
// refused.
OpenFiles plan_open_files(uint64_t limit, uint64_t most, uint64_t wanted_connections);

// Raises the limit of this process as far as needed, and says in the log when it does not do. The
// number of connections that fit.
uint64_t allow_connections(uint64_t wanted);

}  // namespace baton::router
