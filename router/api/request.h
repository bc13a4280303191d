#pragma once

// What a request to the OpenAI endpoints asks for, read and checked.
//
// Everything here is thread-safe and never throws; every size that a client chooses has a limit.

#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "common/base/status.h"
#include "common/tokenizer/tokenizer.h"
#include "common/wire/messages.h"
#include "router/tool_calls/answer_form.h"
#include "router/tool_calls/tools.h"

namespace baton::router {

// What is known about the served model; immutable while the router runs.
struct ServedModel {
  std::string name;
  const tokenizer::Tokenizer* tokenizer = nullptr;
};

struct Prompt {
  std::vector<TokenId> tokens;
};

struct ApiRequest {
  bool chat = false;
  std::string model;
  std::vector<Prompt> prompts;             // of completions; of chat one, made by the template
  boost::json::value messages;             // of chat
  boost::json::object template_arguments;  // chat_template_kwargs
  ToolRequest tools;
  bool include_reasoning = true;
  AnswerForm answer;  // made with the prompt of a chat
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool parse_special = false;
  wire::SamplingSpec sampling;  // max_tokens 0: the rest of the context; seed 0: none given
  bool seed_given = false;
  int n = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  std::vector<std::string> stop;
  bool include_stop_text = false;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  std::string cache_salt;
  bool trace = false;  // `baton_trace`: how the request went through the workers, in the answer
  std::vector<std::string> ignored;  // unknown fields, the first 32
};

// A fault of the request: what http::error_response needs.
struct ApiFault {
  Status status;
  std::string param;
  std::string code;
};

template <typename T>
struct Parsed {
  T value;
  ApiFault fault;  // status ok: none
  bool ok() const { return fault.status.ok(); }
};

// The body as JSON: an object, nesting at most 64, UTF-8.
Parsed<boost::json::value> parse_body(std::string_view body);
Parsed<ApiRequest> parse_completion(const boost::json::object& body, const ServedModel& model);
Parsed<ApiRequest> parse_chat(const boost::json::object& body, const ServedModel& model);

}  // namespace baton::router
