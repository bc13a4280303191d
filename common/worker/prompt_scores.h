#pragma once

// Log-probabilities of a prompt's own tokens (echo, prompt_logprobs): the row of each token but the
// last scores the token after it. Asked for chunk by chunk, so that no more logits exist at once
// than the engine's own buffer holds.

#include "common/engine/engine.h"
#include "common/wire/messages.h"
#include "common/worker/sequence.h"

namespace baton::worker {

// Whether the body asks for them: then every token of the prompt has to be computed.
inline bool wants_prompt_scores(const wire::RunBody& body) { return body.prompt_logprobs >= 0; }

// Makes `entry`, a chunk that `sequence` is about to be fed, score the tokens of the prompt that
// follow its rows. Does nothing when the body asks for none.
void ask_for_scores(const wire::RunBody& body, const Sequence& sequence,
                    engine::SequencePlan& entry);

// What a chunk that began at position `first` gave.
wire::PromptLogprobs prompt_logprobs(const wire::RunBody& body, Incarnation from, int first,
                                     const std::vector<sampling::TokenLogprobs>& scores);

}  // namespace baton::worker
