#pragma once

// From records to the figures of a run. Percentiles are exact (sorted, nearest rank) but for those
// of the gaps between events, which come from a histogram with 0.5 % error.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "deploy/baton/serve_bench/load_run.h"

namespace baton::serve_bench {

struct Percentiles {
  size_t count = 0;  // nothing below means anything when zero
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double mean = 0;
  double max = 0;
};
Percentiles percentiles(std::vector<double> values);

struct Summary {
  Percentiles ttft_ms;  // from the scheduled arrival, of complete requests
  Percentiles tpot_ms;
  Percentiles itl_ms;
  Percentiles e2e_ms;
  Percentiles client_lag_ms;  // from the scheduled arrival to the moment of sending
  size_t sent = 0;
  size_t completed = 0;
  size_t failed = 0;
  size_t unfinished = 0;     // ended by a stop; in no figure
  size_t attained = 0;       // met both limits
  size_t short_answers = 0;  // complete with fewer tokens than asked for
  double attainment = 0;     // share of completed + failed
  double window_s = 0;       // that rates of requests are of
  double elapsed_s = 0;      // from the start to the last answer
  double goodput_rps = 0;
  double completed_rps = 0;
  double output_tokens_per_s = 0;
  int64_t prompt_tokens = 0;  // where the server counted them
  int64_t output_tokens = 0;
  double prompt_tokens_mean = 0;
  double output_tokens_mean = 0;
  double tokens_per_event = 0;
  bool counted_by_server = false;  // the tokens of all complete answers
  bool client_late = false;        // p99 of the lag above 10 ms: the client itself was too slow
  std::map<std::string, Failures> failures;
};

// `window` is that of the arrivals; zero takes the time to the last answer.
Summary summarize(const RunOutcome& run, const Slo& slo, Duration window);

// "all 20 requests failed: 20 x http_503 (no worker is ready)".
std::string failures_text(const Summary& summary);

}  // namespace baton::serve_bench
