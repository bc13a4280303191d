#pragma once

// One request on a prefill worker, from its arrival to the last word of its hand-over.
//
//   waiting --blocks fit--> computing --last token fed--> handing over --acked--> gone
//                                |                             |
//                                +---- all choices ended ------+--> closing --transfer ended-->
//                                gone
//
// Cancel, failure and deadline lead to closing from everywhere. A run that waits has no blocks and
// no transfer; a run leaves only when no step and no transfer uses its blocks. Of a full cache
// group a run that has started holds all its blocks; of a window group as many are promised to it
// as it ever holds at a time.

#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/sampling/sampler.h"
#include "common/wire/messages.h"
#include "common/worker/sequence.h"
#include "kv_transfer/transfer.h"

namespace baton::prefill_worker {

enum class RunState : uint8_t { kWaiting, kComputing, kHandingOver, kClosing };

struct PrefillRun {
  PrefillRun(SequenceId id, std::vector<TokenId> tokens) : sequence(id, std::move(tokens)) {}

  wire::Prefill request;  // body.key.leg follows the leg in use
  Incarnation router;
  RunState state = RunState::kWaiting;
  worker::Sequence sequence;
  std::vector<sampling::SequenceSampler> samplers;  // one per choice; of beams one
  std::vector<wire::CommittedChoice> sampled;       // set when the last row was sampled
  TimePoint arrived{};
  TimePoint started{};
  TimePoint deadline = TimePoint::max();
  int cached_tokens = 0;
  int window_blocks = 0;                 // of each window group: what it may hold at a time
  int fed_in_step = 0;                   // > 0 while a step computes it
  kv_transfer::TransferId transfer = 0;  // 0: none open
  bool granted = false;                  // the decode worker has made room for it
  bool sent_again = false;               // to the last decode worker of the list
  wire::RunTimings timings;

  const RunKey& key() const { return request.body.key; }
  bool in_step() const { return fed_in_step > 0; }

  // Where it goes; none for a run that needs no decode worker.
  Incarnation target() const {
    return needs_decode() && key().leg < request.decodes.size()
               ? request.decodes[key().leg].incarnation
               : Incarnation{};
  }

  // A beam search: only the candidates of the prompt's last row are made here.
  bool beams() const { return request.body.sampling.beam_width > 0; }
  // Whether anything is left for a decode worker after the token that prefill samples.
  bool needs_decode() const {
    if (beams()) {
      return true;
    }
    const int32_t limit = request.body.sampling.max_tokens;
    for (const wire::ChoiceState& choice : request.body.choices) {
      const auto after_prefill = static_cast<int32_t>(choice.output.size()) + 1;
      if (choice.finished == wire::FinishReason::kNone && (limit == 0 || after_prefill < limit)) {
        return true;
      }
    }
    return false;
  }
};

inline bool has_full_group(const kv_cache::BlockPools& blocks) {
  return blocks.group(0).kind == kv_cache::CacheKind::kFull;
}
inline int window_group(const kv_cache::BlockPools& blocks) {  // -1: none
  const int last = blocks.groups() - 1;
  return blocks.group(last).kind == kv_cache::CacheKind::kWindow ? last : -1;
}

}  // namespace baton::prefill_worker
