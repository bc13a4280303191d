#pragma once

// Rotary positions as data: base, rotated dims and the scaling that stretches them to longer
// contexts. Everything ends in one frequency a pair and one factor of cos and sin.

#include <cstdint>
#include <vector>

namespace baton::model {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,  // every frequency / factor
  kYarn,    // slow pairs / factor, fast ones as they are, a ramp between (arXiv 2309.00071)
  kLlama3,  // the same by wavelength, with a blend of Llama 3.1
};

struct RopeDescription {
  float base = 10000.0F;
  int dims = 0;             // rotated dims of a head, even, <= head_dim; the rest passes through
  bool interleaved = true;  // pairs (2i, 2i+1), the order of llama in GGUF; else (i, i + dims/2)

  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0F;         // of the context; > 0
  float original_context = 0;  // kYarn, kLlama3: tokens that the model was first trained with
  float beta_fast = 32.0F;     // kYarn: turns over the original context above which a pair is fast
  float beta_slow = 1.0F;      //        and below which it is slow
  float low_freq_factor = 1.0F;  // kLlama3: the same two bounds, as original context / wavelength
  float high_freq_factor = 4.0F;
  float magnitude = 1.0F;            // factor of cos and sin
  std::vector<float> divisors = {};  // of each pair's frequency, before scaling; empty: all 1

  friend bool operator==(const RopeDescription&, const RopeDescription&) = default;
};

// Radians per position of each of the dims/2 pairs.
std::vector<double> rope_frequencies(const RopeDescription& rope);

// The magnitude that goes with YaRN's frequencies where a model does not name one: 0.1 ln factor
// + 1.
float yarn_magnitude(float factor);

}  // namespace baton::model
