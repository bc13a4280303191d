#pragma once

// The form that a request asks of its output: `response_format` (OpenAI), `guided_json`,
// `guided_regex`, `guided_grammar`, `guided_choice` and `structured_outputs` (vLLM), `schema`
// inside a `json_object` format (llama.cpp). A request may ask for one.

#include "common/wire/messages.h"
#include "router/api/field_reader.h"

namespace baton::router {

// Compiles the grammar, so that what is wrong with it is the answer to the client.
void read_output_form(FieldReader& fields, wire::SamplingSpec& sampling);

}  // namespace baton::router
