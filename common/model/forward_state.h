#pragma once

// Inside of forward.h: what a pass reads and writes, laid out by prepare(), shared by all threads.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/kernels/matmul/matmul.h"
#include "common/model/aligned_array.h"
#include "common/model/forward.h"

namespace baton::model {

// Work items that are wanted for each thread: the last one shall not keep all others waiting long.
inline constexpr int kItemsPerThread = 4;

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Query heads of a rank that read one KV head and lie side by side in the attention output.
struct HeadGroup {
  int kv_head = 0;                       // of the rank
  int q_head_begin = 0, q_head_end = 0;  // of the rank
};

// One work item of attention: some rows of a sequence for one head group, or what some splits of
// the context give to them.
struct AttentionItem {
  int sequence = 0;
  int group = 0;
  int row_begin = 0, row_end = 0;  // of the sequence
  int split_begin = 0, split_end = 0;
  int merge = -1;  // index in `merges`; -1: all splits are in this item
};

// Rows whose splits are several items: whoever is through with the last one merges them.
struct AttentionMerge {
  int items = 0;
  size_t parts = 0;  // where in `merge_parts` of the rank
};

struct RankState {
  std::vector<HeadGroup> groups;
  std::vector<AttentionItem> items;  // dearest first
  std::vector<AttentionMerge> merges;
  AlignedArray<int> items_done = AlignedArray<int>(1);  // of a product that a norm follows
  AlignedArray<float> merge_parts;
  size_t merge_parts_used = 0;
  AlignedArray<int> merge_counts;    // of each merge, items that are done; 0 again when merged
  AlignedArray<float> qkv;           // [rows, projection columns]
  AlignedArray<uint16_t> q;          // [rows, query heads * head_dim]
  AlignedArray<uint16_t> attention;  // [rows, attention_columns]; what heads do not fill is zero
  AlignedArray<uint16_t> ffn;        // [rows, ffn_columns]; zero beyond the rank's columns
  // Their codes, where products take codes.
  AlignedArray<kernels::CodeBlock> attention_codes;
  AlignedArray<kernels::CodeBlock> ffn_codes;
};

struct ForwardState {
  ForwardState(const Weights& w, std::span<const kv_cache::KvPool> p, const Forward::Options& o)
      : weights(w), pools(p), options(o) {}

  const Weights& weights;
  std::span<const kv_cache::KvPool> pools;
  Forward::Options options;
  int hidden_bf16_stride = 0;  // of x rows: hidden rounded up to 32
  int hidden_f32_stride = 0;   // of partial results: hidden rounded up to 16
  int logits_stride = 0;       // vocab rounded up to 16
  int max_logits_rows = 0;     // of a chunk
  // Products of the fast arithmetic read 8-bit codes of their activations: made once, where the
  // activations are made.
  bool some_packed = false;    // some weights are not bf16 panels
  bool aligned_heads = false;  // no block of 32 columns of the attention output has two heads

  // Whether rows of activations are coded when `count` of them are multiplied.
  bool codes_rows(int count) const {
    return some_packed && kernels::matmul_takes_codes(options.isa, options.arithmetic,
                                                      kernels::WeightFormat::kQ8, count);
  }

  // The batch.
  std::vector<ForwardSequence> sequences;
  std::vector<int> first_rows;  // of each sequence, its row in the batch
  std::vector<TokenId> tokens;  // of each row, as the next two
  std::vector<int32_t> positions;
  std::array<std::vector<BlockId>, kv_cache::kMaxGroups> slot_blocks;  // of each cache group
  std::vector<int> logits_rows;  // rows that get logits, ascending
  int context = 0;               // the longest, including the new tokens

  // Activations. Rows are those of the batch.
  int rows_capacity = 0;
  int logits_capacity = 0;
  AlignedArray<float> residual;  // [rows, hidden]
  AlignedArray<uint16_t> x;      // [rows, hidden_bf16_stride]
  AlignedArray<kernels::CodeBlock> x_codes;
  std::vector<AlignedArray<float>> parts;  // per reduction segment: [rows, hidden_f32_stride]
  // The same parts without the empty segments, ascending.
  std::vector<const float*> attention_parts;
  std::vector<const float*> ffn_parts;
  AlignedArray<uint16_t> head_x;  // [logits rows, hidden_bf16_stride]
  AlignedArray<kernels::CodeBlock> head_codes;
  AlignedArray<float> logits;                           // [max_logits_rows, logits_stride]
  AlignedArray<int> ranks_done = AlignedArray<int>(1);  // with all items of such a product
  std::vector<RankState> ranks;

  int rows() const { return static_cast<int>(tokens.size()); }
  int keys_of(const AttentionItem& item) const {  // that its last row sees
    return sequences[static_cast<size_t>(item.sequence)].first_position + item.row_end;
  }
  AlignedArray<kernels::CodeBlock> codes_of(const AlignedArray<uint16_t>& values, int rows) const;
  void grow();  // the activations to the batch
  void lay_out_attention();
  void add_attention_items(RankState& rank, int sequence, int most_splits) const;
  void add_split_items(RankState& rank, AttentionItem whole, int most_splits) const;
  int most_splits_of_item(const RankState& rank) const;
};

}  // namespace baton::model
