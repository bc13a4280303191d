#include "common/kernels/attention/attention.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/kernels/attention/attention_levels.h"

namespace baton::kernels {
namespace {

AttentionTile tile_of(device::Isa isa) {
  switch (isa) {
    case device::Isa::kScalar:
      return kAttentionTileScalar;
    case device::Isa::kAvx2:
      return kAttentionTileAvx2;
    case device::Isa::kAvx512:
      return kAttentionTileAvx512;
    case device::Isa::kAmx:
      return kAttentionTileAmx;
  }
  return kAttentionTileScalar;
}

int padded_columns(int head_dim) { return (head_dim + 31) / 32 * 32; }

size_t splits_of(int context) {
  return static_cast<size_t>((context + kSplitKeys - 1) / kSplitKeys);
}

}  // namespace

void attention(device::Isa isa, const AttentionParams& params, int row_begin, int row_end,
               std::byte* scratch) {
  // Tiles are as quick as any.
  const bool fast = params.arithmetic == Arithmetic::kFast && isa == device::Isa::kAvx512 &&
                    has_fast_arithmetic(isa);
  attention_with(fast ? kAttentionTileFast : tile_of(isa), params, row_begin, row_end, scratch);
}

void attention_with(AttentionTile tile, const AttentionParams& params, int row_begin, int row_end,
                    std::byte* scratch) {
  const int heads = params.q_head_end - params.q_head_begin;
  const int context = params.first_position + row_end;
  const int dim = params.kv.head_dim;
  BATON_CHECK(dim > 0 && dim % 2 == 0 && dim <= kMaxHeadDim,
              "attention: head_dim must be even and at most kMaxHeadDim");
  BATON_CHECK(params.kv.block_tokens % kGroupKeys == 0 && params.kv.block_tokens > 0,
              "attention: blocks hold groups of 32 slots");
  BATON_CHECK(static_cast<size_t>(context) <= params.blocks.size() * params.kv.block_tokens,
              "attention: the block table ends before the last visible key");
  BATON_CHECK(params.scale > 0, "attention: the scale must be positive");
  BATON_CHECK(params.window >= 0, "attention: the window must not be negative");

  AttentionScratch s;
  s.columns = padded_columns(dim);
  s.q = reinterpret_cast<float*>(scratch);
  s.scores = s.q + static_cast<size_t>(kTilePairs) * s.columns;
  s.maxima = s.scores + static_cast<size_t>(kTilePairs) * kScoreStride;
  s.sums = s.maxima + splits_of(context) * kTilePairs;
  s.padded = reinterpret_cast<uint32_t*>(s.sums + splits_of(context) * kTilePairs);
  s.outputs = reinterpret_cast<float*>(s.padded + static_cast<size_t>(16) * s.columns);

  for (int pair = row_begin * heads; pair < row_end * heads; pair += kTilePairs) {
    tile(params, pair, std::min(pair + kTilePairs, row_end * heads), s);
  }
}

size_t attention_scratch_bytes(device::Isa /*isa*/, int head_dim, int context) {
  const auto columns = static_cast<size_t>(padded_columns(head_dim));
  const size_t per_split = columns + 2;
  const size_t per_pair = columns + kScoreStride + splits_of(context) * per_split;
  return sizeof(float) * (kTilePairs * per_pair + 16 * columns);
}

int attention_row_grain(device::Isa /*isa*/, int q_heads_per_kv) {
  return std::max(1, kTilePairs / q_heads_per_kv);
}

}  // namespace baton::kernels
