#pragma once

// What a router tells of its cluster at /baton/status (docs/api.md), as values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace baton::cli {

// Of the last seconds; empty where nothing ran, or where the router does not tell.
struct WorkerLoad {
  std::optional<double> prefill_tokens_per_s{};
  std::optional<double> prefill_roofline_share{};  // that its steps reach, 0..1
  std::optional<double> decode_tokens_per_s{};
  std::optional<double> decode_roofline_share{};
  std::optional<double> batch_mean{};  // sequences of a decode step
  std::optional<double> preemptions{};
  std::optional<double> prefix_hit_ratio{};
  std::optional<double> step_ms_p50{};
  std::optional<double> queued_tokens{};
};
struct WorkerStatus {
  std::string name{};
  std::string role{};
  std::string state{};
  std::string incarnation{};
  std::string metrics_url{};
  int64_t pid = 0;
  int64_t blocks_total = 0;
  int64_t blocks_free = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t tensor_parallel = 1;
  WorkerLoad load{};
};
struct LinkStatus {
  std::string from{};
  std::string to{};
  std::string transport{};
};

struct Percentiles {
  std::optional<double> p50{};
  std::optional<double> p90{};
  std::optional<double> p99{};
};
// The requests of the last `window_s` seconds.
struct ClusterLoad {
  double window_s = 0;
  int64_t requests = 0;
  double requests_per_s = 0;
  Percentiles ttft_ms{};
  Percentiles tpot_ms{};
  Percentiles queue_ms{};
  Percentiles prefill_ms{};
  Percentiles transfer_visible_ms{};
  Percentiles second_token_gap_ms{};
  int64_t waiting = 0;
  int64_t running = 0;
  int64_t decided_remote = 0;
  int64_t decided_local = 0;
  int64_t moved = 0;
  int64_t failed = 0;
};

struct ClusterStatus {
  std::vector<WorkerStatus> workers;  // prefill before decode, then by name
  std::vector<LinkStatus> links;
  std::optional<ClusterLoad> load;
  std::string json;  // as the router sent it
};

// kInternal when `json` is no status.
Result<ClusterStatus> parse_status(const std::string& json);

}  // namespace baton::cli
