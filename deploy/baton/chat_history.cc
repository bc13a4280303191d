#include "deploy/baton/chat_history.h"

#include <cstdio>
#include <utility>

#include "common/http/error.h"

namespace baton::cli {
namespace {

void append_message(std::string& body, std::string_view role, const std::string& content) {
  body += body.ends_with('[') ? "{\"role\":\"" : ",{\"role\":\"";
  body += role;
  body += "\",\"content\":";
  http::append_json_string(body, content);
  body += '}';
}

}  // namespace

std::optional<ChatHistory::Turn> ChatHistory::pop() {
  if (turns_.empty()) {
    return std::nullopt;
  }
  Turn last = std::move(turns_.back());
  turns_.pop_back();
  return last;
}

size_t ChatHistory::drop_oldest() {
  const size_t count = (turns_.size() + 1) / 2;
  turns_.erase(turns_.begin(), turns_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::string ChatHistory::request_body(const ChatParameters& parameters,
                                      const std::string& question) const {
  std::string body = "{\"model\":";
  http::append_json_string(body, parameters.model);
  body += ",\"messages\":[";
  if (!system_.empty()) {
    append_message(body, "system", system_);
  }
  for (const Turn& turn : turns_) {
    append_message(body, "user", turn.question);
    append_message(body, "assistant", turn.answer);
  }
  append_message(body, "user", question);
  body += "],\"stream\":true,\"stream_options\":{\"include_usage\":true}";
  if (parameters.max_tokens) {
    body += ",\"max_tokens\":" + std::to_string(*parameters.max_tokens);
  }
  if (parameters.temperature) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", *parameters.temperature);
    body += ",\"temperature\":" + std::string(text);
  }
  if (parameters.seed) {
    body += ",\"seed\":" + std::to_string(*parameters.seed);
  }
  return body + "}";
}

}  // namespace baton::cli
