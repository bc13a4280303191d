#pragma once

// Which bytes go from which source rank to which target rank, and where they lie.
//
// The push unit B is the larger of both block sizes. A piece is B tokens at a multiple of B, of one
// layer and one target rank: [K|V][head][group of 32 tokens], heads = all that the target rank
// holds. A head that several source ranks hold is read from the lowest of them, and sent once for
// every target rank that holds it, so that each needed byte has exactly one source.
//
// Of a group of windows only the pieces that hold what the token after the last one sees travel:
// those from first_piece() on. Its blocks are as large on both sides, so that a block that travels
// is whole.
//
// Layout pairs32 on both sides: blocks exchange whole groups of 32 tokens, which lie contiguous in
// both pools whatever the block sizes are. Neighbouring memory is merged into one slice: one slice
// per block side when blocks and heads match.

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/kv_cache/block_pools.h"
#include "common/kv_cache/kv_pool.h"
#include "kv_transfer/data_path.h"

namespace baton::kv_transfer {

// One worker's cutting of the cache.
struct PlanSide {
  int block_tokens = 32;
  std::vector<kv_cache::HeadRange> ranks;
};

// Pieces [first, first + count) of one layer for one target rank: the payload of a DATA.
struct PieceRun {
  int layer = 0;
  int dst_rank = 0;
  int first = 0;
  int count = 0;
};

// A sequence's KV in the pools of all ranks of a worker.
struct SequenceBlocks {
  std::span<const kv_cache::KvPool* const> pools;
  std::span<const BlockId> table;  // of the first cache group
  int tokens = 0;
  std::span<const BlockId> window_table{};  // of the second
};

class PiecePlan {
 public:
  // Groups and their layers are those of `layout`. incompatible when a head that a target rank
  // needs has no source, when block sizes are no powers of two that hold whole groups of 32, or
  // when they differ and there are windows.
  static Result<PiecePlan> make(const kv_cache::KvLayout& layout, PlanSide source, PlanSide target);

  int unit_tokens() const { return unit_tokens_; }
  int layers() const { return layout_.layers(); }
  int cache_groups() const { return layout_.group_count(); }
  int group_of(int layer) const { return layout_.group_of(layer); }
  int target_ranks() const { return static_cast<int>(target_.ranks.size()); }
  kv_cache::HeadRange target_heads(int dst_rank) const {
    return target_.ranks[static_cast<size_t>(dst_rank)];
  }
  int source_rank(int head) const { return source_of_head_[static_cast<size_t>(head)]; }
  int pieces(int tokens) const { return (tokens + unit_tokens_ - 1) / unit_tokens_; }
  // The first piece of a group that the token at position `tokens` sees something of.
  int first_piece(int group, int tokens) const {
    return layout_.groups[static_cast<size_t>(group)].first_visible(tokens) / unit_tokens_;
  }
  size_t piece_bytes(int dst_rank) const {
    return bytes_per_head_ * static_cast<size_t>(target_heads(dst_rank).count());
  }
  // Pieces of one layer of each group, from `first` to `end`, summed over the groups.
  int count(const kv_cache::PerGroup<int>& first, int end) const;
  // Bytes of the pieces from `first` to `end`, all layers and target ranks.
  uint64_t total_bytes(const kv_cache::PerGroup<int>& first, int end) const;
  // How many pieces for a rank fit a message.
  int max_run(int dst_rank) const;

  // Where a run is read, in wire order. Token slots that the sequence does not fill are read as
  // zeros: whole groups from a page of zeros, the K half of the last, partial group from a copy in
  // `staging` (that must live as long as the slices; the V half is zero by the pool's contract).
  std::vector<IoSlice> gather(const PieceRun& run, const SequenceBlocks& from,
                              std::vector<std::byte>& staging) const;
  // Where a run is written. Groups past the last block of the table go to `spill` (group_bytes):
  // they carry zeros.
  std::vector<IoSlice> scatter(const PieceRun& run, const SequenceBlocks& to,
                               std::span<std::byte> spill) const;

  static constexpr size_t kMaxMessageBytes = 2u << 20;
  static constexpr int kMaxMessageBlocks = 64;

 private:
  PiecePlan() = default;
  size_t group_bytes() const { return bytes_per_head_ / 2 / static_cast<size_t>(groups()); }
  int groups() const { return unit_tokens_ / kv_cache::kGroupTokens; }

  PlanSide source_;
  PlanSide target_;
  int unit_tokens_ = 0;
  kv_cache::KvLayout layout_;  // its groups and layers
  size_t bytes_per_head_ = 0;  // K and V of one head in one piece
  std::vector<int> source_of_head_;
  std::vector<std::byte> zeros_;
};

}  // namespace baton::kv_transfer
