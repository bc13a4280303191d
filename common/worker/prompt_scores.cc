#include "common/worker/prompt_scores.h"

#include <algorithm>

#include "common/worker/run_convert.h"

namespace baton::worker {

void ask_for_scores(const wire::RunBody& body, const Sequence& sequence,
                    engine::SequencePlan& entry) {
  if (!wants_prompt_scores(body)) {
    return;
  }
  const auto prompt = static_cast<int>(body.prompt.size());
  const int begin = entry.first_position + 1;
  const int end = std::min(begin + static_cast<int>(entry.tokens.size()), prompt);
  if (begin >= end) {
    return;
  }
  entry.logits = engine::LogitsWanted::kAll;
  entry.score.assign(sequence.tokens().begin() + begin, sequence.tokens().begin() + end);
  entry.score_top = body.prompt_logprobs;
  entry.score_vocab = static_cast<int>(body.sampling.token_count);
}

wire::PromptLogprobs prompt_logprobs(const wire::RunBody& body, Incarnation from, int first,
                                     const std::vector<sampling::TokenLogprobs>& scores) {
  wire::PromptLogprobs out;
  out.key = body.key;
  out.from = from;
  out.first = static_cast<uint32_t>(first + 1);
  for (const sampling::TokenLogprobs& score : scores) {
    out.logprobs.push_back(wire_logprob(score));
  }
  return out;
}

}  // namespace baton::worker
