#pragma once

// The flags of `baton bench serve` as a plain struct. docs/operations.md lists them.

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace baton::serve_bench {

struct ServeBenchOptions {
  std::string url = "http://127.0.0.1:8000";
  // What arrives; one of the three. With `search` the rate is where it begins.
  double rate = 0;         // requests a second, Poisson; 0 = not given
  std::string trace;       // a file
  int concurrency = 0;     // clients that each wait for their answer; 0 = not given
  double trace_scale = 1;  // speed-up of the trace
  // What a request asks for; a trace brings its own lengths, limited to the two maxima.
  int input = 300;
  int output = 64;
  double input_spread = 0;  // lengths are uniform within this share of `input`
  double output_spread = 0;
  int max_input = 0;  // 0 = no limit
  int max_output = 0;
  // The limits that a request has to meet.
  double slo_ttft_ms = 1000;
  double slo_tpot_ms = 100;
  // How long.
  double duration_s = 0;  // of arrivals; 0 = 60 unless `requests` is given
  int requests = 0;       // 0 = as many as arrive
  int warmup = 4;         // requests before, not counted
  double request_timeout_s = 120;
  int max_connections = 2048;
  bool search = false;
  // The server.
  std::string endpoint = "completions";  // or "chat"
  std::string model;                     // empty = the first of /v1/models
  std::string api_key_file;
  std::string cacert;  // whom an https:// server is trusted by; empty: the system's authorities
  uint64_t seed = 1;
  bool json = false;
};

inline constexpr double kDefaultDurationS = 60;

// What flags by themselves cannot exclude: exactly one kind of arrivals, positive limits.
// kInvalidArgument names the flag and what would be right.
Status check_options(const ServeBenchOptions& options);

}  // namespace baton::serve_bench
