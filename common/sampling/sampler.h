#pragma once

// Turns a row of logits into a token, by one fixed order of operations (README.md), so that the
// same request gives the same tokens on every instruction set, in every batch, before and after it
// moves to another worker.
//
// logits -> bias -> repetition, presence, frequency penalty -> allowed tokens, bad words,
// min_tokens mask -> grammar -> greedy, or temperature -> top-k -> min-p -> softmax -> top-p ->
// draw by Philox4x32-10 (key = seed, counter = (choice, output index, 0, 0)).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/params.h"
#include "common/sampling/scratch.h"

namespace baton::grammar {
class Matcher;
class Recognizer;
}  // namespace baton::grammar

namespace baton::sampling {

class Penalties;
class Restrictions;

struct Sampled {
  TokenId id = 0;
  FinishReason finish = FinishReason::kNone;
  std::optional<TokenLogprobs> logprobs;  // of the raw logits; set when params.logprobs >= 0
};

// The sampler of one choice of one request. Its state is derived: a sampler built from the same
// parameters, prompt and output continues exactly like the one that produced that output, which is
// how a preempted or moved request goes on.
//
// Not thread-safe; samplers of different choices are independent. Never blocks.
class SequenceSampler {
 public:
  using MakeGrammar = std::function<Result<std::shared_ptr<grammar::Recognizer>>()>;

  // `params` should have passed validate(). Ids of prompt and output outside [0, vocab_size) are
  // ignored by the penalties. Nothing of the spans is kept. `grammar` restricts the output, null
  // does not; it is called by the first sample(), on the thread that computes, because a grammar
  // that nobody has asked for before has to be compiled.
  SequenceSampler(SamplingParams params, std::span<const TokenId> prompt,
                  std::span<const TokenId> output_so_far, int choice, int vocab_size,
                  MakeGrammar grammar = nullptr);
  ~SequenceSampler();
  SequenceSampler(SequenceSampler&&) noexcept;
  SequenceSampler& operator=(SequenceSampler&&) noexcept;

  // Samples output number output_count() and records it. `logits` holds at least vocab_size values
  // ([vocab], f32) of which the first vocab_size count, and is overwritten. Fails, recording
  // nothing, with internal_error when a logit is NaN or +infinity or all are -infinity, with
  // invalid_argument when the request's own rules leave no token or when penalties or temperature
  // overflow f32, and as `grammar` and grammar::Matcher::allowed say; the request cannot go on
  // then.
  //
  // O(vocab_size); about 0.1 ms for 128k entries.
  Result<Sampled> sample(std::span<float> logits, Scratch& scratch);

  // Records a token that was chosen elsewhere (an accepted draft) and says whether it ends the
  // choice.
  FinishReason accept(TokenId id);

  int output_count() const;
  const SamplingParams& params() const;

 private:
  Result<TokenId> choose(std::span<float> logits, Scratch& scratch);
  bool ends(TokenId id) const;
  FinishReason finish_of(TokenId id) const;
  Status process_logits(std::span<float> logits, device::Isa isa);
  Status apply_grammar(std::span<float> logits, device::Isa isa);
  Status start_grammar();
  std::vector<TokenId> grammar_ends() const;

  SamplingParams params_;
  int choice_;
  int vocab_size_;
  int output_count_ = 0;
  std::unique_ptr<Penalties> penalties_;        // null when no penalty is asked for
  std::unique_ptr<Restrictions> restrictions_;  // null when every token may come
  MakeGrammar make_grammar_;                    // null when the output has no form, or once called
  std::vector<TokenId> grammar_text_;           // tokens before that
  std::unique_ptr<grammar::Matcher> grammar_;
};

}  // namespace baton::sampling
