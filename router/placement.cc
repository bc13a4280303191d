#include "router/placement.h"

#include <algorithm>

namespace baton::router {
namespace {

constexpr double kAssumedRate = 1000;          // tokens a second
constexpr double kAssumedBandwidth = 1e9;      // bytes a second
constexpr double kNoBlocksPenaltyMs = 10'000;  // a full pool: its next free block is far

double rate(const WorkerState& worker) {
  return worker.load.prefill_tokens_per_s > 0 ? worker.load.prefill_tokens_per_s : kAssumedRate;
}

int hit_tokens(const WorkerState& worker, const PlacementRequest& request) {
  if (static_cast<int>(worker.info.block_tokens) != request.chain_block_tokens) {
    return 0;  // its hashes are of other blocks
  }
  const int hit = worker.prefixes.leading(request.chain) * request.chain_block_tokens;
  return std::min(hit, static_cast<int>(request.tokens.size()) - 1);
}

double queue_ms(const WorkerState& worker) {
  const double tokens = std::max<double>(worker.load.waiting_tokens,
                                         static_cast<double>(worker.assigned_prompt_tokens));
  return tokens / rate(worker) * 1e3;
}

double prefill_ms(const WorkerState& worker, const PlacementRequest& request) {
  const int uncached = static_cast<int>(request.tokens.size()) - hit_tokens(worker, request);
  return queue_ms(worker) + uncached / rate(worker) * 1e3;
}

// Waiting for blocks, and the growth of every step by the streams that are there.
double decode_ms(const WorkerState& worker, const PlacementRequest& request) {
  const auto block = static_cast<double>(std::max(1u, worker.info.block_tokens));
  const double wanted = static_cast<double>(request.tokens.size()) / block + request.choices;
  const double free = worker.load.blocks_free;
  const double running = std::max<double>(worker.load.running + worker.load.waiting,
                                          static_cast<double>(worker.assigned_choices));
  const double step = std::max(1.0, worker.load.decode_step_ms);
  return (wanted > free ? kNoBlocksPenaltyMs : 0.0) + running * step * 0.1;
}

double transfer_tail_ms(const WorkerState& prefill, const WorkerState& decode,
                        const PlacementRequest& request, double compute_ms) {
  const double bandwidth =
      prefill.load.transfer_bytes_per_s > 0 ? prefill.load.transfer_bytes_per_s : kAssumedBandwidth;
  const int fresh = static_cast<int>(request.tokens.size()) - hit_tokens(decode, request);
  const double total =
      std::max(0, fresh) * static_cast<double>(decode.info.kv_bytes_per_token) / bandwidth * 1e3;
  return std::max(total - compute_ms, total * 0.02);
}

// Best first; ties keep the order of names.
template <typename Cost>
void sort_by_cost(std::vector<WorkerState*>& workers, const Cost& cost) {
  std::stable_sort(
      workers.begin(), workers.end(),
      [&cost](const WorkerState* a, const WorkerState* b) { return cost(*a) < cost(*b); });
}

}  // namespace

Result<Placement> PlacementPolicy::place(const PlacementRequest& request,
                                         const std::vector<WorkerState*>& prefills,
                                         const std::vector<WorkerState*>& decodes) const {
  if (decodes.empty()) {
    return unavailable("no decode worker is ready");
  }
  const bool may_local = mode_ != config::LocalPrefill::kNever || request.needs_local;
  const bool may_remote = mode_ != config::LocalPrefill::kAlways && !request.needs_local;
  if (may_remote && !may_local && prefills.empty()) {
    return unavailable("no prefill worker is ready");
  }
  Placement local;
  local.local = true;
  local.decision = "local";
  local.decodes = decodes;
  sort_by_cost(local.decodes, [&](const WorkerState& worker) {
    return prefill_ms(worker, request) + decode_ms(worker, request);
  });
  const WorkerState& local_best = *local.decodes[0];
  local.predicted_ttft_ms = prefill_ms(local_best, request);
  if (!may_remote || prefills.empty()) {
    local.reason = request.needs_local ? "moved" : !may_remote ? "always" : "no_prefill_worker";
    return local;
  }

  Placement remote;
  remote.decision = "remote";
  remote.decodes = decodes;
  std::vector<WorkerState*> ranked = prefills;
  sort_by_cost(ranked, [&](const WorkerState& worker) { return prefill_ms(worker, request); });
  remote.prefill = ranked[0];
  const double compute_ms = prefill_ms(*remote.prefill, request);
  sort_by_cost(remote.decodes, [&](const WorkerState& worker) {
    return transfer_tail_ms(*remote.prefill, worker, request, compute_ms) +
           decode_ms(worker, request);
  });
  remote.predicted_ttft_ms = compute_ms;
  if (!may_local) {
    remote.reason = "never";
    return remote;
  }
  const int uncached = static_cast<int>(request.tokens.size()) - hit_tokens(local_best, request);
  if (uncached <= kShortPrompt) {
    local.reason = hit_tokens(local_best, request) > 0 ? "prefix_on_decode" : "short_prompt";
    return local;
  }
  // A long prompt's chunks slow every stream of the decode worker down, so it goes there only when
  // nobody streams and its time to the second token is shorter.
  const double remote_total =
      compute_ms + transfer_tail_ms(*remote.prefill, *remote.decodes[0], request, compute_ms);
  const bool undisturbed = local_best.load.running == 0 && local_best.assigned_choices == 0;
  if (undisturbed && local.predicted_ttft_ms < remote_total) {
    local.reason = "faster";
    return local;
  }
  remote.reason = undisturbed ? "faster" : "streams_running";
  return remote;
}

}  // namespace baton::router
