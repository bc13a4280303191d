#include "router/open_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/base/log.h"

namespace baton::router {
namespace {

constexpr uint64_t kOtherFiles = 128;
constexpr uint64_t kPerRefused = 8;  // connections for each that is just being refused

}  // namespace

OpenFiles plan_open_files(uint64_t limit, uint64_t most, uint64_t wanted_connections) {
  const uint64_t wanted = kOtherFiles + wanted_connections + wanted_connections / kPerRefused + 1;
  OpenFiles plan;
  plan.limit = std::max(limit, std::min(most, wanted));
  const uint64_t left = plan.limit > kOtherFiles ? plan.limit - kOtherFiles : plan.limit / 2;
  plan.connections =
      std::min(wanted_connections, std::max<uint64_t>(1, left * kPerRefused / (kPerRefused + 1)));
  return plan;
}

uint64_t allow_connections(uint64_t wanted) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
    return wanted;
  }
  const OpenFiles plan = plan_open_files(files.rlim_cur, files.rlim_max, wanted);
  if (plan.limit > files.rlim_cur) {
    files.rlim_cur = plan.limit;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
      log_warn("cannot raise the limit of open files", {{"wanted", plan.limit}});
    }
  }
  if (plan.connections < wanted) {
    log_warn("fewer connections than router.max_connections fit the limit of open files",
             {{"connections", plan.connections},
              {"wanted", wanted},
              {"limit", plan.limit},
              {"remedy", "raise ulimit -Hn, or lower router.max_connections"}});
  }
  return plan.connections;
}

}  // namespace baton::router
