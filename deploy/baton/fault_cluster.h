#pragma once

// The cluster that `baton bench faults` hurts: a `baton up` of its own, in a folder of its own,
// with a log that is read.

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "deploy/baton/child_process.h"
#include "deploy/baton/fault_log.h"
#include "deploy/baton/router_client.h"

namespace baton::cli {

struct FaultBenchOptions {
  int faults = 40;
  std::string config;     // empty: two prefill and two decode workers
  std::string model;      // empty: that of the configuration
  std::string transport;  // empty: ucx-posix, then ucx-tcp
  uint64_t seed = 1;
  bool json = false;
};

class FaultCluster {
 public:
  // Until it can answer. `bin_folder` is where the programs lie.
  static Result<std::unique_ptr<FaultCluster>> start(const FaultBenchOptions& options,
                                                     const std::string& transport,
                                                     const std::string& bin_folder);
  ~FaultCluster();
  FaultCluster(const FaultCluster&) = delete;
  FaultCluster& operator=(const FaultCluster&) = delete;

  const std::string& url() const { return url_; }
  // Of workers that take requests; empty while the router does not answer.
  std::vector<WorkerStatus> ready_workers();
  LogTail& log() { return *log_; }
  // Drains, as Ctrl-C does.
  Status stop();

 private:
  explicit FaultCluster(std::string folder) : folder_(std::move(folder)) {}
  Status launch(const FaultBenchOptions& options, const std::string& transport,
                const std::string& bin_folder);
  Status wait_ready();

  const std::string folder_;
  std::string url_;
  std::unique_ptr<ChildProcess> up_;
  std::unique_ptr<LogTail> log_;
  std::unique_ptr<RouterClient> router_;
};

}  // namespace baton::cli
