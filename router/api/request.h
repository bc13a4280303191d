#pragma once

// What a request to the OpenAI endpoints asks for, read and checked.
//
// Everything here is thread-safe and never throws; every size that a client chooses has a limit.

#include <algorithm>
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
  std::string text = {};  // of a completion, for echo: as it was sent, or decoded
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
  bool add_special_tokens = false;  // of chat: BOS in front of what the template made
  wire::SamplingSpec sampling;      // max_tokens 0: the rest of the context; seed 0: none given
  bool seed_given = false;
  int n = 1;        // choices that the client gets
  int best_of = 1;  // choices that are made; the best n of them are sent
  bool echo = false;
  bool echo_only = false;    // max_tokens 0: the one token that is made is not shown
  int prompt_logprobs = -1;  // top ones in vLLM's form; -1 none
  int truncate_prompt = 0;   // keep the last so many tokens; -1 what has room; 0 off
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  std::vector<std::string> stop;
  bool include_stop_text = false;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // log-probabilities name tokens "token_id:5"
  std::string cache_salt;
  bool whole_blocks = false;  // as of wire::RunBody
  int64_t priority = 0;       // smaller first
  bool trace = false;  // `baton_trace`: how the request went through the workers, in the answer
  std::vector<std::string> ignored;  // unknown fields, the first 32

  // How many choices a prompt has on the workers.
  int candidates() const { return std::max(n, best_of); }
  // How many top log-probabilities of the prompt's tokens are needed; -1 none.
  int prompt_scores() const {
    return std::max(prompt_logprobs, echo && sampling.logprobs >= 0 ? sampling.logprobs : -1);
  }
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
