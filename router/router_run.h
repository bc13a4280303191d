#pragma once

// One prompt of an exchange on its way through the workers.

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/api/choice_stream.h"

namespace baton::router {

struct RouterRun {
  uint64_t exchange = 0;
  size_t prompt_index = 0;
  wire::RunBody body;  // key.attempt grows with every placement
  std::vector<ChoiceStream> choices;
  // While the body asks for the prompt's log-probabilities they are missing: what has come of them,
  // and the output that has overtaken them on another way. Nothing is told before they are all
  // here.
  std::vector<wire::TokenLogprob> prompt_logprobs;
  std::vector<wire::Tokens> held;
  // Where it is. While `handed_over` is false the prefill worker owns the run.
  bool local = false;
  bool handed_over = false;
  Incarnation prefill;
  std::vector<Incarnation> decodes;  // index = leg
  std::vector<std::string> decode_names;
  uint8_t leg = 0;
  // Its load on the workers, as this router counts it: tokens at the prefilling worker until the
  // first token of this attempt, choices at the decode worker until the attempt ends.
  TimePoint placed{};
  bool prefilled = true;
  int64_t assigned_tokens = 0;
  double predicted_ttft_ms = 0;
  Incarnation assigned_decode;
  // Workers that died while it may have been in their running step.
  int deaths = 0;
  int failures = 0;         // attempts that ended otherwise than by a worker that was told to stop
  bool ended_here = false;  // a stop string ended a choice: the workers do not know
  wire::RunTimings timings;
  bool cached_counted = false;
  size_t record = 0;  // number of the attempt in the exchange's record

  const RunKey& key() const { return body.key; }
  bool needs_prompt_logprobs() const { return body.prompt_logprobs >= 0; }
  bool beams() const { return body.sampling.beam_width > 0; }
  // Who computes the prompt.
  Incarnation computing() const {
    return !local ? prefill : decodes.empty() ? Incarnation{} : decodes[0];
  }
  bool finished() const {
    for (const ChoiceStream& choice : choices) {
      if (!choice.finished()) {
        return false;
      }
    }
    return true;
  }
  bool emitted() const {
    for (const ChoiceStream& choice : choices) {
      if (!choice.ids().empty()) {
        return true;
      }
    }
    return false;
  }
  Incarnation owner() const {
    return local || handed_over ? (leg < decodes.size() ? decodes[leg] : Incarnation{}) : prefill;
  }
  // Whether that worker's death ends this attempt.
  bool lost_with(Incarnation worker) const {
    return owner() == worker || (needs_prompt_logprobs() && computing() == worker);
  }
};

}  // namespace baton::router
