#pragma once

// Buffers that a thread which samples keeps between calls, so that sampling allocates nothing once
// they have grown to the vocabulary. One per thread; holds no state between calls.

#include <cstdint>
#include <vector>

#include "common/base/ids.h"

namespace baton::sampling {

// Ordered by (value descending, id ascending) wherever order is meant.
struct Candidate {
  float value = 0.0f;
  TokenId id = 0;
};

struct Scratch {
  std::vector<float> weights;         // [vocab]
  std::vector<float> block_sums;      // [ceil(vocab / 512)]
  std::vector<Candidate> candidates;  // [kept]
  std::vector<Candidate> exchange;    // [kept], the other side of a radix pass
};

}  // namespace baton::sampling
