#include "deploy/baton/up.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/log.h"
#include "common/base/stop_signal.h"
#include "common/config/effective.h"
#include "common/config/program_options.h"
#include "common/device/step_table.h"
#include "deploy/baton/first_answer.h"
#include "deploy/baton/first_checks.h"
#include "deploy/baton/liveness_watch.h"
#include "deploy/baton/ready_file.h"
#include "deploy/baton/router_client.h"

namespace baton::cli {
namespace {

constexpr int kExitKilled = 130;
constexpr int kPortTries = 3;
constexpr Duration kDrainSlack = 5s;  // a program's own drain limit ends first
constexpr Duration kPollTimeout = 500ms;
constexpr Duration kAnswerTimeout = 120s;

void print_line(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Readiness over HTTP; what happens once everything is ready. The first answer has a thread of its
// own, so that signals and deaths are noticed while it runs.
class UpWatch final : public ClusterWatch {
 public:
  UpWatch(const UpOptions& options, const ClusterPlan& plan, const std::string& api_key,
          int stop_fd, const Clock& clock, device::StepTable* steps)
      : options_(options),
        plan_(plan),
        steps_(steps),
        stop_fd_(stop_fd),
        clock_(clock),
        started_(clock.now()),
        poll_client_(access(plan, api_key), kPollTimeout),
        answer_client_(access(plan, api_key), kAnswerTimeout) {
    if (options.kill_stuck_after_s > 0) {
      liveness_.emplace(
          LivenessWatch::Options{.stuck_after = config::scaled(
                                     plan.config, std::chrono::seconds(options.kill_stuck_after_s)),
                                 .trust = access(plan, api_key).trust},
          clock);
    }
  }
  ~UpWatch() override {
    answer_client_.cancel();  // before the thread is joined
  }

  bool all_ready(std::vector<RunningProgram>& programs) override {
    const Result<ClusterStatus> status = poll_client_.status();
    if (!status.ok()) {
      return false;
    }
    bool all = poll_client_.ready();
    for (RunningProgram& program : programs) {
      if (program.role == config::Role::kRouter) {
        program.metrics_url = plan_.url + "/metrics";
        continue;
      }
      for (const WorkerStatus& worker : status->workers) {
        if (worker.pid == program.pid && worker.state == "ready") {
          program.metrics_url = worker.metrics_url;
        }
      }
      all = all && !program.metrics_url.empty();
    }
    return all;
  }

  void on_ready(const std::vector<RunningProgram>& programs) override {
    if (liveness_) {
      liveness_->set(programs);
    }
    if (!options_.ready_file.empty()) {
      const Status written = write_atomically(options_.ready_file, ready_json(plan_.url, programs));
      if (!written.ok()) {
        log_error(written.message());
      }
    }
    if (std::exchange(announced_, true)) {
      return;
    }
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%.1f s", to_seconds(clock_.now() - started_));
    print_line("ready in " + std::string(seconds) + ": " + plan_.url);
    if (options_.first_answer) {
      answer_ = std::jthread([this] { give_first_answer(); });
    } else {
      print_line("try: " + try_line());
      if (options_.once) {
        request_stop();
      }
    }
  }

  int stuck_fd() const override { return liveness_ ? liveness_->fd() : -1; }
  std::vector<StuckProgram> take_stuck() override {
    return liveness_ ? liveness_->take() : std::vector<StuckProgram>();
  }

  void on_gone(const std::string& name) override {
    // Perhaps in the middle of a step: others could not use its CPUs until it is back.
    const std::optional<int> slot = config::lending_slot(plan_.config, name);
    if (steps_ != nullptr && slot) {
      steps_->release(*slot);
    }
  }

  // After the supervisor has ended.
  bool failed() {
    if (answer_.joinable()) {
      answer_client_.cancel();
      answer_.join();
    }
    return failed_;
  }

 private:
  static ServerAccess access(const ClusterPlan& plan, const std::string& api_key) {
    return {plan.url, api_key, {.own_certificate = plan.config.router.tls_certificate_file}};
  }

  std::string try_line() const {
    return curl_line(plan_.url, plan_.config.model.name,
                     !plan_.config.router.api_keys_file.empty());
  }

  void give_first_answer() {
    // The question comes with the first text: until then the workers log that they meet.
    bool begun = false;
    const auto show = [&begun](std::string_view text) {
      if (!std::exchange(begun, true)) {
        print_line("\n> " + std::string(kFirstQuestion));
      }
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    };
    const Result<RequestPath> path =
        answer_client_.chat(first_answer_body(plan_.config.model.name), show);
    print_line("\n");
    if (path.ok()) {
      print_line(path_line(*path));
      print_line("\ntry: " + try_line());
    } else {
      log_error("the first answer failed", {{"error", path.status().message()}});
      failed_ = true;
    }
    if (options_.once) {
      request_stop();
    }
  }

  void request_stop() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof(one));
  }

  const UpOptions& options_;
  const ClusterPlan& plan_;
  device::StepTable* const steps_;  // nullptr: CPUs are not lent
  const int stop_fd_;
  const Clock& clock_;
  const TimePoint started_;
  bool announced_ = false;
  RouterClient poll_client_;
  RouterClient answer_client_;
  std::optional<LivenessWatch> liveness_;
  bool failed_ = false;  // written by answer_, read after it is joined
  std::jthread answer_;
};

std::string names_of(const std::vector<config::Worker>& workers) {
  std::string names;
  for (const config::Worker& worker : workers) {
    names += (names.empty() ? "" : ", ") + worker.name;
  }
  return names.empty() ? "none" : names;
}

void print_plan(const ClusterPlan& plan) {
  print_line("baton " + config::version_info().version + ": " + plan.config.model.name + " (" +
             plan.config.model.path + ")");
  print_line("  router   " + plan.url);
  print_line("  prefill  " + names_of(plan.config.prefill));
  print_line("  decode   " + names_of(plan.config.decode));
}

// A ready file is there only while the processes that it names are.
class ReadyFileGuard {
 public:
  explicit ReadyFileGuard(const std::string& path) : path_(path) { remove(); }
  ~ReadyFileGuard() { remove(); }
  ReadyFileGuard(const ReadyFileGuard&) = delete;
  ReadyFileGuard& operator=(const ReadyFileGuard&) = delete;

 private:
  void remove() const {
    if (!path_.empty()) {
      std::remove(path_.c_str());
    }
  }
  const std::string& path_;
};

// The table in which the workers say when they compute, so that others may use their CPUs
// meanwhile.
std::optional<device::StepTable> table_for(const ClusterPlan& plan) {
  if (plan.config.workers.lend_cpus != "auto") {
    return std::nullopt;
  }
  Result<device::StepTable> table = device::StepTable::create();
  if (!table.ok()) {
    log_warn("CPUs are not lent", {{"reason", table.status().message()}});
    return std::nullopt;
  }
  return std::move(table).value();
}

// By its path: a worker opens it through this process, whose child it is.
void tell_table(const device::StepTable& table, std::vector<Program>& programs) {
  const std::string path =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(table.fd());
  for (Program& program : programs) {
    if (program.role != config::Role::kRouter) {
      program.argv.insert(program.argv.end(), {"--set", "workers.lend_cpus=" + path});
    }
  }
}

struct StopFds {
  int signals = -1;
  int request = -1;
  StopFds() {
    signals = block_stop_signals();
    request = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  }
  ~StopFds() {
    close(signals);
    close(request);
  }
  StopFds(const StopFds&) = delete;
  StopFds& operator=(const StopFds&) = delete;
};

Result<int> run_cluster(const UpOptions& options, const ClusterPlan& plan, const StopFds& fds,
                        const Clock& clock, bool& try_again) {
  BATON_ASSIGN_OR_RETURN(const std::string api_key,
                         first_api_key(plan.config.router.api_keys_file));
  std::optional<device::StepTable> steps = table_for(plan);
  UpWatch watch(options, plan, api_key, fds.request, clock, steps ? &*steps : nullptr);
  Supervisor::Options supervised;
  supervised.programs = plan.programs;
  if (steps) {
    tell_table(*steps, supervised.programs);
  }
  supervised.signal_fd = fds.signals;
  supervised.stop_request_fd = fds.request;
  supervised.router_drain = plan.config.router.drain + kDrainSlack;
  supervised.worker_drain = plan.config.workers.drain + kDrainSlack;
  supervised.ready_limit =
      config::scaled(plan.config, std::chrono::seconds(options.kill_unready_after_s));
  Supervisor supervisor(std::move(supervised), clock, watch);
  BATON_ASSIGN_OR_RETURN(const Supervisor::Outcome outcome, supervisor.run());
  switch (outcome) {
    case Supervisor::Outcome::kStopped:
      return watch.failed() && options.once ? config::kExitCannotStart : config::kExitStopped;
    case Supervisor::Outcome::kKilled:
      return kExitKilled;
    case Supervisor::Outcome::kCannotStart:
      try_again = plan.chose_ports && ports_were_taken(plan);
      return config::kExitCannotStart;
  }
  return config::kExitFault;
}

Result<int> run(const UpOptions& options, const std::string& bin_folder) {
  const ReadyFileGuard ready_file(options.ready_file);
  const StopFds fds;
  const SteadyClock clock;
  SystemRandom random;
  for (int attempt = 1;; ++attempt) {
    BATON_ASSIGN_OR_RETURN(const ClusterPlan plan, plan_cluster(options, bin_folder, random));
    BATON_ASSIGN_OR_RETURN(const config::Machine machine, config::read_machine());
    BATON_RETURN_IF_ERROR(check_cluster_fits(plan.config, machine, shm_free_bytes()));
    print_plan(plan);
    bool try_again = false;
    BATON_ASSIGN_OR_RETURN(const int exit_status,
                           run_cluster(options, plan, fds, clock, try_again));
    if (!try_again || attempt == kPortTries) {
      return exit_status;
    }
    log_warn("a port was taken meanwhile; starting again with others");
  }
}

}  // namespace

int run_up(const UpOptions& options, const std::string& bin_folder) {
  LogOptions log;
  log.program = "baton";
  const auto set = [&log](const UpOptions& o) -> Status {
    if (!o.log_level.empty()) {
      BATON_ASSIGN_OR_RETURN(log.level, parse_log_level(o.log_level));
    }
    if (!o.log_format.empty()) {
      BATON_ASSIGN_OR_RETURN(log.format, parse_log_format(o.log_format));
    }
    return Status();
  };
  const Status status = set(options);
  if (!status.ok()) {
    std::fprintf(stderr, "baton: %s\n", status.message().c_str());
    return config::kExitUsage;
  }
  init_log(log);
  const Result<int> result = run(options, bin_folder);
  if (!result.ok()) {
    std::fprintf(stderr, "baton: %s\n", result.status().message().c_str());
    return config::kExitCannotStart;
  }
  return *result;
}

}  // namespace baton::cli
