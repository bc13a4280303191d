#pragma once

// One request on a decode worker.
//
//   by hand-over:   reserving --admitted--> granted ----data committed--> forking --> decoding
//   local prefill:  waiting ----admitted--> prefilling --prompt fed-----> forking --> decoding
//
// Cancel, failure and deadline lead to closing from everywhere; the run leaves when no step and no
// transfer uses its blocks.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/sampling/sampler.h"
#include "common/wire/messages.h"
#include "common/worker/sequence.h"
#include "decode_worker/beam_search.h"

namespace baton::decode_worker {

enum class RunState : uint8_t {
  kWaiting,     // RUN in the admission queue
  kReserving,   // RESERVE in the admission queue
  kGranted,     // a writer may write into its blocks
  kPrefilling,  // its base lane computes the prompt here
  kForking,     // all of the prompt's KV is here; the next plan makes a lane per choice
  kDecoding,
  kClosing,
};

struct DecodeRun;

// A sequence that steps feed: the prompt of a run (base), or one of its choices.
struct Lane {
  Lane(worker::Sequence s, DecodeRun& r, int c) : sequence(std::move(s)), run(r), choice(c) {}
  worker::Sequence sequence;
  DecodeRun& run;
  int choice;              // kBase for the prompt
  int fed_in_step = 0;     // > 0 while a step computes it
  bool preempted = false;  // has no blocks; waits to be computed again
  bool closed = false;     // to be erased when no step uses it
  static constexpr int kBase = -1;

  bool waits() const;  // a beam whose row is known, for those of its siblings
};

// The beam search of a run: its lanes are the beams.
struct Beams {
  explicit Beams(BeamSearch::Options options) : search(std::move(options)) {}
  BeamSearch search;
  std::vector<std::optional<wire::TokenLogprob>> rows;  // of the beams of this step
  std::vector<BeamSearch::Successor> next;              // in kForking
};

struct DecodeRun {
  uint64_t id = 0;
  wire::RunBody body;
  Incarnation router;
  RunState state = RunState::kWaiting;
  TimePoint arrived{};
  TimePoint started{};
  TimePoint deadline = TimePoint::max();

  // Hand-over.
  uint64_t reservation = 0;  // of the transfer agent; 0 for a local run
  int kv_tokens = 0;
  int push_unit_tokens = 0;
  kv_cache::Leases hits;      // own prefix hits, before `incoming`
  kv_cache::Leases incoming;  // written by the transfer while granted
  bool ticket_open = false;   // the transfer may still write

  std::vector<sampling::SequenceSampler> samplers;  // one per choice
  // What each choice has produced, the output before this run included; the state after it.
  std::vector<wire::ChoiceState> choices;
  std::unique_ptr<Beams> beams;            // null: the choices are sampled
  std::unique_ptr<worker::Sequence> base;  // in kForking: the prompt with its KV
  int scored = 0;  // leading positions of the base whose prompt log-probabilities were sent
  int lanes = 0;
  // While admitted: choices that go on, each a sequence of the batch now or soon; and how many of
  // them may come to need another block after their first step.
  int slots = 0;
  int growing = 0;
  wire::RunTimings timings;
  bool timings_sent = false;

  void release_tables() {
    for (kv_cache::Leases* leases : {&incoming, &hits}) {
      for (kv_cache::BlockLease& lease : *leases) {
        lease.release();
      }
    }
  }

  // Whether the choice takes its next token from the base's last row.
  bool sampled_with_prompt(size_t choice) const {
    return choices[choice].finished == wire::FinishReason::kNone &&
           (choices.size() == 1 || choices[choice].output.empty());
  }
  // What a step samples from the base's last row.
  std::vector<sampling::SequenceSampler*> samplers_of_base() {
    std::vector<sampling::SequenceSampler*> out;
    for (size_t i = 0; i < (beams ? 1 : choices.size()); ++i) {
      if (sampled_with_prompt(i)) {
        out.push_back(&samplers[i]);
      }
    }
    return out;
  }
  int prompt_tokens() const { return static_cast<int>(body.prompt.size()); }
  // Tokens of the base: with one choice its earlier output is part of it, since nothing forks.
  std::vector<TokenId> base_tokens() const {
    std::vector<TokenId> tokens = body.prompt;
    if (choices.size() == 1) {
      tokens.insert(tokens.end(), choices[0].output.begin(), choices[0].output.end());
    }
    return tokens;
  }
};

inline bool Lane::waits() const {
  return run.beams != nullptr && choice != kBase &&
         run.beams->rows[static_cast<size_t>(choice)].has_value();
}

// Tokens of the base of a request that has not begun.
inline int base_size(const wire::RunBody& body) {
  const size_t output = body.choices.size() == 1 ? body.choices[0].output.size() : 0;
  return static_cast<int>(body.prompt.size() + output);
}

// Blocks of a cache group beyond those of the base's `kv_tokens` that the first step of all choices
// needs: each goes on in a copy of the partial last block, or in a new one; one of them takes the
// base's own. Steps are of up to `step` tokens.
inline int tail_blocks(const wire::RunBody& body, int kv_tokens, const kv_cache::BlockPools& pools,
                       int group, int step) {
  const int block_tokens = pools.block_tokens();
  int tail = kv_tokens % block_tokens == 0 ? 0 : -1;
  for (const wire::ChoiceState& choice : body.choices) {
    if (choice.finished == wire::FinishReason::kNone) {
      const auto size = static_cast<int>(body.prompt.size() + choice.output.size());
      tail += std::min(size / block_tokens + 1 - kv_tokens / block_tokens,
                       pools.most_blocks(group, size + 1, step));
    }
  }
  return std::max(tail, 0);
}

}  // namespace baton::decode_worker
