#pragma once

// A cluster's status for people.

#include <string>

#include "deploy/baton/status_data.h"

namespace baton::cli {

// Workers, what they did lately (when the router tells), links, and the diagnosis.
std::string status_table(const ClusterStatus& status);

}  // namespace baton::cli
