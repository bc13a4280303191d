#pragma once

// One `baton bench serve` on one server: set-up, warm-up, then one measurement or a search. Owns no
// connection and no clock, so that tests drive it against a simulated server.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "deploy/baton/serve_bench/completion_port.h"
#include "deploy/baton/serve_bench/options.h"
#include "deploy/baton/serve_bench/report.h"
#include "deploy/baton/serve_bench/server_setup.h"

namespace baton::serve_bench {

// What a session borrows.
struct SessionSurroundings {
  CompletionPort& port;
  Random& random;                                // of what makes prompts new
  std::function<bool()> stopped;                 // Ctrl-C came
  std::function<void(const std::string&)> show;  // the progress line
  std::function<void(const std::string&)> say;   // a line that stays: a probe's result
  std::function<double()> cpu_s;                 // of this process so far
};

class BenchSession {
 public:
  // `setup` comes with api and model; `trace` is empty unless --trace was given.
  BenchSession(const ServeBenchOptions& options, ServerSetup setup,
               std::vector<PlannedRequest> trace, SessionSurroundings around);

  // kCancelled when it was stopped before there was anything to report; else errors of the server
  // that leave nothing to measure.
  Result<Report> run();

 private:
  Status warm_up();
  Result<Measurement> measure(double load);
  LoadSpec spec_for(double load, Measurement& m) const;
  void plan_arrivals(double load, LoadSpec& spec, Measurement& m) const;
  Status search();
  double start_load() const;

  const ServeBenchOptions options_;
  const std::vector<PlannedRequest> trace_;
  SessionSurroundings around_;
  ServerProbe probe_;
  Report report_;
};

}  // namespace baton::serve_bench
