#include "deploy/baton/fault_bench.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <thread>
#include <utility>

#include "common/base/host_identity.h"
#include "common/base/random.h"
#include "common/base/stop_signal.h"
#include "common/config/program_options.h"
#include "deploy/baton/cluster_plan.h"
#include "deploy/baton/fault_report.h"
#include "deploy/baton/json_fields.h"

namespace baton::cli {
namespace {

constexpr int kExitInterrupted = 130;
constexpr int kClients = 6;
constexpr Duration kPoll = 5ms;
constexpr Duration kStatusPoll = 50ms;
constexpr Duration kSeenLimit = 5s;   // then it was missed
constexpr Duration kBackLimit = 60s;  // a worker that died often is started after a pause

// Nothing when it does not end in time.
std::optional<WallTime> wait_end(const ProcessWatch& process) {
  pollfd fd{process.poll_fd(), POLLIN, 0};
  constexpr auto kLimit = std::chrono::duration_cast<std::chrono::milliseconds>(kSeenLimit);
  return poll(&fd, 1, static_cast<int>(kLimit.count())) == 1
             ? std::optional(std::chrono::system_clock::now())
             : std::nullopt;
}

// Faults of one cluster, one after the other.
class FaultSession {
 public:
  FaultSession(FaultCluster& cluster, FaultLoad& load, std::string transport, uint64_t seed,
               int stop_fd)
      : cluster_(cluster),
        load_(load),
        transport_(std::move(transport)),
        random_(seed),
        stop_fd_(stop_fd) {}

  // Errors are of a cluster that does not come back.
  Result<FaultRun> run(int faults) {
    load_.start(kClients);
    Status status;
    for (int i = 0; i < faults && status.ok(); ++i) {
      status = one(i);
      show_progress(i + 1, faults);
    }
    run_.streams = load_.stop();
    read_log();
    BATON_RETURN_IF_ERROR(status);
    return std::move(run_);
  }

 private:
  // Kill and stop, prefill and decode in turn.
  Status one(int number) {
    const std::string role = number / 2 % 2 == 0 ? "decode" : "prefill";
    BATON_ASSIGN_OR_RETURN(const WorkerStatus victim, choose(role));
    pause(200ms + random_.next() % 600 * 1ms);
    read_log();
    const std::set<std::string> peers = links_.peers_of(victim.name);
    Fault fault{.transport = transport_,
                .kind = number % 2 == 0 ? "kill" : "stop",
                .worker = victim.name,
                .peers = static_cast<int>(peers.size())};
    const bool stops = fault.kind == "stop";
    BATON_ASSIGN_OR_RETURN(const ProcessWatch process,
                           ProcessWatch::open(static_cast<uint32_t>(victim.pid)));
    fault.at = std::chrono::system_clock::now();
    if (kill(static_cast<pid_t>(victim.pid), stops ? SIGSTOP : SIGKILL) != 0) {
      return unavailable(victim.name + " has died by itself");
    }
    if (!stops) {
      fault.ended = wait_end(process);
    }
    fault_ = &fault;
    waiting_for_ = peers;
    wait([&] { return fault.seen_by_router && waiting_for_.empty(); }, kSeenLimit);
    fault_ = nullptr;
    if (stops) {
      kill(static_cast<pid_t>(victim.pid), SIGCONT);
    } else {
      links_.forget(victim.name);
    }
    const Status back = wait_back(victim, stops, fault);
    run_.faults.push_back(std::move(fault));
    return back;
  }

  // A worker of that role, once all are ready, it has a link, and the streams that lived through
  // the fault before are over: after two deaths a stream is tried alone, and waits for that.
  Result<WorkerStatus> choose(const std::string& role) {
    const SteadyClock clock;
    const TimePoint until = clock.now() + kBackLimit;
    while (clock.now() < until) {
      if (stopped()) {
        return cancelled("stopped");
      }
      read_log();
      std::vector<WorkerStatus> workers = cluster_.ready_workers();
      all_ = std::max(all_, workers.size());
      const bool complete = workers.size() == all_ && !load_.runs_since(last_back_);
      std::erase_if(workers, [&](const WorkerStatus& worker) {
        return worker.role != role || worker.pid <= 0 || links_.peers_of(worker.name).empty();
      });
      if (complete && !workers.empty()) {
        return workers[random_.next() % workers.size()];
      }
      std::this_thread::sleep_for(kStatusPoll);
    }
    return deadline_exceeded("no " + role + " worker is ready and linked to others");
  }

  // Another process after a kill, the same after a stop.
  Status wait_back(const WorkerStatus& victim, bool same, Fault& fault) {
    const SteadyClock clock;
    const TimePoint until = clock.now() + kBackLimit;
    while (clock.now() < until) {
      if (stopped()) {
        return cancelled("stopped");
      }
      read_log();
      const std::vector<WorkerStatus> workers = cluster_.ready_workers();
      const bool back = std::any_of(workers.begin(), workers.end(), [&](const WorkerStatus& now) {
        return now.name == victim.name && (now.pid == victim.pid) == same;
      });
      if (back) {
        last_back_ = std::chrono::system_clock::now();
        fault.back = last_back_;
        return Status();
      }
      std::this_thread::sleep_for(kStatusPoll);
    }
    return deadline_exceeded(victim.name + " did not come back");
  }

  template <typename Holds>
  void wait(const Holds& holds, Duration limit) {
    const SteadyClock clock;
    const TimePoint until = clock.now() + limit;
    read_log();
    while (!holds() && clock.now() < until) {
      std::this_thread::sleep_for(kPoll);
      read_log();
    }
  }

  void pause(Duration time) { std::this_thread::sleep_for(time); }

  void read_log() {
    for (const LogLine& line : cluster_.log().read()) {
      take(line);
    }
  }

  void take(const LogLine& line) {
    links_.take(line);
    if (line.message == "run moved") {
      run_.moves.push_back({text_of(line.fields, "request"), line.at});
    }
    if (fault_ == nullptr) {
      return;
    }
    const std::string worker = text_of(line.fields, "worker");
    if (line.message == "worker gone" && worker == fault_->worker && !fault_->seen_by_router) {
      fault_->seen_by_router = line.at;
    }
    const bool peer = line.message == "link closed" &&
                      text_of(line.fields, "peer") == fault_->worker &&
                      waiting_for_.erase(worker) > 0;
    if (peer) {
      fault_->seen_by_peers.push_back(line.at);
    }
  }

  void show_progress(int done, int all) const {
    if (isatty(STDERR_FILENO) != 0) {
      std::fprintf(stderr, "\r%s: %d of %d faults%s", transport_.c_str(), done, all,
                   done == all ? "\n" : "");
    }
  }

  bool stopped() {
    stopped_ = stopped_ || take_stop_signal(stop_fd_);
    return stopped_;
  }

  FaultCluster& cluster_;
  FaultLoad& load_;
  const std::string transport_;
  SeededRandom random_;
  const int stop_fd_;
  bool stopped_ = false;
  size_t all_ = 0;  // workers of the cluster
  WallTime last_back_{};
  LinkView links_;
  Fault* fault_ = nullptr;  // the one that is being watched
  std::set<std::string> waiting_for_;
  FaultRun run_;
};

Status measure_over(const std::string& transport, int faults, const FaultBenchOptions& options,
                    int stop_fd, FaultReport& report) {
  BATON_ASSIGN_OR_RETURN(const std::string folder, own_folder());
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<FaultCluster> cluster,
                         FaultCluster::start(options, transport, folder));
  FaultLoad load(cluster->url(), options.seed);
  BATON_RETURN_IF_ERROR(load.learn());
  FaultSession session(*cluster, load, transport, options.seed, stop_fd);
  BATON_ASSIGN_OR_RETURN(const FaultRun run, session.run(faults));
  add_run(report, run);
  return cluster->stop();
}

Result<FaultReport> measure(const FaultBenchOptions& options, int stop_fd) {
  FaultReport report;
  report.seed = options.seed;
  if (!options.transport.empty()) {
    BATON_RETURN_IF_ERROR(
        measure_over(options.transport, options.faults, options, stop_fd, report));
    return report;
  }
  const int half = options.faults / 2;
  BATON_RETURN_IF_ERROR(measure_over("ucx-posix", options.faults - half, options, stop_fd, report));
  if (half > 0) {
    BATON_RETURN_IF_ERROR(measure_over("ucx-tcp", half, options, stop_fd, report));
  }
  return report;
}

}  // namespace

int run_fault_bench(const FaultBenchOptions& options) {
  const int stop_fd = block_stop_signals();
  const Result<FaultReport> report = measure(options, stop_fd);
  if (stop_fd >= 0) {
    close(stop_fd);
  }
  if (!report.ok()) {
    if (report.status().code() == StatusCode::kCancelled) {
      return kExitInterrupted;
    }
    std::fprintf(stderr, "baton: %s\n", report.status().message().c_str());
    return config::kExitCannotStart;
  }
  std::printf("%s",
              options.json ? (faults_json(*report) + "\n").c_str() : faults_table(*report).c_str());
  return report->good() ? config::kExitStopped : config::kExitCannotStart;
}

}  // namespace baton::cli
