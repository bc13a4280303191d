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

AttentionTile tile_of(device::Isa isa, Arithmetic arithmetic) {
  const bool dot = isa == device::Isa::kAvx512 && has_bf16_dot(arithmetic);
  return dot ? kAttentionTileAvx512Dot : tile_of(isa);
}

void check(const AttentionParams& params, int row_end) {
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
}

// The part of the scratch that no result is kept in; returns what follows it.
float* place_work(std::byte* scratch, int head_dim, AttentionScratch& s) {
  s.columns = padded_columns(head_dim);
  s.q = reinterpret_cast<float*>(scratch);
  s.scores = s.q + static_cast<size_t>(kTilePairs) * s.columns;
  s.padded = reinterpret_cast<uint32_t*>(s.scores + static_cast<size_t>(kTilePairs) * kScoreStride);
  return reinterpret_cast<float*>(s.padded + static_cast<size_t>(16) * s.columns);
}

void place_parts(float* parts, int head_dim, int pairs, int context, AttentionScratch& s) {
  const auto rows = static_cast<size_t>(attention_splits(context)) * static_cast<size_t>(pairs);
  s.columns = padded_columns(head_dim);
  s.pair_stride = pairs;
  s.outputs = parts;
  s.maxima = s.outputs + rows * static_cast<size_t>(s.columns);
  s.sums = s.maxima + rows;
}

PairRange pairs_of(const AttentionParams& params, int row_begin, int row_end) {
  const int heads = params.q_head_end - params.q_head_begin;
  BATON_CHECK((row_end - row_begin) * heads <= kTilePairs, "attention: a part has one tile");
  return {row_begin * heads, row_end * heads};
}

}  // namespace

int attention_splits(int context) { return (context + kSplitKeys - 1) / kSplitKeys; }

void attention(device::Isa isa, const AttentionParams& params, int row_begin, int row_end,
               std::byte* scratch) {
  attention_with(tile_of(isa, params.arithmetic), params, row_begin, row_end, scratch);
}

void attention_with(const AttentionTile& tile, const AttentionParams& params, int row_begin,
                    int row_end, std::byte* scratch) {
  check(params, row_end);
  const int heads = params.q_head_end - params.q_head_begin;
  const int context = params.first_position + row_end;
  AttentionScratch s;
  float* parts = place_work(scratch, params.kv.head_dim, s);
  place_parts(parts, params.kv.head_dim, kTilePairs, context, s);
  for (int pair = row_begin * heads; pair < row_end * heads; pair += kTilePairs) {
    const PairRange pairs = {pair, std::min(pair + kTilePairs, row_end * heads)};
    tile.splits(params, pairs, {0, attention_splits(context)}, s);
    tile.merge(params, pairs, s);
  }
}

void attention_part(device::Isa isa, const AttentionParams& params, const AttentionPart& part,
                    float* parts, std::byte* scratch) {
  check(params, part.row_end);
  const PairRange pairs = pairs_of(params, part.row_begin, part.row_end);
  AttentionScratch s;
  place_work(scratch, params.kv.head_dim, s);
  place_parts(parts, params.kv.head_dim, pairs.end - pairs.begin,
              params.first_position + part.row_end, s);
  tile_of(isa, params.arithmetic).splits(params, pairs, part.splits, s);
}

void attention_merge(device::Isa isa, const AttentionParams& params, int row_begin, int row_end,
                     float* parts) {
  const PairRange pairs = pairs_of(params, row_begin, row_end);
  AttentionScratch s;
  place_parts(parts, params.kv.head_dim, pairs.end - pairs.begin, params.first_position + row_end,
              s);
  tile_of(isa, params.arithmetic).merge(params, pairs, s);
}

size_t attention_parts_size(int head_dim, int pairs, int context) {
  const size_t rows = static_cast<size_t>(attention_splits(context)) * static_cast<size_t>(pairs);
  const size_t floats = rows * (static_cast<size_t>(padded_columns(head_dim)) + 2);
  return (floats + 15) / 16 * 16;
}

size_t attention_scratch_bytes(device::Isa /*isa*/, int head_dim, int context) {
  const auto columns = static_cast<size_t>(padded_columns(head_dim));
  return sizeof(float) * (kTilePairs * (columns + kScoreStride) + 16 * columns +
                          attention_parts_size(head_dim, kTilePairs, context));
}

int attention_row_grain(device::Isa /*isa*/, int q_heads_per_kv) {
  return std::max(1, kTilePairs / q_heads_per_kv);
}

}  // namespace baton::kernels
