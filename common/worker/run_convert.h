#pragma once

// Between the messages' view of sampling and the sampler's own types.

#include "common/grammar/grammar.h"
#include "common/sampling/sampler.h"
#include "common/wire/messages.h"

namespace baton::worker {

sampling::SamplingParams sampling_params(const wire::SamplingSpec& spec);
wire::FinishReason wire_finish(sampling::FinishReason reason);
wire::TokenLogprob wire_logprob(const sampling::TokenLogprobs& logprobs);

// Checks what a message cannot: token ids inside the vocabulary, sampling parameters in range,
// prompt and output within `max_context`, something left to do. invalid_argument names the first
// fault.
Status check_body(const wire::RunBody& body, int vocab, int max_context);

// What restricts the output, compiled when it is first needed; null when nothing does. `grammars`
// outlives it. Keeps a copy of the grammar's text, which copies of it share.
grammar::MakeRecognizer grammar_of(const wire::SamplingSpec& spec, grammar::GrammarCache& grammars);

// How many of a row's most likely tokens a beam search looks at.
inline int beam_candidates(const wire::SamplingSpec& spec) {
  return 2 * static_cast<int>(spec.beam_width);
}

// The sampler of one choice of a checked body, in the state that follows its output so far. The end
// of the context ends the choice like its own limit does. Of a beam search it ends nothing, and
// reports beam_candidates() log-probabilities.
sampling::SequenceSampler make_sampler(const wire::RunBody& body, size_t choice, int vocab,
                                       int max_context, grammar::MakeRecognizer grammar);

}  // namespace baton::worker
