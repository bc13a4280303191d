#include "router/api/request.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>

#include "router/api/field_reader.h"
#include "router/api/output_form.h"
#include "router/api/prompt_fields.h"
#include "router/api/sampling_fields.h"
#include "router/tool_calls/history.h"

namespace baton::router {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxChoices = 128;
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxIgnored = 32;
constexpr int64_t kMaxTokens = 1 << 30;
constexpr int32_t kCompletionDefaultTokens = 16;
constexpr int kMaxLogprobs = 20;
constexpr int kMaxBestOf = 20;
constexpr size_t kMaxFormBytes = size_t{1} << 20;

void read_stream(FieldReader& fields, ApiRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const boost::json::value* options = fields.raw("stream_options");
  if (options == nullptr) {
    return;
  }
  if (!options->is_object()) {
    fields.fail("stream_options", "'stream_options' must be an object");
    return;
  }
  if (!request.stream) {
    fields.fail("stream_options", "'stream_options' is only allowed with 'stream': true");
    return;
  }
  FieldReader inner(options->get_object());
  request.include_usage = inner.boolean("include_usage").value_or(false);
  request.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false);
  if (!inner.status().ok()) {
    fields.fail("stream_options." + inner.param(), inner.status().message());
  }
}

void read_common(FieldReader& fields, ApiRequest& request, const ServedModel& model) {
  request.model = fields.text("model").value_or(model.name);
  read_sampling(fields, request, *model.tokenizer);
  read_stream(fields, request);
  request.n = static_cast<int>(fields.integer("n", 1, kMaxChoices).value_or(1));
  request.stop = fields.texts("stop", kMaxStops);
  if (std::any_of(request.stop.begin(), request.stop.end(),
                  [](const std::string& s) { return s.empty(); })) {
    fields.fail("stop", "'stop' must not hold an empty string");
  }
  if (std::any_of(request.stop.begin(), request.stop.end(),
                  [](const std::string& s) { return s.size() > kMaxStopBytes; })) {
    fields.fail("stop",
                "a string of 'stop' must have at most " + std::to_string(kMaxStopBytes) + " bytes");
  }
  request.include_stop_text = fields.boolean("include_stop_str_in_output").value_or(false);
  request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  request.parse_special = fields.boolean("baton_parse_special").value_or(!request.chat);
  request.trace = fields.boolean("baton_trace").value_or(false);
  request.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  read_prompt_options(fields, request);
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier",
                 "prompt_cache_key", "verbosity", "modalities", "spaces_between_special_tokens",
                 "early_stopping"});
  request.priority = fields.integer("priority", INT64_MIN, INT64_MAX).value_or(0);
  read_output_form(fields, request.sampling);
  check_sampling(fields, request);
  read_beam_search(fields, request);
}

void read_best_of(FieldReader& fields, ApiRequest& request) {
  const int64_t most = std::max(kMaxBestOf, request.n);
  const int64_t best = fields.integer("best_of", 0, most).value_or(0);
  if (best > 0 && best < request.n) {
    fields.fail("best_of", "'best_of' must not be less than 'n'");
  } else if (best > 1 && request.stream) {
    fields.fail("best_of", "'best_of' is not allowed with 'stream': true");
  }
  if (best > request.n && request.sampling.beam_width > 0) {
    fields.fail("best_of", "'best_of' is not allowed with 'use_beam_search': 'n' is its width");
  }
  request.best_of = static_cast<int>(std::max<int64_t>(best, request.n));
}

template <typename T>
Parsed<T> finish(FieldReader& fields, T value) {
  value.ignored = fields.unknown(kMaxIgnored);
  return {std::move(value), {fields.status(), fields.param(), ""}};
}

// Each prompt is a run of its own and carries the grammar and the lists of tokens.
void check_form_bytes(FieldReader& fields, const ApiRequest& request) {
  size_t bytes = 0;
  for (const std::string& text : request.sampling.grammar_texts) {
    bytes += text.size();
  }
  bytes += request.sampling.allowed_token_ids.size() * sizeof(TokenId);
  for (const std::vector<TokenId>& word : request.sampling.bad_words) {
    bytes += word.size() * sizeof(TokenId);
  }
  if (bytes * request.prompts.size() > kMaxFormBytes) {
    fields.fail("prompt",
                "the form of the output with its allowed and bad tokens, once a prompt, has more "
                "than " +
                    std::to_string(kMaxFormBytes) + " bytes; send fewer prompts");
  }
}

bool valid_content(const boost::json::value* content) {
  if (content == nullptr || content->is_null() || content->is_string()) {
    return true;
  }
  if (!content->is_array()) {
    return false;
  }
  for (const boost::json::value& part : content->get_array()) {
    const boost::json::object* object = part.if_object();
    const boost::json::value* type = object ? object->if_contains("type") : nullptr;
    const boost::json::value* text = object ? object->if_contains("text") : nullptr;
    if (type == nullptr || !type->is_string() || type->get_string() != "text" || text == nullptr ||
        !text->is_string()) {
      return false;
    }
  }
  return true;
}

void read_messages(FieldReader& fields, ApiRequest& request) {
  const boost::json::value* messages = fields.raw("messages");
  if (messages == nullptr || !messages->is_array() || messages->get_array().empty()) {
    fields.fail("messages", "'messages' must be a list with at least one message");
    return;
  }
  bool last_was_assistant = false;
  for (const boost::json::value& message : messages->get_array()) {
    const boost::json::object* object = message.if_object();
    const boost::json::value* role = object ? object->if_contains("role") : nullptr;
    if (role == nullptr || !role->is_string()) {
      fields.fail("messages", "every message must be an object with a 'role' string");
      return;
    }
    const bool assistant = role->get_string() == "assistant";
    const boost::json::value* content = object->if_contains("content");
    const bool may_be_absent =
        assistant && (object->contains("tool_calls") || object->contains("function_call"));
    if (!valid_content(content) || ((content == nullptr || content->is_null()) && !may_be_absent)) {
      fields.fail("messages.content",
                  "'content' of a message must be a string or a list of text parts");
      return;
    }
    if (const Status status = check_calls(*object); !status.ok()) {
      fields.fail("messages", status.message());
      return;
    }
    if (assistant && last_was_assistant) {
      fields.fail("messages.content", "two assistant messages follow each other");
      return;
    }
    last_was_assistant = assistant;
  }
  request.messages = *messages;
}

// Fields about the prompt that the template makes.
void read_template_fields(FieldReader& fields, ApiRequest& request) {
  const std::optional<bool> add_prompt = fields.boolean("add_generation_prompt");
  request.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  request.add_generation_prompt = add_prompt.value_or(!request.continue_final_message);
  if (request.continue_final_message) {
    const boost::json::object* last =
        fields.status().ok() ? request.messages.get_array().back().if_object() : nullptr;
    if (add_prompt.value_or(false)) {
      fields.fail("continue_final_message",
                  "'continue_final_message' and 'add_generation_prompt' cannot both be true");
    } else if (last != nullptr && (last->contains("tool_calls") || !last->contains("content"))) {
      fields.fail("continue_final_message", "the last message has no content to go on from");
    }
  }
  if (const boost::json::value* arguments = fields.raw("chat_template_kwargs")) {
    if (arguments->is_object()) {
      request.template_arguments = arguments->get_object();
    } else {
      fields.fail("chat_template_kwargs", "'chat_template_kwargs' must be an object");
    }
  }
  const auto argument = [&request](std::string_view name, boost::json::value value) {
    request.template_arguments.emplace(name, std::move(value));  // not if it is there
  };
  if (const auto thinking = fields.boolean("enable_thinking")) {
    argument("enable_thinking", *thinking);
  }
  constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                        "high", "xhigh",   "max"};
  if (const auto effort = fields.text("reasoning_effort")) {
    if (std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end()) {
      fields.fail("reasoning_effort",
                  "'reasoning_effort' must be none, minimal, low, medium, high, xhigh or max");
    }
    argument("reasoning_effort", boost::json::value(*effort));
    if (*effort == "none") {
      argument("enable_thinking", false);
    }
  }
  request.include_reasoning = fields.boolean("include_reasoning").value_or(true);
}

}  // namespace

Parsed<boost::json::value> parse_body(std::string_view body) {
  Parsed<boost::json::value> out;
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  if (body.starts_with("\xEF\xBB\xBF")) {
    body.remove_prefix(3);
  }
  out.value = boost::json::parse({body.data(), body.size()}, error, {}, options);
  if (error) {
    out.fault.status = invalid_argument(
        error == boost::json::error::too_deep
            ? "the request body is nested deeper than " + std::to_string(kMaxDepth) + " levels"
            : "the request body is not valid JSON: " + error.message());
  } else if (!out.value.is_object()) {
    out.fault.status = invalid_argument("the request body must be a JSON object");
  }
  return out;
}

Parsed<ApiRequest> parse_completion(const boost::json::object& body, const ServedModel& model) {
  FieldReader fields(body);
  ApiRequest request;
  request.echo = fields.boolean("echo").value_or(false);
  const auto limit = fields.integer("max_tokens", request.echo ? 0 : 1, kMaxTokens);
  request.echo_only = limit.value_or(1) == 0;
  request.sampling.max_tokens =
      request.echo_only ? 1 : static_cast<int32_t>(limit.value_or(kCompletionDefaultTokens));
  if (const boost::json::value* logprobs = fields.raw("logprobs")) {
    if (logprobs->is_bool()) {
      request.sampling.logprobs = logprobs->get_bool() ? 1 : -1;
    } else {
      request.sampling.logprobs =
          static_cast<int32_t>(fields.integer("logprobs", 0, kMaxLogprobs).value_or(-1));
    }
  }
  read_common(fields, request, model);
  if (fields.status().ok()) {
    read_prompts(fields, request, model);
  }
  check_form_bytes(fields, request);
  read_best_of(fields, request);
  fields.refuse("suffix", "text is only continued");
  return finish(fields, std::move(request));
}

Parsed<ApiRequest> parse_chat(const boost::json::object& body, const ServedModel& model) {
  FieldReader fields(body);
  ApiRequest request;
  request.chat = true;
  read_messages(fields, request);
  const auto old_limit = fields.integer("max_tokens", 1, kMaxTokens);
  const auto limit = fields.integer("max_completion_tokens", 1, kMaxTokens);
  request.sampling.max_tokens = static_cast<int32_t>(limit.value_or(old_limit.value_or(0)));
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (top.value_or(0) > 0 && !logprobs) {
    fields.fail("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  }
  request.sampling.logprobs = logprobs ? static_cast<int32_t>(top.value_or(0)) : -1;
  read_common(fields, request, model);
  request.tools = read_tools(fields);
  if (request.sampling.beam_width > 0 && request.tools.must_call()) {
    fields.fail("tool_choice", "'tool_choice' that forces a call is not allowed with beam search");
  }
  read_template_fields(fields, request);
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  return finish(fields, std::move(request));
}

}  // namespace baton::router
