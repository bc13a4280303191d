#include "common/worker/sequence.h"

#include <algorithm>
#include <utility>

namespace baton::worker {

using kv_cache::BlockLease;
using kv_cache::BlockPools;
using kv_cache::CacheKind;
using kv_cache::PerGroup;

void Sequence::adopt(kv_cache::Leases blocks, int computed) {
  BATON_CHECK(computed <= size(), "more KV than tokens");
  blocks_ = std::move(blocks);
  computed_ = computed;
  published_ = 0;
  to_copy_ = {};
  for (size_t g = 0; g < blocks_.size(); ++g) {
    cleaned_[g] = blocks_[g].size();
  }
}

void Sequence::copy_part(BlockPools::Part part) {
  BATON_CHECK(computed_ + part.tokens < size(), "the last token is fed");
  to_copy_ = std::move(part);
  computed_ += to_copy_.tokens;
}

PerGroup<int> Sequence::missing(int tokens, const BlockPools& pools) const {
  PerGroup<int> counts{};
  for (int g = 0; g < pools.groups(); ++g) {
    counts[static_cast<size_t>(g)] =
        std::max(0, pools.blocks_for(tokens) - static_cast<int>(lease(g).size()));
  }
  return counts;
}

Status Sequence::grow(const PerGroup<int>& counts, BlockPools& pools) {
  PerGroup<BlockLease> more;
  for (int g = 0; g < pools.groups(); ++g) {
    const auto at = static_cast<size_t>(g);
    if (counts[at] > 0) {
      BATON_ASSIGN_OR_RETURN(more[at], pools.pool(g).allocate(counts[at]));
    }
  }
  for (size_t g = 0; g < more.size(); ++g) {
    blocks_[g].append(std::move(more[g]));
  }
  return Status();
}

Status Sequence::reserve(int tokens, BlockPools& pools) {
  PerGroup<int> counts = missing(tokens, pools);
  for (int g = 0; g < pools.groups(); ++g) {
    if (pools.group(g).kind != CacheKind::kFull) {
      counts[static_cast<size_t>(g)] = 0;
    }
  }
  return grow(counts, pools);
}

int Sequence::at_most(int count, int blocks, const BlockPools& pools) const {
  for (int g = 0; g < pools.groups(); ++g) {
    if (pools.group(g).kind == CacheKind::kWindow) {
      const int end = (pools.first_block(g, computed_) + blocks) * pools.block_tokens();
      count = std::min(count, end - computed_);
    }
  }
  return count;
}

Result<engine::SequencePlan*> Sequence::feed(int count, BlockPools& pools,
                                             engine::BatchPlan& plan) {
  BATON_CHECK(count >= 1 && count <= pending(), "feed of tokens that are not there");
  BATON_RETURN_IF_ERROR(grow(missing(computed_ + count, pools), pools));
  engine::SequencePlan& entry = plan.sequences.emplace_back();
  entry.id = id_;
  entry.tokens.assign(tokens_.begin() + computed_, tokens_.begin() + computed_ + count);
  entry.first_position = computed_;
  const auto covered = static_cast<size_t>(pools.blocks_for(computed_ + count));
  for (int g = 0; g < pools.groups(); ++g) {
    const std::span<const BlockId> ids = blocks(g);
    size_t& cleaned = cleaned_[static_cast<size_t>(g)];
    if (g == 0 && to_copy_.tokens > 0) {
      plan.copies.push_back({to_copy_.source.ids()[0], ids[cleaned], g});
      ++cleaned;
    }
    std::vector<BlockId>& zero = g == 0 ? plan.zero_values : plan.window_zero_values;
    zero.insert(zero.end(), ids.begin() + static_cast<std::ptrdiff_t>(cleaned), ids.end());
    cleaned = ids.size();
    (g == 0 ? entry.blocks : entry.window_blocks)
        .assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(covered));
  }
  entry.logits = count == pending() ? engine::LogitsWanted::kLast : engine::LogitsWanted::kNone;
  return &entry;
}

void Sequence::fed(int count, BlockPools& pools, std::string_view salt) {
  computed_ += count;
  to_copy_ = {};
  publish(pools, salt);
  for (int g = 0; g < pools.groups(); ++g) {
    blocks_[static_cast<size_t>(g)].vacate_front(
        static_cast<size_t>(pools.first_block(g, computed_)));
  }
}

void Sequence::publish(BlockPools& pools, std::string_view salt) {
  const auto full = static_cast<size_t>(computed_ / pools.block_tokens());
  if (full > published_) {
    const auto tokens = std::span(tokens_).first(full * static_cast<size_t>(pools.block_tokens()));
    pools.publish(tokens, blocks_, published_, salt);
    published_ = full;
  }
}

void Sequence::drop_kv() {
  for (BlockLease& lease : blocks_) {
    lease.release();
  }
  cleaned_ = {};
  computed_ = 0;
  published_ = 0;
  to_copy_ = {};
}

Result<Sequence> Sequence::fork(SequenceId id, BlockPools& pools, engine::BatchPlan& plan) const {
  const auto full = static_cast<size_t>(computed_ / pools.block_tokens());
  const bool partial = computed_ % pools.block_tokens() != 0;
  PerGroup<BlockLease> copies;
  for (int g = 0; partial && g < pools.groups(); ++g) {
    BATON_ASSIGN_OR_RETURN(copies[static_cast<size_t>(g)], pools.pool(g).allocate(1));
  }
  Sequence sibling(id, tokens_);
  for (int g = 0; g < pools.groups(); ++g) {
    const auto at = static_cast<size_t>(g);
    if (partial) {
      plan.copies.push_back({blocks(g)[full], copies[at].ids()[0], g});
    }
    sibling.blocks_[at] = blocks_[at].share();
    sibling.blocks_[at].truncate(full);
    sibling.blocks_[at].append(std::move(copies[at]));
    sibling.cleaned_[at] = sibling.blocks_[at].size();
  }
  sibling.computed_ = computed_;
  sibling.published_ = std::min(published_, full);
  return sibling;
}

}  // namespace baton::worker
