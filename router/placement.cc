#include "router/placement.h"

#include <algorithm>

namespace baton::router {
namespace {

constexpr double kAssumedRate = 1000;          // tokens a second
constexpr double kAssumedBandwidth = 1e9;      // bytes a second
constexpr double kNoBlocksPenaltyMs = 10'000;  // a full pool: its next free block is far

// A measurement as a worker sent it, inside what makes sense; `assumed` when there is none.
double measured(double value, double low, double high, double assumed) {
  return value > 0 ? std::clamp(value, low, high) : assumed;
}

double rate(const WorkerState& worker) {
  return measured(worker.load.prefill_tokens_per_s, 1, 1e9, kAssumedRate);
}

int hit_tokens(const WorkerState& worker, const PlacementRequest& request) {
  for (const PrefixChain& chain : request.chains) {
    if (static_cast<int>(worker.info.block_tokens) == chain.block_tokens) {
      const int hit = worker.prefixes.leading(chain.hashes) * chain.block_tokens;
      return std::min(hit, static_cast<int>(request.tokens.size()) - 1);
    }
  }
  return 0;
}

double queue_ms(const WorkerState& worker) {
  const double tokens = std::max<double>(worker.load.waiting_tokens,
                                         static_cast<double>(worker.assigned_prompt_tokens));
  return tokens / rate(worker) * 1e3;
}

// Waiting for blocks, and the growth of every step by the streams that are there.
double decode_ms(const WorkerState& worker, const PlacementRequest& request) {
  const auto block = static_cast<double>(std::max(1u, worker.info.block_tokens));
  const double wanted = static_cast<double>(request.tokens.size()) / block + request.choices;
  const double free = worker.load.blocks_free;
  const double running = std::max<double>(worker.load.running + worker.load.waiting,
                                          static_cast<double>(worker.assigned_choices));
  const double step = measured(worker.load.decode_step_ms, 1, 1e6, 1);
  return (wanted > free ? kNoBlocksPenaltyMs : 0.0) + running * step * 0.1;
}

// A worker and what the request would cost there, computed once.
struct Candidate {
  WorkerState* worker = nullptr;
  size_t order = 0;  // by name
  int uncached = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  double cost = 0;
};

std::vector<Candidate> candidates(const std::vector<WorkerState*>& workers,
                                  const PlacementRequest& request) {
  std::vector<Candidate> out;
  out.reserve(workers.size());
  for (WorkerState* worker : workers) {
    Candidate candidate;
    candidate.worker = worker;
    candidate.order = out.size();
    candidate.uncached = static_cast<int>(request.tokens.size()) - hit_tokens(*worker, request);
    candidate.prefill_ms = queue_ms(*worker) + candidate.uncached / rate(*worker) * 1e3;
    candidate.decode_ms = decode_ms(*worker, request);
    out.push_back(candidate);
  }
  return out;
}

double transfer_tail_ms(const WorkerState& prefill, const Candidate& decode, double compute_ms) {
  const double bandwidth =
      measured(prefill.load.transfer_bytes_per_s, 1e3, 1e15, kAssumedBandwidth);
  const double total = std::max(0, decode.uncached) *
                       static_cast<double>(decode.worker->info.kv_bytes_per_token) / bandwidth *
                       1e3;
  return std::max(total - compute_ms, total * 0.02);
}

// Best first; ties keep the order of names.
template <typename Cost>
void sort_by_cost(std::vector<Candidate>& workers, const Cost& cost) {
  for (Candidate& worker : workers) {
    worker.cost = cost(worker);
  }
  std::sort(workers.begin(), workers.end(), [](const Candidate& a, const Candidate& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.order < b.order;
  });
}

const Candidate& cheapest_prefill(std::vector<Candidate>& workers) {
  sort_by_cost(workers, [](const Candidate& worker) { return worker.prefill_ms; });
  return workers[0];
}

constexpr double kLocalAdvantage = 0.7;

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
  std::vector<Candidate> receivers = candidates(decodes, request);
  sort_by_cost(receivers,
               [](const Candidate& worker) { return worker.prefill_ms + worker.decode_ms; });
  const Candidate local_best = receivers[0];
  Placement local;
  local.local = true;
  local.decision = "local";
  local.decodes = {local_best.worker};
  local.predicted_ttft_ms = local_best.prefill_ms;
  if (!may_remote || prefills.empty()) {
    local.reason = request.needs_local ? "moved" : !may_remote ? "always" : "no_prefill_worker";
    return local;
  }

  std::vector<Candidate> senders = candidates(prefills, request);
  const Candidate& sender = cheapest_prefill(senders);
  sort_by_cost(receivers, [&sender](const Candidate& worker) {
    return transfer_tail_ms(*sender.worker, worker, sender.prefill_ms) + worker.decode_ms;
  });
  Placement remote;
  remote.decision = "remote";
  remote.prefill = sender.worker;
  remote.predicted_ttft_ms = sender.prefill_ms;
  for (size_t i = 0; i < receivers.size() && i < kMaxDecodes; ++i) {
    remote.decodes.push_back(receivers[i].worker);
  }
  if (!may_local) {
    remote.reason = "never";
    return remote;
  }
  if (local_best.uncached <= kShortPrompt) {
    if (queue_ms(*local_best.worker) > queue_ms(*sender.worker) + kShortPromptQueueMs) {
      remote.reason = "decode_queue";
      return remote;
    }
    const bool hit = local_best.uncached < static_cast<int>(request.tokens.size());
    local.reason = hit ? "prefix_on_decode" : "short_prompt";
    return local;
  }
  // A long prompt's chunks slow every stream of the decode worker down, those too that come while
  // it runs: it goes there only when nobody streams and its second token comes clearly sooner.
  const double remote_total =
      sender.prefill_ms + transfer_tail_ms(*sender.worker, receivers[0], sender.prefill_ms);
  const bool undisturbed =
      local_best.worker->load.running == 0 && local_best.worker->assigned_choices == 0;
  if (undisturbed && local.predicted_ttft_ms < kLocalAdvantage * remote_total) {
    local.reason = "faster";
    return local;
  }
  remote.reason = undisturbed ? "long_prompt" : "streams_running";
  return remote;
}

}  // namespace baton::router
