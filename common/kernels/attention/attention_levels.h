#pragma once

// The attention kernel of one instruction-set level and what all levels share: filled by
// attention_<level>.cc from the template of attention_impl.h, chosen by attention.cc.

#include "common/kernels/attention/attention.h"

namespace baton::kernels {

inline constexpr int kSplitKeys = 512;    // absolute positions of a split
inline constexpr int kGroupKeys = 32;     // keys of a group: one block of the canonical product
inline constexpr int kTilePairs = 48;     // (row, query head) pairs that share a pass over K and V
inline constexpr int kScoreStride = 528;  // 512 scores; rows lie in different cache sets

// Buffers of a tile inside the caller's scratch. Columns of head_dim are padded to 32.
struct AttentionScratch {
  float* q = nullptr;          // [kTilePairs, columns]
  float* scores = nullptr;     // [kTilePairs, kScoreStride]: scores, then probabilities
  float* outputs = nullptr;    // [splits, kTilePairs, columns]
  float* maxima = nullptr;     // [splits, kTilePairs]
  float* sums = nullptr;       // [splits, kTilePairs]
  uint32_t* padded = nullptr;  // [16 * columns], a group that fills no whole tiles
  int columns = 0;
};

// Pairs [pair_begin, pair_end), at most kTilePairs; pair p is row p / heads, head p % heads.
using AttentionTile = void (*)(const AttentionParams& params, int pair_begin, int pair_end,
                               const AttentionScratch& scratch);

extern const AttentionTile kAttentionTileScalar;
extern const AttentionTile kAttentionTileAvx2;
extern const AttentionTile kAttentionTileAvx512;
extern const AttentionTile kAttentionTileAmx;
extern const AttentionTile kAttentionTileFast;  // needs AVX512_BF16

// The loops around a tile; a parameter so that they run with emulated hardware, too.
void attention_with(AttentionTile tile, const AttentionParams& params, int row_begin, int row_end,
                    std::byte* scratch);

}  // namespace baton::kernels
