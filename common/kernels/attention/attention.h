#pragma once

// Attention over paged KV: prefill, chunks, decode and draft verification are the same call, one
// kernel per instruction-set level, equal bits at all (docs/numerics.md "Attention": splits of 512
// absolute positions, canonical products, merge in ascending order). FlashAttention's two-pass
// split form (https://arxiv.org/abs/2205.14135) with the split fixed by position, so that a query's
// result depends on its own visible keys alone.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/ids.h"
#include "common/device/isa.h"
#include "common/kernels/math/arithmetic.h"

namespace baton::kernels {

inline constexpr int kMaxHeadDim = 256;
inline constexpr int kSplitKeys = 512;  // absolute positions of a split
inline constexpr int kTilePairs = 48;   // (row, query head) pairs that share a pass over K and V

int attention_splits(int context);

// One layer of one rank's KV pool, layout `pairs32` (common/kv_cache/layout.h): block b starts at
// base + b * block_stride; inside it first K then V; then kv heads of the rank, then groups of 32
// slots: K group [dim/2][32][2], V group [16][dim][2], bf16.
struct KvLayerView {
  std::byte* base = nullptr;
  size_t block_stride = 0;  // bytes
  int block_tokens = 32;    // multiple of 32
  int kv_heads = 0;         // of this rank
  int head_dim = 0;         // even, <= kMaxHeadDim

  size_t group_bytes() const { return size_t{32} * head_dim * sizeof(uint16_t); }
  size_t half_bytes() const {  // the K half of a block, or the V half
    return group_bytes() * (block_tokens / 32) * kv_heads;
  }
  std::byte* k_group(BlockId block, int head, int group) const {
    return base + size_t{block} * block_stride +
           (size_t(head) * (block_tokens / 32) + group) * group_bytes();
  }
  std::byte* v_group(BlockId block, int head, int group) const {
    return k_group(block, head, group) + half_bytes();
  }
};

struct AttentionParams {
  const uint16_t* q = nullptr;  // [rows, q_stride] bf16, after RoPE; head h at column h * head_dim
  int q_stride = 0;
  uint16_t* out = nullptr;  // [rows, out_stride] bf16, same columns
  int out_stride = 0;
  int rows = 0;                          // query tokens of this sequence in the step
  int first_position = 0;                // absolute position of row 0
  int window = 0;                        // position i sees keys j, i - window < j <= i; 0: all <= i
  std::span<const BlockId> blocks = {};  // block table of the sequence from position 0
  KvLayerView kv = {};
  int kv_head = 0;                       // of the rank
  int q_head_begin = 0, q_head_end = 0;  // the rank's query heads that read kv_head
  float scale = 0;                       // > 0
  Arithmetic arithmetic = Arithmetic::kCanonical;
};

// A work item is rows [row_begin, row_end) of one (sequence, kv head), in one thread; it may be cut
// anywhere, the bits of a row do not change. `scratch` is the calling thread's, 64-byte aligned, at
// least attention_scratch_bytes(isa, head_dim, first_position + row_end). Reads no group of 32 keys
// beyond the last position that row_end - 1 sees; inside that last group the V part of slots beyond
// it must hold finite values (zero at first), the K part may hold anything. With a window it reads
// no group before the first key that row_begin sees, and no block table entry of such groups only;
// inside that first group V must be finite, too.
void attention(device::Isa isa, const AttentionParams& params, int row_begin, int row_end,
               std::byte* scratch);

// `context`: the number of keys that the last row of the item sees. Grows with it, because the
// splits are merged only when the maximum over all of them is known.
size_t attention_scratch_bytes(device::Isa isa, int head_dim, int context);

// A long context in several work items: attention_part() leaves in `parts` what the splits of
// the part give, of which the rows may see none; when all splits of [0, attention_splits(context))
// are there, attention_merge() makes the output of attention(), bit for bit, whatever the items.
// (row_end - row_begin) * query heads is `pairs`, at most kTilePairs, and `context` as for the
// scratch; scratch: attention_scratch_bytes(isa, head_dim, 0). All memory 64-byte aligned.
struct SplitRange {
  int begin = 0;
  int end = 0;
};
struct AttentionPart {
  int row_begin = 0;
  int row_end = 0;
  SplitRange splits;
};
void attention_part(device::Isa isa, const AttentionParams& params, const AttentionPart& part,
                    float* parts, std::byte* scratch);
void attention_merge(device::Isa isa, const AttentionParams& params, int row_begin, int row_end,
                     float* parts);
// Floats of `parts`; a multiple of 16.
size_t attention_parts_size(int head_dim, int pairs, int context);

// Rows that one work item should take (a tile of query rows times grouped heads).
int attention_row_grain(device::Isa isa, int q_heads_per_kv);

}  // namespace baton::kernels
