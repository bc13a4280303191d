#include "deploy/baton/sequence_runner.h"

#include <algorithm>
#include <utility>

namespace baton::cli {

int SequenceRunner::capacity() const {
  const kv_cache::KvPool& pool = engine_.pool(0);
  return std::min(pool.blocks() * pool.layout().block_tokens, engine_.description().max_context);
}

std::unique_ptr<engine::BatchPlan> SequenceRunner::plan(std::span<const TokenId> tokens) {
  const int block_tokens = engine_.pool(0).layout().block_tokens;
  const int end = position_ + static_cast<int>(tokens.size());
  auto batch = std::make_unique<engine::BatchPlan>();
  engine::SequencePlan sequence;
  sequence.id = SequenceId{1};
  sequence.tokens.assign(tokens.begin(), tokens.end());
  sequence.first_position = position_;
  const auto blocks_for = [block_tokens](int count) {
    return static_cast<BlockId>((count + block_tokens - 1) / block_tokens);
  };
  for (BlockId block = 0; block < blocks_for(end); ++block) {
    sequence.blocks.push_back(block);
    if (block >= blocks_for(position_)) {
      batch->zero_values.push_back(block);
    }
  }
  if (engine_.pool(0).layout().group_count() > 1) {
    sequence.window_blocks = sequence.blocks;
    batch->window_zero_values = batch->zero_values;
  }
  batch->sequences.push_back(std::move(sequence));
  position_ = end;
  return batch;
}

engine::StepOutput SequenceRunner::run(std::unique_ptr<engine::BatchPlan> batch) {
  engine::StepOutput output = engine_.run(std::move(batch));
  attention_seconds_ += output.attention_seconds;
  return output;
}

void SequenceRunner::feed(std::span<const TokenId> tokens) {
  while (!tokens.empty()) {
    const auto count = std::min(tokens.size(), static_cast<size_t>(chunk_));
    run(plan(tokens.first(count)));
    tokens = tokens.subspan(count);
  }
}

std::unique_ptr<engine::BatchPlan> SequenceRunner::feed_all_but_last(
    std::span<const TokenId> tokens) {
  const size_t last = (tokens.size() - 1) % static_cast<size_t>(chunk_) + 1;
  feed(tokens.first(tokens.size() - last));
  return plan(tokens.last(last));
}

Result<std::vector<float>> SequenceRunner::feed_for_logits(std::span<const TokenId> tokens,
                                                           bool every_row) {
  std::vector<float> rows;
  while (!tokens.empty()) {
    const size_t count =
        every_row ? std::min(tokens.size(), static_cast<size_t>(chunk_)) : tokens.size();
    std::unique_ptr<engine::BatchPlan> batch = feed_all_but_last(tokens.first(count));
    tokens = tokens.subspan(count);
    engine::SequencePlan& sequence = batch->sequences[0];
    sequence.logits = every_row ? engine::LogitsWanted::kAll : engine::LogitsWanted::kLast;
    sequence.return_logits = true;
    engine::StepOutput output = run(std::move(batch));
    BATON_RETURN_IF_ERROR(output.sequences[0].error);
    const std::vector<float>& logits = output.sequences[0].logits;
    rows.insert(rows.end(), logits.begin(), logits.end());
  }
  return rows;
}

Result<SequenceRunner::Next> SequenceRunner::feed_and_sample(std::span<const TokenId> tokens,
                                                             sampling::SequenceSampler& sampler,
                                                             bool return_logits) {
  std::unique_ptr<engine::BatchPlan> batch = feed_all_but_last(tokens);
  engine::SequencePlan& sequence = batch->sequences[0];
  sequence.logits = engine::LogitsWanted::kLast;
  sequence.return_logits = return_logits;
  sequence.samples.push_back({&sampler});
  engine::StepOutput output = run(std::move(batch));
  engine::SequenceOutput& out = output.sequences[0];
  BATON_RETURN_IF_ERROR(out.error);
  return Next{std::move(out.samples.at(0)), std::move(out.logits)};
}

}  // namespace baton::cli
