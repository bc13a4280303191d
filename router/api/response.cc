#include "router/api/response.h"

#include <algorithm>

#include "common/http/error.h"

namespace baton::router {
namespace {

void append_field(std::string& out, std::string_view name, std::string_view text) {
  out += '"';
  out += name;
  out += "\":";
  http::append_json_string(out, text);
}

std::string_view finish_name(wire::FinishReason finish, bool has_calls, bool legacy) {
  switch (finish) {
    case wire::FinishReason::kNone:
    case wire::FinishReason::kCancelled:
      return "";
    case wire::FinishReason::kStop:
      return !has_calls ? "stop" : legacy ? "function_call" : "tool_calls";
    case wire::FinishReason::kLength:
      return "length";
  }
  return "";
}

}  // namespace

void append_usage(std::string& out, const Usage& usage) {
  out += "{\"prompt_tokens\":" + std::to_string(usage.prompt_tokens) +
         ",\"completion_tokens\":" + std::to_string(usage.completion_tokens) +
         ",\"total_tokens\":" + std::to_string(usage.prompt_tokens + usage.completion_tokens) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached_tokens) +
         "}}";
}

void append_ids(std::string& out, const std::vector<TokenId>& ids) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    out += i == 0 ? "" : ",";
    out += std::to_string(ids[i]);
  }
  out += ']';
}

void append_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    out += i == 0 ? "" : ",";
    out += std::to_string(static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
  }
  out += ']';
}

void ResponseFormat::begin(std::string& out, std::string_view object) const {
  out += '{';
  append_field(out, "id", id_);
  out += ",\"object\":\"";
  out += object;
  out += "\",\"created\":" + std::to_string(created_) + ',';
  append_field(out, "model", model_);
  out += ',';
}

std::string ResponseFormat::event_head() const {
  std::string out = "data: ";
  begin(out, request_.chat ? "chat.completion.chunk" : "text_completion");
  return out;
}

void ResponseFormat::append_finish(std::string& out, wire::FinishReason finish, bool has_calls,
                                   const std::optional<std::string>& stop_text, bool last) const {
  out += ",\"finish_reason\":";
  if (last && finish != wire::FinishReason::kNone) {
    out += '"';
    out += finish_name(finish, has_calls, request_.tools.legacy);
    out += '"';
  } else {
    out += "null";
  }
  if (last && stop_text) {
    out += ',';
    append_field(out, "stop_reason", *stop_text);
  }
}

void ResponseFormat::append_chat_logprob(std::string& out, TokenId id,
                                         const wire::TokenLogprob& logprob) const {
  const auto entry = [&](TokenId token, float value) {
    out += "{\"token\":";
    writer_.append(out, token);
    out += ",\"logprob\":";
    append_logprob(out, value);
    out += ",\"bytes\":";
    append_bytes(out, tokenizer_.token_bytes(token));
  };
  entry(id, logprob.logprob);
  out += ",\"top_logprobs\":[";
  const auto wanted = static_cast<size_t>(std::max(0, request_.sampling.logprobs));
  for (size_t i = 0; i < logprob.top.size() && i < wanted; ++i) {
    out += i == 0 ? "" : ",";
    entry(logprob.top[i].first, logprob.top[i].second);
    out += '}';
  }
  out += "]}";
}

void ResponseFormat::append_chat_logprobs(std::string& out, const std::vector<TokenId>& ids,
                                          const std::vector<wire::TokenLogprob>& logprobs) const {
  if (ids.empty()) {
    out += "null";
    return;
  }
  out += "{\"content\":[";
  for (size_t i = 0; i < std::min(ids.size(), logprobs.size()); ++i) {
    out += i == 0 ? "" : ",";
    append_chat_logprob(out, ids[i], logprobs[i]);
  }
  out += "],\"refusal\":null}";
}

size_t ResponseFormat::append_logprobs(std::string& out, const std::vector<TokenId>& ids,
                                       const std::vector<wire::TokenLogprob>& logprobs,
                                       size_t text_offset, const PromptView* echoed) const {
  out += ",\"logprobs\":";
  if (request_.sampling.logprobs < 0) {
    out += "null";
    return text_offset;
  }
  if (request_.chat) {
    append_chat_logprobs(out, ids, logprobs);
    return text_offset;
  }
  const auto top = static_cast<size_t>(request_.sampling.logprobs);
  LogprobLists lists(writer_, text_offset);
  if (echoed != nullptr) {
    lists.add_prompt(*echoed, top);
  }
  for (size_t i = 0; i < std::min(ids.size(), logprobs.size()); ++i) {
    lists.add(ids[i], &logprobs[i], top);
  }
  out += lists.empty() ? "null" : lists.json();
  return lists.text_offset();
}

void ResponseFormat::append_token_ids(std::string& out, const std::vector<TokenId>& ids,
                                      const PromptView* prompt) const {
  if (!request_.return_token_ids) {
    return;
  }
  out += ",\"token_ids\":";
  append_ids(out, ids);
  if (prompt != nullptr) {
    out += ",\"prompt_token_ids\":";
    append_ids(out, prompt->prompt->tokens);
  }
}

// One call a piece; id and name only where it begins.
void ResponseFormat::append_calls(std::string& out, const std::vector<CallPiece>& calls, int choice,
                                  bool streamed) const {
  const bool legacy = request_.tools.legacy;
  out += legacy ? ",\"function_call\":" : ",\"tool_calls\":[";
  bool first = true;
  for (const CallPiece& call : calls) {
    out += first ? "" : ",";
    first = false;
    if (!legacy) {
      out += '{';
      out += streamed ? "\"index\":" + std::to_string(call.index) + "," : "";
      if (!call.name.empty()) {
        append_field(out, "id", call_id(request_.answer.call_form, id_, choice, call.index));
        out += ",\"type\":\"function\",";
      }
      out += "\"function\":";
    }
    out += '{';
    if (!call.name.empty()) {
      append_field(out, "name", call.name);
      out += ',';
    }
    append_field(out, "arguments", call.arguments);
    out += legacy ? "}" : "}}";
  }
  out += legacy ? "" : "]";
}

void ResponseFormat::append_delta(std::string& out, const ChoiceDelta& delta) const {
  out += "\"delta\":{";
  const size_t begin_of_fields = out.size();
  if (delta.first) {
    out += ",\"role\":\"assistant\"";
  }
  if (delta.first || !delta.text.empty()) {
    out += ',';
    append_field(out, "content", delta.text);
  }
  if (!delta.reasoning.empty()) {
    out += ',';
    append_field(out, "reasoning_content", delta.reasoning);
  }
  if (!delta.calls.empty()) {
    append_calls(out, delta.calls, delta.choice, true);
  }
  if (out.size() > begin_of_fields) {
    out.erase(begin_of_fields, 1);  // the comma before the first
  }
  out += '}';
}

void ResponseFormat::append_message(std::string& out, const WholeChoice& choice, int index) const {
  out += "\"message\":{\"role\":\"assistant\",";
  if (choice.text.empty() && !choice.calls.empty()) {
    out += "\"content\":null";
  } else {
    append_field(out, "content", choice.text);
  }
  if (!choice.reasoning.empty()) {
    out += ',';
    append_field(out, "reasoning_content", choice.reasoning);
  }
  if (!choice.calls.empty()) {
    append_calls(out, choice.calls, index, false);
  }
  out += ",\"refusal\":null}";
}

std::string ResponseFormat::event(const ChoiceDelta& delta, int index, const Usage* usage,
                                  const PromptView* prompt, bool last) {
  const PromptView* echoed = request_.echo ? prompt : nullptr;
  constexpr size_t kUsualTail = 128;  // all behind the head but the text
  std::string out;
  out.reserve(event_head_.size() + kUsualTail + delta.text.size());
  out += event_head_;
  out += "\"choices\":[{\"index\":";
  out += std::to_string(index);
  out += ',';
  if (request_.chat) {
    append_delta(out, delta);
  } else {
    append_field(out, "text", echoed != nullptr ? echoed->prompt->text + delta.text : delta.text);
  }
  if (text_offsets_.size() <= static_cast<size_t>(index)) {
    text_offsets_.resize(static_cast<size_t>(index) + 1);
  }
  size_t& text_offset = text_offsets_[static_cast<size_t>(index)];
  text_offset = append_logprobs(out, delta.ids, delta.logprobs, text_offset, echoed);
  append_finish(out, delta.finish, delta.has_calls, delta.stop_text, last);
  append_token_ids(out, delta.ids, prompt);
  out += "}]";
  if (usage != nullptr) {
    out += ",\"usage\":";
    append_usage(out, *usage);
  } else if (request_.include_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
  return out;
}

std::string ResponseFormat::delta_events(const ChoiceDelta& delta, int index, const Usage* usage,
                                         const PromptView* prompt) {
  if (!request_.chat || delta.finish == wire::FinishReason::kNone) {
    return event(delta, index, usage, prompt, true);
  }
  // Chat streams end a choice with an event of its own, whose delta is empty.
  std::string out;
  if (delta.first || !delta.text.empty() || !delta.ids.empty() || !delta.reasoning.empty() ||
      !delta.calls.empty()) {
    out = event(delta, index, usage, prompt, false);
  }
  ChoiceDelta end;
  end.choice = delta.choice;
  end.finish = delta.finish;
  end.has_calls = delta.has_calls;
  end.stop_text = delta.stop_text;
  return out + event(end, index, usage, nullptr, true);
}

std::string ResponseFormat::usage_event(const Usage& usage, std::string_view trace_json) const {
  std::string out = event_head_;
  out += "\"choices\":[],\"usage\":";
  append_usage(out, usage);
  if (!trace_json.empty()) {
    out += ",\"baton\":";
    out += trace_json;
  }
  out += "}\n\n";
  return out;
}

std::string ResponseFormat::error_event(std::string_view error_json) {
  return "data: " + std::string(error_json) + "\n\n";
}

void ResponseFormat::append_prompt(std::string& out, const PromptView& prompt) const {
  out += ",\"prompt_logprobs\":";
  append_prompt_logprobs(out, prompt, static_cast<size_t>(request_.prompt_logprobs), tokenizer_);
}

std::string ResponseFormat::whole(const std::vector<WholeChoice>& choices, const Usage& usage,
                                  std::string_view trace_json) const {
  std::string out;
  begin(out, request_.chat ? "chat.completion" : "text_completion");
  out += "\"choices\":[";
  for (size_t i = 0; i < choices.size(); ++i) {
    const WholeChoice& choice = choices[i];
    const PromptView* echoed = request_.echo ? &choice.prompt : nullptr;
    out += i == 0 ? "" : ",";
    out += "{\"index\":" + std::to_string(i) + ',';
    if (request_.chat) {
      append_message(out, choice, static_cast<int>(i));
    } else {
      append_field(out, "text",
                   echoed != nullptr ? echoed->prompt->text + choice.text : choice.text);
    }
    append_logprobs(out, choice.ids, choice.logprobs, 0, echoed);
    append_finish(out, choice.finish, !choice.calls.empty(), choice.stop_text, true);
    append_token_ids(out, choice.ids, choice.prompt.prompt != nullptr ? &choice.prompt : nullptr);
    if (request_.prompt_logprobs >= 0 && !request_.chat) {
      append_prompt(out, choice.prompt);
    }
    out += '}';
  }
  out += ']';
  if (request_.prompt_logprobs >= 0 && request_.chat && !choices.empty()) {
    append_prompt(out, choices[0].prompt);
  }
  out += ",\"usage\":";
  append_usage(out, usage);
  if (!trace_json.empty()) {
    out += ",\"baton\":";
    out += trace_json;
  }
  out += '}';
  return out;
}

}  // namespace baton::router
