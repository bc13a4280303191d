#include "deploy/baton/fault_cluster.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "deploy/baton/json_fields.h"

namespace baton::cli {
namespace {

constexpr Duration kReadyLimit = 120s;
constexpr Duration kStopLimit = 40s;
constexpr Duration kPoll = 20ms;
constexpr Duration kStatusTimeout = 2s;

// Prompts go to prefill workers, so that there is always a hand-over to hurt.
constexpr const char* kTwoAndTwo =
    "router: {local_prefill: never}\n"
    "prefill:\n"
    "  - {name: p0, kv_cache: 400blocks}\n"
    "  - {name: p1, kv_cache: 400blocks}\n"
    "decode:\n"
    "  - {name: d0, kv_cache: 400blocks}\n"
    "  - {name: d1, kv_cache: 400blocks}\n";

Status system_error(const std::string& what) {
  return unavailable(what + ": " + std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<FaultCluster>> FaultCluster::start(const FaultBenchOptions& options,
                                                          const std::string& transport,
                                                          const std::string& bin_folder) {
  std::error_code error;
  std::string folder =
      std::filesystem::temp_directory_path(error).string() + "/baton-faults-XXXXXX";
  if (error || mkdtemp(folder.data()) == nullptr) {
    return system_error("a folder for the cluster");
  }
  std::unique_ptr<FaultCluster> cluster(new FaultCluster(folder));
  BATON_RETURN_IF_ERROR(cluster->launch(options, transport, bin_folder));
  const Status status = cluster->wait_ready();
  if (!status.ok()) {
    (void)cluster->log().read();
    return unavailable(status.message() + "; its log ends with\n" + cluster->log().last_lines());
  }
  return cluster;
}

FaultCluster::~FaultCluster() {
  up_.reset();  // its children die with it
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Status FaultCluster::launch(const FaultBenchOptions& options, const std::string& transport,
                            const std::string& bin_folder) {
  std::string file = options.config;
  if (file.empty()) {
    file = folder_ + "/cluster.yaml";
    std::ofstream(file) << kTwoAndTwo;
  }
  const std::string log = folder_ + "/log";
  std::vector<std::string> argv = {bin_folder + "/baton",
                                   "up",
                                   file,
                                   "--port",
                                   "0",
                                   "--log-format",
                                   "json",
                                   "--log-level",
                                   "info",
                                   "--ready-file",
                                   folder_ + "/ready",
                                   "--set",
                                   "transfer.transports=" + transport};
  if (!options.model.empty()) {
    argv.insert(argv.end(), {"--model", options.model});
  }
  const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    return system_error(log);
  }
  Result<ChildProcess> started = ChildProcess::start(argv, fd);
  close(fd);
  BATON_RETURN_IF_ERROR(started.status());
  up_ = std::make_unique<ChildProcess>(std::move(*started));
  log_ = std::make_unique<LogTail>(log);
  return Status();
}

Status FaultCluster::wait_ready() {
  const SteadyClock clock;
  const TimePoint until = clock.now() + kReadyLimit;
  while (clock.now() < until) {
    if (const std::optional<ChildExit> exit = up_->try_reap()) {
      return unavailable("the cluster did not start: " + exit->to_text());
    }
    std::ostringstream text;
    text << std::ifstream(folder_ + "/ready").rdbuf();
    const Result<boost::json::object> ready = parse_object(text.str());
    if (ready.ok()) {
      url_ = text_of(*ready, "url");
      router_ = std::make_unique<RouterClient>(ServerAccess{url_, ""}, kStatusTimeout);
      return Status();
    }
    std::this_thread::sleep_for(kPoll);
  }
  return deadline_exceeded("the cluster was not ready in time");
}

std::vector<WorkerStatus> FaultCluster::ready_workers() {
  Result<ClusterStatus> status = router_->status();
  if (!status.ok()) {
    return {};
  }
  std::erase_if(status->workers,
                [](const WorkerStatus& worker) { return worker.state != "ready"; });
  return std::move(status->workers);
}

Status FaultCluster::stop() {
  const SteadyClock clock;
  const TimePoint until = clock.now() + kStopLimit;
  up_->signal(SIGTERM);
  while (clock.now() < until) {
    if (const std::optional<ChildExit> exit = up_->try_reap()) {
      return exit->signalled || exit->code != 0
                 ? internal_error("the cluster ended with " + exit->to_text())
                 : Status();
    }
    std::this_thread::sleep_for(kPoll);
  }
  return deadline_exceeded("the cluster did not stop in time");
}

}  // namespace baton::cli
