#pragma once

// Buffers that a thread which samples keeps between calls, so that sampling allocates nothing once
// they have grown to the vocabulary. One per thread; holds no state between calls.

#include <vector>

#include "common/base/ids.h"
#include "common/device/isa.h"

namespace baton::sampling {

// Ordered by (value descending, id ascending) wherever order is meant.
struct Candidate {
  float value = 0.0f;
  TokenId id = 0;
};

struct Scratch {
  // The instruction set to sample with; the result is the same with each.
  device::Isa isa = device::available_isas().back();
  std::vector<float> raw;           // [vocab], the row as it came, when log-probabilities are asked
  std::vector<float> weights;       // [vocab] or [kept]
  std::vector<float> block_sums;    // [ceil(vocab / 512)]
  std::vector<float> maxima;        // [ceil(vocab / 64)]
  std::vector<float> maxima_order;  // [ceil(vocab / 64)]
  std::vector<Candidate> candidates;  // [kept]
  std::vector<Candidate> exchange;    // [kept], the other side of a radix pass
};

}  // namespace baton::sampling
