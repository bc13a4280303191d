#include "router/api/request.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <charconv>
#include <cmath>

#include "router/api/field_reader.h"
#include "router/api/output_form.h"
#include "router/tool_calls/history.h"

namespace baton::router {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxChoices = 128;
constexpr size_t kMaxPrompts = 256;
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxIgnored = 32;
constexpr size_t kMaxSaltBytes = 1024;
constexpr size_t kMaxBias = 1024;
constexpr size_t kMaxStopIds = 1024;
constexpr int64_t kMaxTokens = 1 << 30;
constexpr int32_t kCompletionDefaultTokens = 16;
constexpr int kMaxLogprobs = 20;
constexpr size_t kMaxFormBytes = size_t{1} << 20;

void read_bias(FieldReader& fields, wire::SamplingSpec& sampling, int32_t vocab) {
  const boost::json::value* value = fields.raw("logit_bias");
  if (value == nullptr) {
    return;
  }
  if (!value->is_object() || value->get_object().size() > kMaxBias) {
    fields.fail("logit_bias", "'logit_bias' must be an object of at most " +
                                  std::to_string(kMaxBias) + " token ids with their bias");
    return;
  }
  for (const auto& entry : value->get_object()) {
    const std::string_view key = entry.key();
    int32_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 ||
        id >= vocab) {
      fields.fail("logit_bias", "'logit_bias' names '" + shortened(key) +
                                    "', which is no token id from 0 to " +
                                    std::to_string(vocab - 1));
      return;
    }
    const double bias = entry.value().is_number() ? entry.value().to_number<double>() : NAN;
    if (!(bias >= -100 && bias <= 100)) {
      fields.fail("logit_bias", "'logit_bias' values must be numbers between -100 and 100");
      return;
    }
    sampling.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  std::sort(sampling.logit_bias.begin(), sampling.logit_bias.end());
}

void read_sampling(FieldReader& fields, ApiRequest& request, const tokenizer::Tokenizer& vocab) {
  wire::SamplingSpec& s = request.sampling;
  const auto size = static_cast<int32_t>(vocab.vocab_size());
  const auto real = [&fields](std::string_view name, double low, double high, float& to) {
    if (const auto v = fields.number(name, low, high)) {
      to = static_cast<float>(*v);
    }
  };
  real("temperature", 0, 2, s.temperature);
  real("top_p", 0, 1, s.top_p);
  real("min_p", 0, 1, s.min_p);
  real("repetition_penalty", 0, 100, s.repetition_penalty);
  if (s.repetition_penalty <= 0) {
    fields.fail("repetition_penalty", "'repetition_penalty' must be greater than 0");
  }
  real("presence_penalty", -2, 2, s.presence_penalty);
  real("frequency_penalty", -2, 2, s.frequency_penalty);
  s.top_k = static_cast<int32_t>(fields.integer("top_k", -1, 1 << 30).value_or(0));
  read_bias(fields, s, size);
  s.stop_token_ids = fields.token_ids("stop_token_ids", kMaxStopIds, size);
  s.end_ids.assign(vocab.end_ids().begin(), vocab.end_ids().end());
  s.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  s.min_tokens = static_cast<int32_t>(fields.integer("min_tokens", 0, kMaxTokens).value_or(0));
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
    s.seed = static_cast<uint64_t>(*seed);
    request.seed_given = true;
  }
}

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
  request.cache_salt = fields.text("cache_salt").value_or("");
  if (request.cache_salt.size() > kMaxSaltBytes) {
    fields.fail("cache_salt",
                "'cache_salt' must have at most " + std::to_string(kMaxSaltBytes) + " bytes");
  }
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier",
                 "prompt_cache_key", "verbosity", "modalities", "spaces_between_special_tokens",
                 "priority"});
  fields.refuse("prompt_logprobs", "not yet");
  fields.refuse("use_beam_search", "not yet");
  fields.refuse("allowed_token_ids", "not yet");
  fields.refuse("bad_words", "not yet");
  fields.refuse("truncate_prompt_tokens", "prompts are never cut");
  read_output_form(fields, request.sampling);
  const int32_t limit = request.sampling.max_tokens;
  if (limit > 0 && request.sampling.min_tokens > limit) {
    fields.fail("min_tokens", "'min_tokens' must not be more than 'max_tokens'");
  }
}

template <typename T>
Parsed<T> finish(FieldReader& fields, T value) {
  value.ignored = fields.unknown(kMaxIgnored);
  return {std::move(value), {fields.status(), fields.param(), ""}};
}

Prompt text_prompt(const ServedModel& model, std::string_view text, bool add_special,
                   bool parse_special) {
  const tokenizer::Tokenizer& vocab = *model.tokenizer;
  bool bos = add_special && vocab.adds_bos();
  if (bos && parse_special && vocab.bos_id() &&
      text.starts_with(vocab.token_text(*vocab.bos_id()))) {
    bos = false;  // the text brings it along
  }
  return {vocab.encode(text, {.add_bos = bos, .parse_special = parse_special})};
}

// One prompt of ids; false if the list holds anything but ids of the vocabulary.
bool ids_prompt(const boost::json::array& list, size_t vocab, Prompt& prompt) {
  for (const boost::json::value& item : list) {
    if (!item.is_int64() || item.get_int64() < 0 ||
        static_cast<size_t>(item.get_int64()) >= vocab) {
      return false;
    }
    prompt.tokens.push_back(static_cast<TokenId>(item.get_int64()));
  }
  return !prompt.tokens.empty();
}

void read_prompts(FieldReader& fields, ApiRequest& request, const ServedModel& model) {
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  const boost::json::value* value = fields.raw("prompt");
  const size_t vocab = model.tokenizer->vocab_size();
  const std::string want =
      "'prompt' must be a string, a list of strings, a list of token ids from 0 to " +
      std::to_string(vocab - 1) + ", or a list of such lists, none of them empty";
  const auto wrong = [&fields, &want] { fields.fail("prompt", want); };
  if (value == nullptr) {
    wrong();
    return;
  }
  if (value->is_string()) {
    request.prompts.push_back(
        text_prompt(model, value->get_string(), add_special, request.parse_special));
  } else if (!value->is_array() || value->get_array().empty()) {
    wrong();
    return;
  } else if (value->get_array()[0].is_number()) {
    Prompt prompt;
    if (!ids_prompt(value->get_array(), vocab, prompt)) {
      wrong();
      return;
    }
    request.prompts.push_back(std::move(prompt));
  } else {
    const boost::json::array& list = value->get_array();
    if (list.size() > kMaxPrompts) {
      fields.fail("prompt", "'prompt' has more than " + std::to_string(kMaxPrompts) + " prompts");
      return;
    }
    for (const boost::json::value& item : list) {
      Prompt prompt;
      if (item.is_string() && list[0].is_string()) {
        prompt = text_prompt(model, item.get_string(), add_special, request.parse_special);
      } else if (!item.is_array() || !list[0].is_array() ||
                 !ids_prompt(item.get_array(), vocab, prompt)) {
        wrong();
        return;
      }
      request.prompts.push_back(std::move(prompt));
    }
  }
  if (std::any_of(request.prompts.begin(), request.prompts.end(),
                  [](const Prompt& p) { return p.tokens.empty(); })) {
    fields.fail("prompt", "'prompt' is empty");
  }
}

// Each prompt is a run of its own and carries the grammar.
void check_form_bytes(FieldReader& fields, const ApiRequest& request) {
  size_t bytes = 0;
  for (const std::string& text : request.sampling.grammar_texts) {
    bytes += text.size();
  }
  if (bytes * request.prompts.size() > kMaxFormBytes) {
    fields.fail("prompt", "the form of the output, once a prompt, has more than " +
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
  request.sampling.max_tokens = static_cast<int32_t>(
      fields.integer("max_tokens", 1, kMaxTokens).value_or(kCompletionDefaultTokens));
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
  if (const auto best = fields.integer("best_of", 0, kMaxChoices)) {
    if (*best > 0 && *best < request.n) {
      fields.fail("best_of", "'best_of' must not be less than 'n'");
    } else if (*best > 1 && request.stream) {
      fields.fail("best_of", "'best_of' is not allowed with 'stream': true");
    } else if (*best > request.n) {
      fields.fail("best_of", "'best_of' other than 'n' is not supported");
    }
  }
  if (fields.boolean("echo").value_or(false)) {
    fields.fail("echo", "'echo' is not supported");
  }
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
  read_template_fields(fields, request);
  return finish(fields, std::move(request));
}

}  // namespace baton::router
