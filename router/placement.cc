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
  const int64_t reported = int64_t{worker.load.waiting_tokens} - worker.prefilled_since_heard;
  const int64_t tokens = std::max(reported, worker.assigned_prompt_tokens);
  return static_cast<double>(tokens) / rate(worker) * 1e3;
}

double blocks_ms(const WorkerState& worker, const PlacementRequest& request) {
  const auto block = static_cast<double>(std::max(1u, worker.info.block_tokens));
  const auto tokens = static_cast<double>(request.tokens.size());
  const double wanted = tokens / block + request.choices;
  const bool windows_alone = worker.info.window_tokens > 0 && worker.info.blocks_total == 0;
  const bool full = !windows_alone && wanted > worker.load.blocks_free;
  // Of layers with a window a prompt keeps no more than the window and the block that it begins in.
  const double in_window =
      std::min(tokens / block, worker.info.window_tokens / block + 1) + request.choices;
  const bool window = worker.info.window_tokens > 0 && in_window > worker.load.window_blocks_free;
  return full || window ? kNoBlocksPenaltyMs : 0.0;
}

// Of what the decode worker does not have: all that layers without a window need, and the window.
double transfer_bytes(const WorkerState& decode, int uncached) {
  const wire::WorkerInfo& info = decode.info;
  const int tokens = std::max(0, uncached);
  return static_cast<double>(tokens) * info.kv_bytes_per_token +
         static_cast<double>(std::min<int64_t>(tokens, info.window_tokens)) *
             info.window_kv_bytes_per_token;
}

// The growth of every step by the streams that are there.
double slowdown_ms(const WorkerState& worker) {
  const double running = std::max<double>(worker.load.running + worker.load.waiting,
                                          static_cast<double>(worker.assigned_choices));
  return running * measured(worker.load.decode_step_ms, 1, 1e6, 1) * 0.1;
}

// A worker and what the request would cost there, computed once.
struct Candidate {
  WorkerState* worker = nullptr;
  size_t order = 0;  // by name
  int uncached = 0;
  double queue_ms = 0;
  double compute_ms = 0;
  double blocks_ms = 0;
  double slowdown_ms = 0;
  double cost = 0;

  double prefill_ms() const { return queue_ms + compute_ms; }
  double decode_ms() const { return blocks_ms + slowdown_ms; }
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
    candidate.queue_ms = queue_ms(*worker);
    candidate.compute_ms = candidate.uncached / rate(*worker) * 1e3;
    candidate.blocks_ms = blocks_ms(*worker, request);
    candidate.slowdown_ms = slowdown_ms(*worker);
    out.push_back(candidate);
  }
  return out;
}

double transfer_tail_ms(const WorkerState& prefill, const Candidate& decode, double compute_ms) {
  const double bandwidth =
      measured(prefill.load.transfer_bytes_per_s, 1e3, 1e15, kAssumedBandwidth);
  const double total = transfer_bytes(*decode.worker, decode.uncached) / bandwidth * 1e3;
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
  sort_by_cost(workers, [](const Candidate& worker) { return worker.prefill_ms(); });
  return workers[0];
}

constexpr double kLocalAdvantage = 0.7;

// Entered best first; `sender` is null when nothing was to be handed over.
void record_candidates(const std::vector<Candidate>& workers, wire::Role role,
                       const WorkerState* chosen, const Candidate* sender, Placement& out) {
  for (size_t i = 0; i < workers.size() && i < PlacementPolicy::kMaxConsidered; ++i) {
    const Candidate& worker = workers[i];
    CandidateTimes& times = out.considered.emplace_back();
    times.worker = worker.worker->info.name;
    times.role = role;
    times.chosen = worker.worker == chosen;
    times.uncached_tokens = worker.uncached;
    times.queue_ms = worker.queue_ms;
    times.prefill_ms = worker.compute_ms;
    if (role == wire::Role::kDecode) {
      times.blocks_ms = worker.blocks_ms;
      times.slowdown_ms = worker.slowdown_ms;
      times.transfer_ms =
          sender == nullptr ? 0 : transfer_tail_ms(*sender->worker, worker, sender->prefill_ms());
    }
  }
}

// A prompt of so few uncached tokens costs the streams of a decode worker less than one step.
constexpr int kShortPrompt = 64;
// It still goes to a prefill worker when it would wait so much longer on the decode worker.
constexpr double kShortPromptQueueMs = 100;

struct Choice {
  bool local = false;
  std::string_view reason;
};

// Between the best decode worker and the best prefill worker, where both may prefill.
Choice choose(const Candidate& local, const Candidate& sender, const PredictedTimes& remote,
              const PlacementRequest& request) {
  if (local.uncached <= kShortPrompt) {
    if (local.queue_ms > sender.queue_ms + kShortPromptQueueMs) {
      return {false, "decode_queue"};
    }
    const bool hit = local.uncached < static_cast<int>(request.tokens.size());
    return {true, hit ? "prefix_on_decode" : "short_prompt"};
  }
  // A long prompt's chunks slow every stream of the decode worker down, those too that come while
  // it runs: it goes there only when nobody streams and its second token comes clearly sooner.
  const double remote_total = remote.ttft_ms() + remote.transfer_ms;
  const bool undisturbed = local.worker->load.running == 0 && local.worker->assigned_choices == 0;
  if (undisturbed && local.prefill_ms() < kLocalAdvantage * remote_total) {
    return {true, "faster"};
  }
  return {false, undisturbed ? "long_prompt" : "streams_running"};
}

}  // namespace

Status PlacementPolicy::check_workers(bool needs_local, const std::vector<WorkerState*>& prefills,
                                      const std::vector<WorkerState*>& decodes) const {
  if (decodes.empty()) {
    return unavailable("no decode worker is ready");
  }
  if (mode_ == config::LocalPrefill::kNever && !needs_local && prefills.empty()) {
    return unavailable("no prefill worker is ready");
  }
  return Status();
}

double PlacementPolicy::shortest_queue_ms(const std::vector<WorkerState*>& prefills,
                                          const std::vector<WorkerState*>& decodes) const {
  const bool local = mode_ == config::LocalPrefill::kAlways || prefills.empty();
  double shortest = -1;
  for (const WorkerState* worker : local ? decodes : prefills) {
    const double queue = queue_ms(*worker);
    shortest = shortest < 0 ? queue : std::min(shortest, queue);
  }
  return std::max(shortest, 0.0);
}

Result<Placement> PlacementPolicy::place(const PlacementRequest& request,
                                         const std::vector<WorkerState*>& prefills,
                                         const std::vector<WorkerState*>& decodes) const {
  BATON_RETURN_IF_ERROR(check_workers(request.needs_local, prefills, decodes));
  const bool may_local = mode_ != config::LocalPrefill::kNever || request.needs_local;
  const bool may_remote = mode_ != config::LocalPrefill::kAlways && !request.needs_local;
  std::vector<Candidate> receivers = candidates(decodes, request);
  sort_by_cost(receivers,
               [](const Candidate& worker) { return worker.prefill_ms() + worker.decode_ms(); });
  const Candidate local_best = receivers[0];
  Placement local;
  local.local = true;
  local.decision = "local";
  local.decodes = {local_best.worker};
  local.predicted = {local_best.queue_ms, local_best.compute_ms, 0, local_best.blocks_ms};
  if (!may_remote || prefills.empty()) {
    local.reason = request.needs_local ? "moved" : !may_remote ? "always" : "no_prefill_worker";
    record_candidates(receivers, wire::Role::kDecode, local_best.worker, nullptr, local);
    return local;
  }

  std::vector<Candidate> senders = candidates(prefills, request);
  const Candidate& sender = cheapest_prefill(senders);
  sort_by_cost(receivers, [&sender](const Candidate& worker) {
    return transfer_tail_ms(*sender.worker, worker, sender.prefill_ms()) + worker.decode_ms();
  });
  Placement remote;
  remote.decision = "remote";
  remote.prefill = sender.worker;
  remote.predicted = {sender.queue_ms, sender.compute_ms,
                      transfer_tail_ms(*sender.worker, receivers[0], sender.prefill_ms()),
                      receivers[0].blocks_ms};
  for (size_t i = 0; i < receivers.size() && i < kMaxDecodes; ++i) {
    remote.decodes.push_back(receivers[i].worker);
  }
  const auto [go_local, reason] =
      may_local ? choose(local_best, sender, remote.predicted, request) : Choice{false, "never"};
  Placement& chosen = go_local ? local : remote;
  chosen.reason = reason;
  record_candidates(senders, wire::Role::kPrefill, chosen.prefill, nullptr, chosen);
  record_candidates(receivers, wire::Role::kDecode, chosen.decodes[0], &sender, chosen);
  return std::move(chosen);
}

}  // namespace baton::router
