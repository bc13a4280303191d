#pragma once

// A worker that lends its CPUs and streams tokens may give way to prompts that wait elsewhere on
// the machine: it pauses between two steps, and its CPUs compute prompts meanwhile. Tokens then
// come less often, but each gets cheaper, since more streams share a step: on a machine that has
// more to do than it can, more requests are served in time.

#include <algorithm>

#include "common/base/clock.h"

namespace baton::worker {

// The pause after a decode step that took `step`, where prompts that wait will take
// `prompts_waiting` (Role::prompts_waiting()).
inline Duration pause_for_prompts(Duration step, Duration prompts_waiting) {
  constexpr Duration kBehind = 200ms;
  constexpr Duration kPeriod = 50ms;  // nobody reads faster than twenty tokens a second
  constexpr int kShare = 3;           // at most so many times the step
  constexpr Duration kLeast = 3ms;    // less is over before a borrower has come
  const Duration pause = std::min(kShare * step, kPeriod - step);
  return prompts_waiting < kBehind || pause < kLeast ? Duration(0) : pause;
}

}  // namespace baton::worker
