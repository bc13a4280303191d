#pragma once

// The attention kernel of one instruction-set level and what all levels share: filled by
// attention_<level>.cc from the template of attention_impl.h, chosen by attention.cc.

#include "common/kernels/attention/attention.h"

namespace baton::kernels {

inline constexpr int kGroupKeys = 32;     // keys of a group: one block of the canonical product
inline constexpr int kScoreStride = 528;  // 512 scores; rows lie in different cache sets

// Buffers of a tile in the caller's memory. Columns of head_dim are padded to 32.
struct AttentionScratch {
  float* q = nullptr;          // [kTilePairs, columns]
  float* scores = nullptr;     // [kTilePairs, kScoreStride]: scores, then probabilities
  uint32_t* padded = nullptr;  // [16 * columns], a group that fills no whole tiles
  float* outputs = nullptr;    // [splits, pair_stride, columns]
  float* maxima = nullptr;     // [splits, pair_stride]
  float* sums = nullptr;       // [splits, pair_stride]
  int pair_stride = kTilePairs;
  int columns = 0;
};

// At most kTilePairs; pair p is row p / heads, head p % heads.
struct PairRange {
  int begin = 0;
  int end = 0;
};

struct AttentionTile {
  // Fills outputs, maxima and sums of the splits of `splits` that a pair sees.
  void (*splits)(const AttentionParams& params, PairRange pairs, SplitRange splits,
                 const AttentionScratch& scratch);
  // From those of all splits; maxima become weights.
  void (*merge)(const AttentionParams& params, PairRange pairs, const AttentionScratch& scratch);
};

extern const AttentionTile kAttentionTileScalar;
extern const AttentionTile kAttentionTileAvx2;
extern const AttentionTile kAttentionTileAvx512;
extern const AttentionTile kAttentionTileAvx512Dot;  // as avx512_dot() (matmul/level_kernels.h)
extern const AttentionTile kAttentionTileAmx;

// The loops around a tile; a parameter so that they run with emulated hardware, too.
void attention_with(const AttentionTile& tile, const AttentionParams& params, int row_begin,
                    int row_end, std::byte* scratch);

}  // namespace baton::kernels
