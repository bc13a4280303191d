#include "common/worker/sequence.h"

#include <algorithm>

namespace baton::worker {

void Sequence::adopt(kv_cache::BlockLease blocks, int computed) {
  BATON_CHECK(computed <= size(), "more KV than tokens");
  blocks_ = std::move(blocks);
  computed_ = computed;
  published_ = 0;
  cleaned_ = blocks_.size();
}

int Sequence::blocks_missing(int count, const kv_cache::BlockPool& pool) const {
  return std::max(0, pool.blocks_for(computed_ + count) - static_cast<int>(blocks_.size()));
}

Status Sequence::reserve(int tokens, kv_cache::BlockPool& pool) {
  const int missing = pool.blocks_for(tokens) - static_cast<int>(blocks_.size());
  if (missing > 0) {
    BATON_ASSIGN_OR_RETURN(kv_cache::BlockLease more, pool.allocate(missing));
    blocks_.append(std::move(more));
  }
  return Status();
}

Result<engine::SequencePlan*> Sequence::feed(int count, kv_cache::BlockPool& pool,
                                             engine::BatchPlan& plan) {
  BATON_CHECK(count >= 1 && count <= pending(), "feed of tokens that are not there");
  BATON_RETURN_IF_ERROR(reserve(computed_ + count, pool));
  const std::span<const BlockId> ids = blocks_.ids();
  plan.zero_values.insert(plan.zero_values.end(),
                          ids.begin() + static_cast<std::ptrdiff_t>(cleaned_), ids.end());
  cleaned_ = ids.size();
  engine::SequencePlan& entry = plan.sequences.emplace_back();
  entry.id = id_;
  entry.tokens.assign(tokens_.begin() + computed_, tokens_.begin() + computed_ + count);
  entry.first_position = computed_;
  const auto covered = static_cast<size_t>(pool.blocks_for(computed_ + count));
  entry.blocks.assign(blocks_.ids().begin(),
                      blocks_.ids().begin() + static_cast<std::ptrdiff_t>(covered));
  entry.logits = count == pending() ? engine::LogitsWanted::kLast : engine::LogitsWanted::kNone;
  return &entry;
}

void Sequence::fed(int count, kv_cache::BlockPool& pool, std::string_view salt) {
  computed_ += count;
  publish(pool, salt);
}

void Sequence::publish(kv_cache::BlockPool& pool, std::string_view salt) {
  const auto full = static_cast<size_t>(computed_ / pool.block_tokens());
  if (full > published_) {
    const auto tokens = std::span(tokens_).first(full * static_cast<size_t>(pool.block_tokens()));
    pool.publish(tokens, blocks_.ids().first(full), published_, salt);
    published_ = full;
  }
}

void Sequence::drop_kv() {
  blocks_.release();
  cleaned_ = 0;
  computed_ = 0;
  published_ = 0;
}

Result<Sequence> Sequence::fork(SequenceId id, kv_cache::BlockPool& pool,
                                engine::BatchPlan& plan) const {
  const auto full = static_cast<size_t>(computed_ / pool.block_tokens());
  const bool partial = computed_ % pool.block_tokens() != 0;
  kv_cache::BlockLease copy;
  if (partial) {
    BATON_ASSIGN_OR_RETURN(copy, pool.allocate(1));
    plan.copies.push_back({blocks_.ids()[full], copy.ids()[0]});
  }
  Sequence sibling(id, tokens_);
  sibling.blocks_ = blocks_.share();
  sibling.blocks_.truncate(full);
  sibling.blocks_.append(std::move(copy));
  sibling.cleaned_ = sibling.blocks_.size();
  sibling.computed_ = computed_;
  sibling.published_ = std::min(published_, full);
  return sibling;
}

}  // namespace baton::worker
