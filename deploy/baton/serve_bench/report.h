#pragma once

// The result as one JSON object and as text.

#include <optional>
#include <string>
#include <vector>

#include "deploy/baton/serve_bench/options.h"
#include "deploy/baton/serve_bench/server_setup.h"
#include "deploy/baton/serve_bench/summary.h"

namespace baton::serve_bench {

// One run under one load.
struct Measurement {
  double load = 0;         // requests a second, speed-up of the trace, or clients
  double offered_rps = 0;  // arrivals a second; 0 in a closed loop
  Summary summary;
  bool interrupted = false;
  bool hopeless = false;  // stopped early: the limits were out of reach
  double client_cpu_s = 0;
  size_t shortened = 0;  // requests of the trace that --max-input or --max-output cut
};

struct SearchReport {
  std::vector<Measurement> probes;
  std::optional<size_t> best;  // index of the highest load that passed
  bool bounded = false;        // a higher load failed
};

struct Report {
  ServeBenchOptions options;
  ServerSetup setup;
  Unmeasured unmeasured;
  Measurement measurement;  // of the search: the best one, else the last
  std::optional<SearchReport> search;
};

// The fields of docs/performance.md, one object, without a line feed.
std::string report_json(const Report& report);
std::string report_text(const Report& report);
// "  4.00 requests/s: attainment 0.93, goodput 3.7 requests/s, TTFT p90 230 ms, TPOT p90 21 ms".
std::string probe_line(const Report& report, const Measurement& probe);
// "4.00 requests/s", "2.00 x the trace", "8 clients".
std::string load_text(const ServeBenchOptions& options, double load);

}  // namespace baton::serve_bench
