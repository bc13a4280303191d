#include "deploy/baton/serve_bench/completion_event.h"

#include <algorithm>
#include <array>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace baton::serve_bench {
namespace {

namespace json = boost::json;

constexpr size_t kMaxMessage = 300;

bool has_text(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() && !value->get_string().empty();
}

bool is_set(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && !value->is_null();
}

int64_t count_of(const json::object& usage, std::string_view key) {
  const json::value* value = usage.if_contains(key);
  boost::system::error_code error;
  const int64_t count =
      value != nullptr && value->is_number() ? value->to_number<int64_t>(error) : -1;
  return error ? -1 : count;
}

// {"error": {"message": ...}}, {"error": "..."}, {"object": "error", "message": ...}, {"detail":
// ..}
std::string message_of(const json::object& object) {
  const json::value* error = object.if_contains("error");
  if (error != nullptr && error->is_object()) {
    const std::string inner = message_of(error->get_object());
    return inner.empty() ? "the server sent an error without a message" : inner;
  }
  for (const char* key : {"error", "message", "detail"}) {
    const json::value* text = object.if_contains(key);
    if (text != nullptr && text->is_string()) {
      return std::string(text->get_string());
    }
  }
  return "";
}

void read_choice(const json::object& choice, CompletionEvent& event) {
  event.finished = is_set(choice, "finish_reason");
  const json::value* nested = choice.if_contains("delta");
  const json::object& delta =
      nested != nullptr && nested->is_object() ? nested->get_object() : choice;
  const json::value* ids = choice.if_contains("token_ids");
  const bool text = has_text(delta, "text") || has_text(delta, "content") ||
                    has_text(delta, "reasoning_content") || has_text(delta, "reasoning");
  const bool silent = !event.finished && !delta.contains("role") &&
                      (is_set(delta, "text") || is_set(delta, "content"));
  event.token = text || silent || is_set(delta, "tool_calls") ||
                (ids != nullptr && ids->is_array() && !ids->get_array().empty());
}

}  // namespace

CompletionEvent parse_completion_event(std::string_view data) {
  // An event a token: the memory of small ones lies on the stack.
  std::array<unsigned char, 4096> space;
  json::monotonic_resource memory(space.data(), space.size());
  boost::system::error_code error;
  const json::value value = json::parse(data, error, &memory);
  CompletionEvent event;
  if (error || !value.is_object()) {
    return event;
  }
  event.valid = true;
  const json::object& object = value.get_object();
  const json::value* kind = object.if_contains("object");
  if (is_set(object, "error") ||
      (kind != nullptr && kind->is_string() && kind->get_string() == "error")) {
    event.error = true;
    event.message = message_of(object).substr(0, kMaxMessage);
    return event;
  }
  const json::value* choices = object.if_contains("choices");
  if (choices != nullptr && choices->is_array() && !choices->get_array().empty() &&
      choices->get_array()[0].is_object()) {
    read_choice(choices->get_array()[0].get_object(), event);
  }
  const json::value* usage = object.if_contains("usage");
  if (usage != nullptr && usage->is_object()) {
    event.prompt_tokens = count_of(usage->get_object(), "prompt_tokens");
    event.completion_tokens = count_of(usage->get_object(), "completion_tokens");
  }
  return event;
}

std::string error_text(std::string_view body) {
  boost::system::error_code error;
  const json::value value = json::parse(body, error);
  std::string text = !error && value.is_object() ? message_of(value.get_object()) : "";
  text = text.empty() ? std::string(body.substr(0, kMaxMessage)) : text.substr(0, kMaxMessage);
  std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

}  // namespace baton::serve_bench
