#pragma once

// What sampling does to whole rows of logits, at each instruction-set level, with equal bits.

#include <cstdint>
#include <span>

#include "common/device/isa.h"

namespace baton::sampling {

inline constexpr int kChunk = 64;   // granularity of maxima
inline constexpr int kBlock = 512;  // granularity of weight sums (docs/numerics.md)

constexpr int chunk_count(int n) { return (n + kChunk - 1) / kChunk; }
constexpr int block_count(int n) { return (n + kBlock - 1) / kBlock; }

struct RowOps {
  // Whether every x is a number below +infinity (not NaN).
  bool (*is_bounded)(const float* x, int n);
  // x = x / divisor, when that is not 1; maxima[c] = the greatest of chunk c ([chunk_count(n)]).
  void (*divide_and_maxima)(float* x, int n, float divisor, float* maxima);
  // maxima[c] = the greatest of chunk c.
  void (*maxima_of)(const float* x, int n, float* maxima);
  // weights[i] = exp(x[i] - max), x <= max; sums[b] = their sum in block b ([block_count(n)]) by 16
  // strided partial sums and the fold 8-4-2-1.
  void (*weigh)(const float* x, int n, float max, float* weights, float* sums);
  // x[i] = -infinity where bit i % 64 of words[i / 64] is clear ([ceil(n / 64)]).
  void (*keep)(float* x, int n, const uint64_t* words);
};

const RowOps& row_ops(device::Isa isa);

extern const RowOps kRowOpsScalar;
extern const RowOps kRowOpsAvx2;
extern const RowOps kRowOpsAvx512;

}  // namespace baton::sampling
