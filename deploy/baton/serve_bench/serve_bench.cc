#include "deploy/baton/serve_bench/serve_bench.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/stop_signal.h"
#include "common/config/program_options.h"
#include "deploy/baton/router_client.h"
#include "deploy/baton/serve_bench/bench_session.h"
#include "deploy/baton/serve_bench/http_port.h"
#include "deploy/baton/serve_bench/progress.h"
#include "deploy/baton/serve_bench/trace.h"

namespace baton::serve_bench {
namespace {

constexpr int kExitInterrupted = 130;
// Beside connections: standard streams, epoll, timer, signals, and what libraries hold.
constexpr rlim_t kOtherFiles = 64;

// Ctrl-C as something that a loop can ask about; stays set.
class StopSignal {
 public:
  StopSignal() : fd_(block_stop_signals()) {}
  ~StopSignal() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  bool came() {
    came_ = came_ || take_stop_signal(fd_);
    return came_;
  }

 private:
  const int fd_;
  bool came_ = false;
};

double process_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The usual soft limit of 1,024 open files is below what an overloaded server's queue needs.
Status allow_connections(int connections) {
  rlimit limit{};
  const rlim_t wanted = static_cast<rlim_t>(connections) + kOtherFiles;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
    return Status();
  }
  if (limit.rlim_max < wanted) {
    return invalid_argument("--max-connections " + std::to_string(connections) +
                            " is above what this process may open (" +
                            std::to_string(limit.rlim_max) +
                            " files); raise ulimit -n or lower it");
  }
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
  return Status();
}

Result<Report> measure(const ServeBenchOptions& options, const std::string& key, StopSignal& stop) {
  BATON_RETURN_IF_ERROR(allow_connections(options.max_connections));
  std::vector<PlannedRequest> trace;
  if (!options.trace.empty()) {
    BATON_ASSIGN_OR_RETURN(trace, read_trace(options.trace));
  }
  BATON_ASSIGN_OR_RETURN(const ApiUrl url, split_api_url(options.url));
  const http::TlsTrust trust = cli::trust_in(options.cacert);
  ServerSetup setup;
  setup.api = url.api;
  setup.dialect.chat = options.endpoint == "chat";
  setup.dialect.model = options.model;
  if (options.model.empty()) {
    BATON_ASSIGN_OR_RETURN(setup.dialect.model, first_model(options.url, key, trust));
  }
  const SteadyClock clock;
  SystemRandom random;
  ProgressBar bar;
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<HttpPort> port,
                         HttpPort::create(url.server, key, options.max_connections, clock, trust));
  BenchSession session(options, setup, std::move(trace),
                       {.port = *port,
                        .random = random,
                        .stopped = [&stop] { return stop.came(); },
                        .show = [&bar](const std::string& line) { bar.show(line); },
                        // A script reads the probes in the JSON object.
                        .say =
                            [&bar, quiet = options.json](const std::string& line) {
                              bar.clear();
                              if (!quiet || bar.on_terminal()) {
                                std::fprintf(stderr, "%s\n", line.c_str());
                              }
                            },
                        .cpu_s = process_cpu_s});
  Result<Report> report = session.run();
  return report.ok() ? std::move(report) : report.status().with_context(options.url);
}

void print_error(const std::string& message) {
  std::fprintf(stderr, "baton: %s\n", message.c_str());
}

}  // namespace

int run_serve_bench(const ServeBenchOptions& options, const std::string& api_key) {
  if (const Status status = check_options(options); !status.ok()) {
    print_error(status.message());
    return config::kExitUsage;
  }
  StopSignal stop;
  const Result<Report> report = measure(options, api_key, stop);
  if (!report.ok()) {
    if (report.status().code() == StatusCode::kCancelled) {
      return kExitInterrupted;
    }
    print_error(report.status().message());
    return config::kExitCannotStart;
  }
  std::printf("%s",
              options.json ? (report_json(*report) + "\n").c_str() : report_text(*report).c_str());
  std::fflush(stdout);
  if (report->measurement.interrupted) {
    return kExitInterrupted;
  }
  const Summary& summary = report->measurement.summary;
  if (summary.failed > 0 && summary.completed == 0) {
    print_error(failures_text(summary));
    return config::kExitCannotStart;
  }
  return config::kExitStopped;
}

}  // namespace baton::serve_bench
