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
  // Where it is. While `handed_over` is false the prefill worker owns the run.
  bool local = false;
  bool handed_over = false;
  Incarnation prefill;
  std::vector<Incarnation> decodes;  // index = leg
  std::vector<std::string> decode_names;
  uint8_t leg = 0;
  // Its load on the workers, as this router counts it: tokens at the prefilling worker until the
  // first token of this attempt, choices at the decode worker until the attempt ends.
  bool prefilled = true;
  int64_t assigned_tokens = 0;
  Incarnation assigned_decode;
  bool ended_here = false;  // a stop string ended a choice: the workers do not know
  wire::RunTimings timings;
  bool cached_counted = false;
  size_t record = 0;  // number of the attempt in the exchange's record

  const RunKey& key() const { return body.key; }
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
  // Whose death ends this attempt.
  Incarnation owner() const {
    return local || handed_over ? (leg < decodes.size() ? decodes[leg] : Incarnation{}) : prefill;
  }
};

}  // namespace baton::router
