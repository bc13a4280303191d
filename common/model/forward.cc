#include "common/model/forward.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"
#include "common/kernels/attention/attention.h"
#include "common/model/forward_pass.h"
#include "common/model/forward_state.h"

namespace baton::model {
namespace {

// Logits are made in chunks of about this size, so that echo and quality runs over thousands of
// rows do not need gigabytes.
constexpr size_t kLogitsBytes = size_t{48} << 20;
constexpr int kMinLogitsRows = 16;
constexpr int kMaxLogitsRows = 256;

int round_up(int value, int unit) { return ceil_div(value, unit) * unit; }

// Heads of one group share a KV head, and their outputs are adjacent: where a segment's heads do
// not fill whole blocks of 32 columns, the padding cuts the group.
std::vector<HeadGroup> head_groups(const RankColumns& columns, const ModelDescription& model) {
  std::vector<HeadGroup> groups;
  for (int i = 0; i < columns.query_heads.count(); ++i) {
    const int kv_head =
        (columns.query_heads.begin + i) / model.heads_per_kv() - columns.kv_heads.begin;
    const bool adjacent =
        i > 0 && columns.attention_head[i] == columns.attention_head[i - 1] + model.head_dim;
    if (!groups.empty() && groups.back().kv_head == kv_head && adjacent) {
      groups.back().q_head_end = i + 1;
    } else {
      groups.push_back({.kv_head = kv_head, .q_head_begin = i, .q_head_end = i + 1});
    }
  }
  return groups;
}

bool is_packed(const kernels::PackedMatrix& matrix) {
  return matrix.format() != kernels::WeightFormat::kBf16Panels;
}

bool has_packed_weights(const Weights& weights, int ranks) {
  const auto in_part = [](const ProjectionPart& part) { return is_packed(part.weights); };
  const auto in_segment = [](const SegmentMatrix& segment) { return is_packed(segment.weights); };
  const auto in_layer = [&](const LayerWeights& layer) {
    return std::ranges::any_of(layer.qkv.parts, in_part) ||
           std::ranges::any_of(layer.attn_output, in_segment) ||
           std::ranges::any_of(layer.gate_up.parts, in_part) ||
           std::ranges::any_of(layer.ffn_down, in_segment);
  };
  for (int rank = 0; rank < ranks; ++rank) {
    if (std::ranges::any_of(weights.rank(rank).layers, in_layer) ||
        std::ranges::any_of(weights.rank(rank).head.parts, in_part)) {
      return true;
    }
  }
  return false;
}

bool has_aligned_heads(const Weights& weights, int ranks) {
  bool aligned = weights.description().head_dim % kernels::kBlockK == 0;
  for (int rank = 0; rank < ranks; ++rank) {
    aligned = aligned && std::ranges::all_of(weights.rank(rank).columns.attention_head,
                                             [](int at) { return at % kernels::kBlockK == 0; });
  }
  return aligned;
}

void check_sequence(const ForwardSequence& sequence, const ModelDescription& model,
                    const kv_cache::KvPool& pool) {
  const auto count = static_cast<int>(sequence.tokens.size());
  BATON_CHECK(count > 0, "a sequence of a step brings a token");
  BATON_CHECK(sequence.first_position >= 0 && sequence.first_position <= model.max_context - count,
              "positions lie in the context");
  const int tokens = sequence.first_position + count;
  const int block_tokens = pool.layout().block_tokens;
  const auto covered =
      static_cast<size_t>(round_up(tokens, block_tokens)) / static_cast<size_t>(block_tokens);
  for (int group = 0; group < pool.layout().group_count(); ++group) {
    const std::span<const BlockId> table = sequence.table(group);
    BATON_CHECK(table.size() >= covered, "the block table covers all tokens");
    const int seen =
        pool.layout().groups[static_cast<size_t>(group)].first_visible(sequence.first_position);
    for (const BlockId id : table.subspan(static_cast<size_t>(seen / block_tokens))) {
      BATON_CHECK(id < static_cast<BlockId>(pool.blocks(group)), "a block of the pool");
    }
  }
  for (const TokenId token : sequence.tokens) {
    BATON_CHECK(token >= 0 && token < model.vocab, "a token of the vocabulary");
  }
}

}  // namespace

Forward::Forward(const Weights& weights, std::span<const kv_cache::KvPool> pools,
                 const Options& options)
    : state_(std::make_unique<ForwardState>(weights, pools, options)) {
  ForwardState& s = *state_;
  const ModelDescription& model = weights.description();
  const SegmentPlan& plan = weights.plan();
  BATON_CHECK(static_cast<int>(pools.size()) == plan.ranks(), "one pool per rank");
  s.hidden_bf16_stride = round_up(model.hidden, kernels::kBlockK);
  s.hidden_f32_stride = round_up(model.hidden, kernels::kPanelRows);
  s.logits_stride = round_up(model.vocab, kernels::kPanelRows);
  s.max_logits_rows =
      std::clamp(static_cast<int>(kLogitsBytes / (sizeof(float) * size_t(s.logits_stride))),
                 kMinLogitsRows, kMaxLogitsRows);
  s.some_packed = has_packed_weights(weights, plan.ranks());
  s.aligned_heads = has_aligned_heads(weights, plan.ranks());
  s.parts.resize(static_cast<size_t>(plan.segments()));
  s.ranks.resize(static_cast<size_t>(plan.ranks()));
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    s.ranks[rank].groups = head_groups(weights.rank(rank).columns, model);
  }
}

Forward::~Forward() = default;

namespace {

// Rows are doubled, so that batches that grow by one do not reallocate each time.
int grown(int capacity, int needed, int limit) {
  return std::clamp(std::max(needed, 2 * capacity), std::min(16, limit), limit);
}

}  // namespace

void Forward::prepare(std::span<const ForwardSequence> sequences) {
  ForwardState& s = *state_;
  const ModelDescription& model = s.weights.description();
  const kv_cache::KvLayout& layout = s.pools.front().layout();
  const int block_tokens = layout.block_tokens;
  s.sequences.assign(sequences.begin(), sequences.end());
  s.first_rows.clear();
  s.tokens.clear();
  s.positions.clear();
  for (std::vector<BlockId>& blocks : s.slot_blocks) {
    blocks.clear();
  }
  s.logits_rows.clear();
  s.context = 0;
  for (const ForwardSequence& sequence : sequences) {
    check_sequence(sequence, model, s.pools.front());
    s.first_rows.push_back(s.rows());
    const auto count = static_cast<int>(sequence.tokens.size());
    for (int i = 0; i < count; ++i) {
      const int position = sequence.first_position + i;
      if (sequence.logits == LogitsWanted::kAll ||
          (sequence.logits == LogitsWanted::kLast && i == count - 1)) {
        s.logits_rows.push_back(s.rows());
      }
      s.tokens.push_back(sequence.tokens[i]);
      s.positions.push_back(position);
      for (int group = 0; group < layout.group_count(); ++group) {
        s.slot_blocks[static_cast<size_t>(group)].push_back(
            sequence.table(group)[static_cast<size_t>(position / block_tokens)]);
      }
    }
    s.context = std::max(s.context, sequence.first_position + count);
  }
  BATON_CHECK(s.rows() > 0 && s.rows() <= s.options.max_batch_tokens,
              "a step has 1..max_batch_tokens tokens");
  s.grow();
  s.lay_out_attention();
}

// For the rows of `values`, as many as are ever coded.
AlignedArray<kernels::CodeBlock> ForwardState::codes_of(const AlignedArray<uint16_t>& values,
                                                        int rows) const {
  while (rows > 0 && !codes_rows(rows)) {
    rows /= 2;
  }
  return AlignedArray<kernels::CodeBlock>(rows == 0 ? 0 : values.size() / kernels::kBlockK);
}

void ForwardState::grow() {
  const ModelDescription& model = weights.description();
  const auto logits_count = static_cast<int>(logits_rows.size());
  if (logits_count > logits_capacity) {
    logits_capacity = grown(logits_capacity, logits_count, options.max_batch_tokens);
    head_x = AlignedArray<uint16_t>(size_t(logits_capacity) * hidden_bf16_stride);
    logits =
        AlignedArray<float>(size_t(std::min(logits_capacity, max_logits_rows)) * logits_stride);
    head_codes = codes_of(head_x, logits_capacity);
  }
  if (rows() <= rows_capacity) {
    return;
  }
  rows_capacity = grown(rows_capacity, rows(), options.max_batch_tokens);
  const auto n = static_cast<size_t>(rows_capacity);
  residual = AlignedArray<float>(n * model.hidden);
  x = AlignedArray<uint16_t>(n * hidden_bf16_stride);
  x_codes = codes_of(x, rows_capacity);
  attention_parts.clear();
  ffn_parts.clear();
  const SegmentPlan& plan = weights.plan();
  for (int segment = 0; segment < plan.segments(); ++segment) {
    AlignedArray<float>& part = parts[segment];
    part = AlignedArray<float>(n * hidden_f32_stride);
    if (!plan.query_heads(segment).empty()) {
      attention_parts.push_back(part.data());
    }
    if (!plan.ffn_columns(segment).empty()) {
      ffn_parts.push_back(part.data());
    }
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankWeights& w = weights.rank(static_cast<int>(rank));
    RankState& r = ranks[rank];
    r.qkv = AlignedArray<float>(n * w.layers.front().qkv.columns);
    r.q = AlignedArray<uint16_t>(n * w.columns.query_heads.count() * model.head_dim);
    r.attention = AlignedArray<uint16_t>(n * w.columns.attention_columns);
    r.ffn = AlignedArray<uint16_t>(n * w.columns.ffn_columns);
    r.attention_codes = codes_of(r.attention, aligned_heads ? rows_capacity : 0);
    r.ffn_codes = codes_of(r.ffn, rows_capacity);
  }
}

void ForwardState::add_attention_items(RankState& rank, int sequence, int most_splits) const {
  const auto count = static_cast<int>(sequences[sequence].tokens.size());
  for (int g = 0; g < static_cast<int>(rank.groups.size()); ++g) {
    const HeadGroup& group = rank.groups[g];
    const int grain =
        kernels::attention_row_grain(options.isa, group.q_head_end - group.q_head_begin);
    for (int begin = 0; begin < count; begin += grain) {
      AttentionItem item = {.sequence = sequence,
                            .group = g,
                            .row_begin = begin,
                            .row_end = std::min(begin + grain, count)};
      item.split_end = kernels::attention_splits(keys_of(item));
      // Several tiles of rows are items enough.
      if (count <= grain && item.split_end > most_splits) {
        add_split_items(rank, item, most_splits);
      } else {
        rank.items.push_back(item);
      }
    }
  }
}

void ForwardState::add_split_items(RankState& rank, AttentionItem whole, int most_splits) const {
  const HeadGroup& group = rank.groups[whole.group];
  const int pairs = (whole.row_end - whole.row_begin) * (group.q_head_end - group.q_head_begin);
  if (pairs > kernels::kTilePairs) {  // more query heads than a tile has room for
    rank.items.push_back(whole);
    return;
  }
  const int splits = whole.split_end;
  const int items = ceil_div(splits, most_splits);
  whole.merge = static_cast<int>(rank.merges.size());
  rank.merges.push_back({.items = items, .parts = rank.merge_parts_used});
  rank.merge_parts_used +=
      kernels::attention_parts_size(weights.description().head_dim, pairs, keys_of(whole));
  for (int i = 0; i < items; ++i) {
    whole.split_begin = splits * i / items;
    whole.split_end = splits * (i + 1) / items;
    rank.items.push_back(whole);
  }
}

// So that no thread is left alone with a long context.
int ForwardState::most_splits_of_item(const RankState& rank) const {
  int64_t splits = 0;
  for (const ForwardSequence& sequence : sequences) {
    splits += kernels::attention_splits(sequence.first_position +
                                        static_cast<int>(sequence.tokens.size()));
  }
  splits *= static_cast<int64_t>(rank.groups.size());
  return static_cast<int>(
      std::clamp<int64_t>(splits / (kItemsPerThread * options.threads), 1, splits));
}

void ForwardState::lay_out_attention() {
  const auto cost = [&](const AttentionItem& item) {
    const int keys = std::min(keys_of(item), item.split_end * kernels::kSplitKeys) -
                     item.split_begin * kernels::kSplitKeys;
    return int64_t{item.row_end - item.row_begin} * keys;
  };
  for (RankState& rank : ranks) {
    rank.items.clear();
    rank.merges.clear();
    rank.merge_parts_used = 0;
    const int most_splits = most_splits_of_item(rank);
    for (int i = 0; i < static_cast<int>(sequences.size()); ++i) {
      add_attention_items(rank, i, most_splits);
    }
    std::ranges::sort(rank.items, std::greater<>(), cost);
    // Powers of two, so that a growing context does not grow them at every step.
    if (rank.merge_parts_used > rank.merge_parts.size()) {
      rank.merge_parts = AlignedArray<float>(std::bit_ceil(rank.merge_parts_used));
    }
    if (rank.merges.size() > rank.merge_counts.size()) {
      rank.merge_counts = AlignedArray<int>(std::bit_ceil(rank.merges.size()));
    }
  }
}

int Forward::rows() const { return state_->rows(); }

void Forward::run(device::TeamThread& thread, const ForwardHooks& hooks) const {
  ForwardPass(*state_, thread, hooks).run();
}

size_t Forward::activation_bytes() const {
  const ForwardState& s = *state_;
  size_t bytes = s.residual.bytes() + s.x.bytes() + s.head_x.bytes() + s.logits.bytes() +
                 s.x_codes.bytes() + s.head_codes.bytes();
  for (const AlignedArray<float>& part : s.parts) {
    bytes += part.bytes();
  }
  for (const RankState& rank : s.ranks) {
    bytes += rank.qkv.bytes() + rank.q.bytes() + rank.attention.bytes() + rank.ffn.bytes() +
             rank.merge_parts.bytes() + rank.attention_codes.bytes() + rank.ffn_codes.bytes();
  }
  return bytes;
}

}  // namespace baton::model
