#include "common/worker/run_convert.h"

#include <algorithm>
#include <string>
#include <utility>

namespace baton::worker {

sampling::SamplingParams sampling_params(const wire::SamplingSpec& spec) {
  sampling::SamplingParams params;
  params.temperature = spec.temperature;
  params.top_p = spec.top_p;
  params.min_p = spec.min_p;
  params.top_k = spec.top_k;
  params.repetition_penalty = spec.repetition_penalty;
  params.presence_penalty = spec.presence_penalty;
  params.frequency_penalty = spec.frequency_penalty;
  params.logit_bias = spec.logit_bias;
  params.allowed_token_ids = spec.allowed_token_ids;
  params.bad_words = spec.bad_words;
  params.stop_token_ids = spec.stop_token_ids;
  params.end_ids = spec.end_ids;
  params.ignore_eos = spec.ignore_eos;
  params.min_tokens = spec.min_tokens;
  params.max_tokens = spec.max_tokens;
  params.seed = spec.seed;
  params.logprobs = spec.logprobs;
  return params;
}

wire::FinishReason wire_finish(sampling::FinishReason reason) {
  switch (reason) {
    case sampling::FinishReason::kNone:
      return wire::FinishReason::kNone;
    case sampling::FinishReason::kStop:
      return wire::FinishReason::kStop;
    case sampling::FinishReason::kLength:
      return wire::FinishReason::kLength;
  }
  return wire::FinishReason::kNone;
}

wire::TokenLogprob wire_logprob(const sampling::TokenLogprobs& logprobs) {
  wire::TokenLogprob out;
  out.logprob = logprobs.sampled;
  out.rank = logprobs.rank;
  for (const sampling::TokenLogprob& top : logprobs.top) {
    out.top.emplace_back(top.id, top.logprob);
  }
  return out;
}

Status check_body(const wire::RunBody& body, int vocab, int max_context) {
  const auto inside = [vocab](TokenId id) { return id >= 0 && id < vocab; };
  const auto outside = [vocab](const char* what) {
    return invalid_argument(std::string(what) + " has a token id outside the vocabulary of " +
                            std::to_string(vocab));
  };
  if (body.prompt.empty() || body.choices.empty()) {
    return invalid_argument("request without a prompt or without a choice");
  }
  if (!std::all_of(body.prompt.begin(), body.prompt.end(), inside)) {
    return outside("prompt");
  }
  for (const wire::ChoiceState& choice : body.choices) {
    if (!std::all_of(choice.output.begin(), choice.output.end(), inside)) {
      return outside("output");
    }
    if (body.prompt.size() + choice.output.size() >= static_cast<size_t>(max_context)) {
      return invalid_argument("maximum context length is " + std::to_string(max_context) +
                              " tokens, the request has " +
                              std::to_string(body.prompt.size() + choice.output.size()));
    }
  }
  if (std::all_of(body.choices.begin(), body.choices.end(), [](const wire::ChoiceState& choice) {
        return choice.finished != wire::FinishReason::kNone;
      })) {
    return invalid_argument("request whose choices have all ended");
  }
  if (body.prompt_logprobs < -1 || body.prompt_logprobs > sampling::kMaxTopLogprobs) {
    return invalid_argument("prompt_logprobs must be in [-1, " +
                            std::to_string(sampling::kMaxTopLogprobs) + "]");
  }
  return sampling::validate(sampling_params(body.sampling), vocab);
}

grammar::MakeRecognizer grammar_of(const wire::SamplingSpec& spec,
                                   grammar::GrammarCache& grammars) {
  if (spec.grammar_kind == 0) {
    return nullptr;
  }
  const grammar::Source source{static_cast<grammar::Kind>(spec.grammar_kind), spec.grammar_texts};
  return [&grammars, shared = std::make_shared<const grammar::Source>(source)] {
    return grammars.get(*shared);
  };
}

sampling::SequenceSampler make_sampler(const wire::RunBody& body, size_t choice, int vocab,
                                       int max_context, grammar::MakeRecognizer grammar) {
  sampling::SamplingParams params = sampling_params(body.sampling);
  const int room = max_context - static_cast<int>(body.prompt.size());
  const auto tokens = static_cast<int64_t>(body.sampling.token_count);
  if (tokens > 0 && tokens < vocab) {
    vocab = static_cast<int>(tokens);
  }
  params.max_tokens = params.max_tokens == 0 ? room : std::min(params.max_tokens, room);
  return {std::move(params),        body.prompt, body.choices[choice].output,
          static_cast<int>(choice), vocab,       std::move(grammar)};
}

}  // namespace baton::worker
