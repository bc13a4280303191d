#include "common/worker/run_convert.h"

#include <algorithm>
#include <cmath>
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

namespace {

// Ids from here on are never sampled.
int sampled_vocab(const wire::SamplingSpec& spec, int vocab) {
  const auto tokens = static_cast<int64_t>(spec.token_count);
  return tokens > 0 && tokens < vocab ? static_cast<int>(tokens) : vocab;
}

Status check_beams(const wire::RunBody& body, int vocab) {
  const wire::SamplingSpec& spec = body.sampling;
  if (spec.beam_width == 0) {
    return Status();
  }
  if (spec.beam_width > wire::kMaxBeamWidth || body.choices.size() != spec.beam_width ||
      beam_candidates(spec) > sampled_vocab(spec, vocab)) {
    return invalid_argument("a beam search of width " + std::to_string(spec.beam_width) + " with " +
                            std::to_string(body.choices.size()) + " choices over " +
                            std::to_string(sampled_vocab(spec, vocab)) + " tokens");
  }
  if (!std::all_of(body.choices.begin(), body.choices.end(),
                   [](const wire::ChoiceState& choice) { return choice.output.empty(); })) {
    return invalid_argument("a beam search goes on from nothing but its prompt");
  }
  if (!(std::abs(spec.length_penalty) <= wire::kMaxLengthPenalty)) {  // NaN is not, either
    return invalid_argument("length_penalty is out of range");
  }
  return Status();
}

// Of a row only its most likely tokens count, whatever they are.
sampling::SamplingParams beam_params(const wire::SamplingSpec& spec) {
  sampling::SamplingParams params;
  params.temperature = 0;
  params.logprobs = beam_candidates(spec);
  return params;
}

}  // namespace

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
  BATON_RETURN_IF_ERROR(check_beams(body, vocab));
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
  vocab = sampled_vocab(body.sampling, vocab);
  if (body.sampling.beam_width > 0) {
    return {beam_params(body.sampling), {}, {}, static_cast<int>(choice), vocab};
  }
  sampling::SamplingParams params = sampling_params(body.sampling);
  const int room = max_context - static_cast<int>(body.prompt.size());
  params.max_tokens = params.max_tokens == 0 ? room : std::min(params.max_tokens, room);
  return {std::move(params),        body.prompt, body.choices[choice].output,
          static_cast<int>(choice), vocab,       std::move(grammar)};
}

}  // namespace baton::worker
