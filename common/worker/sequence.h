#pragma once

// One sequence of a worker: its tokens, how many of them have KV, and its blocks. Prefill, a chunk,
// decode and recomputation after preemption are the same for it: feed the next tokens; when the
// last known token has been fed, its row is sampled.
//
// It has a block table in each cache group. In a window group blocks come with the step that fills
// them, and go back after the step from whose end on nobody sees them.
//
// Used by the worker loop only.

#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/engine/engine.h"
#include "common/kv_cache/block_pools.h"

namespace baton::worker {

class Sequence {
 public:
  Sequence(SequenceId id, std::vector<TokenId> tokens) : id_(id), tokens_(std::move(tokens)) {}

  SequenceId id() const { return id_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  int size() const { return static_cast<int>(tokens_.size()); }
  int computed() const { return computed_; }          // positions [0, computed) have KV
  int pending() const { return size() - computed_; }  // tokens still to be fed
  std::span<const BlockId> blocks(int group = 0) const { return lease(group).ids(); }
  const kv_cache::BlockLease& lease(int group) const { return blocks_[static_cast<size_t>(group)]; }

  // KV that is there already: prefix hits, or what a transfer brought. Replaces what was held.
  void adopt(kv_cache::Leases blocks, int computed);
  // After adopt(): KV of more tokens is in a block of others, a copy of which the next feed()
  // plans. Until that step is done the block is held.
  void copy_part(kv_cache::BlockPools::Part part);
  // As computed(), but for what is yet to be copied.
  int stored() const { return computed_ - to_copy_.tokens; }
  void append(TokenId token) { tokens_.push_back(token); }

  // Allocates the blocks of a full group for the first `tokens` tokens ahead of time.
  // resource_exhausted, with nothing changed, when blocks run out.
  Status reserve(int tokens, kv_cache::BlockPools& pools);

  // Allocates what is missing for the next `count` tokens, enters blocks that
  // are new to it into the plan's zero_values, and adds the tokens to the plan. With `count` =
  // pending() the last row gets logits and the caller adds its samplers to the returned entry.
  // resource_exhausted, with nothing changed, when blocks run out.
  Result<engine::SequencePlan*> feed(int count, kv_cache::BlockPools& pools,
                                     engine::BatchPlan& plan);
  // How many of the next `count` tokens a step may take that leaves the sequence no more than
  // `blocks` blocks of each window group at a time.
  int at_most(int count, int blocks, const kv_cache::BlockPools& pools) const;

  // The step that fed `count` tokens is done: enters blocks that became full into the prefix cache,
  // and gives back those that no later token sees.
  void fed(int count, kv_cache::BlockPools& pools, std::string_view salt);
  // Gives back all blocks; the tokens stay and are computed again later (preemption).
  void drop_kv();
  // Enters all full blocks into the prefix cache (what a transfer brought).
  void publish(kv_cache::BlockPools& pools, std::string_view salt);

  // A sibling choice: shares the full blocks, and gets a copy of the partial last one, which the
  // plan makes. resource_exhausted when there is no block for the copy.
  Result<Sequence> fork(SequenceId id, kv_cache::BlockPools& pools, engine::BatchPlan& plan) const;

 private:
  // Places up to the end of `tokens` tokens, in the groups of that kind.
  kv_cache::PerGroup<int> missing(int tokens, const kv_cache::BlockPools& pools) const;
  Status grow(const kv_cache::PerGroup<int>& counts, kv_cache::BlockPools& pools);

  SequenceId id_;
  std::vector<TokenId> tokens_;
  int computed_ = 0;
  kv_cache::Leases blocks_;
  kv_cache::BlockPools::Part to_copy_;  // into the first block after the adopted ones
  size_t published_ = 0;                // places
  // Leading places that need no zeroing: adopted, or in an earlier plan.
  kv_cache::PerGroup<size_t> cleaned_{};
};

}  // namespace baton::worker
