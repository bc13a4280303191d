#pragma once

// One sequence on an engine of our own: tokens in, logits or a sampled token out. No batching, no
// prefix cache; blocks are numbered from 0.

#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/engine/engine.h"

namespace baton::cli {

class SequenceRunner {
 public:
  // `chunk`: the most tokens of a step. The engine outlives the runner and runs nothing else.
  SequenceRunner(engine::Engine& engine, int chunk) : engine_(engine), chunk_(chunk) {}

  int position() const { return position_; }
  // Room for this many tokens in the engine's pool and in the model's context.
  int capacity() const;

  // Feeds `tokens` after what was fed before, without looking at logits.
  // Precondition of all three: position() + tokens.size() <= capacity(), ids in the vocabulary.
  void feed(std::span<const TokenId> tokens);
  // The same; the f32 logits of the last token of them, or of every one: [rows, vocab].
  Result<std::vector<float>> feed_for_logits(std::span<const TokenId> tokens, bool every_row);
  // The same, and samples from the last token's logits, which are returned too when asked for.
  struct Next {
    sampling::Sampled sampled;
    std::vector<float> logits;  // [vocab], or empty
  };
  Result<Next> feed_and_sample(std::span<const TokenId> tokens, sampling::SequenceSampler& sampler,
                               bool return_logits);
  // Begins another sequence.
  void reset() {
    position_ = 0;
    attention_seconds_ = 0;
  }
  // Of the steps of this sequence.
  double attention_seconds() const { return attention_seconds_; }

 private:
  // All but the last step's worth of tokens is fed; the plan of that step.
  std::unique_ptr<engine::BatchPlan> feed_all_but_last(std::span<const TokenId> tokens);
  std::unique_ptr<engine::BatchPlan> plan(std::span<const TokenId> tokens);
  engine::StepOutput run(std::unique_ptr<engine::BatchPlan> batch);

  engine::Engine& engine_;
  int chunk_;
  int position_ = 0;
  double attention_seconds_ = 0;
};

}  // namespace baton::cli
