#pragma once

// What `baton up` checks before it starts anything: whether this machine can hold the cluster.

#include <cstdint>

#include "common/base/status.h"
#include "common/config/config.h"
#include "common/config/effective.h"

namespace baton::cli {

// The model can be read and served; weights, KV pools and the rest of all programs fit the memory
// that is available to this process; shared memory for the transfers fits `shm_free_bytes`. One
// line that says what is wrong otherwise.
Status check_cluster_fits(const config::Config& config, const config::Machine& machine,
                          uint64_t shm_free_bytes);

// Free space of /dev/shm; 0 without one.
uint64_t shm_free_bytes();

}  // namespace baton::cli
