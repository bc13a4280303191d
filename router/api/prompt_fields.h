#pragma once

// The prompts of a completion, and the fields that say what becomes of prompts: BOS, cutting,
// echo, their log-probabilities.

#include "router/api/field_reader.h"
#include "router/api/request.h"

namespace baton::router {

// Of both completion paths: prompt_logprobs, truncate_prompt_tokens, cache_salt.
void read_prompt_options(FieldReader& fields, ApiRequest& request);

// Of completions. After `echo` and the options.
void read_prompts(FieldReader& fields, ApiRequest& request, const ServedModel& model);

// Cuts each prompt to the last tokens that `truncate_prompt_tokens` leaves, -1 of it to what has
// room in `context` beside the answer. Does nothing when the request does not ask for it.
void truncate_prompts(ApiRequest& request, int context, const tokenizer::Tokenizer& tokenizer);

}  // namespace baton::router
