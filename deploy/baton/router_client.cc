#include "deploy/baton/router_client.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include <boost/json/value.hpp>

#include "deploy/baton/json_fields.h"

namespace baton::cli {
namespace {

namespace json = boost::json;

// {"error": {"message": ...}}, and what other servers make of it; empty for anything else.
std::optional<ServerError> server_error_of(const json::object& object) {
  if (const json::object* error = object_of(object, "error")) {
    return ServerError{text_of(*error, "message"), text_of(*error, "type"),
                       text_of(*error, "code")};
  }
  if (const std::string text = text_of(object, "error"); !text.empty()) {
    return ServerError{text, "", ""};
  }
  if (object.contains("error")) {
    return ServerError{};
  }
  if (text_of(object, "object") == "error") {
    return ServerError{text_of(object, "message"), text_of(object, "type"), ""};
  }
  return std::nullopt;
}

Status status_of(const ServerError& error) {
  return unavailable(error.message.empty() ? "the server reported an error without a message"
                                           : error.message);
}

RequestPath path_of(const json::object& object) {
  return {.prefill = text_of(object, "prefill"),
          .decode = text_of(object, "decode"),
          .transport = text_of(object, "transport"),
          .prefill_ms = number_of(object, "prefill_ms"),
          .transfer_ms = number_of(object, "transfer_ms"),
          .transfer_visible_ms = number_of(object, "transfer_visible_ms"),
          .ttft_ms = number_of(object, "ttft_ms"),
          .prompt_tokens_computed = integer_of(object, "prompt_tokens_computed"),
          .prompt_tokens_cached = integer_of(object, "prompt_tokens_cached"),
          .transfer_bytes = integer_of(object, "transfer_bytes")};
}

// The first choice of a chunk; null when there is none.
const json::object* choice_of(const json::object& chunk) {
  const json::array* choices = array_of(chunk, "choices");
  return choices != nullptr && !choices->empty() ? choices->front().if_object() : nullptr;
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

}  // namespace

bool is_context_overflow(const ServerError& error) {
  // Baton and OpenAI; llama.cpp; vLLM, whose code is only the HTTP status.
  return error.code == "context_length_exceeded" || error.type == "exceed_context_size_error" ||
         error.message.find("maximum context length") != std::string::npos;
}

std::string path_line(const RequestPath& path) {
  std::string tokens = std::to_string(path.prompt_tokens_computed) + " tokens";
  if (path.prompt_tokens_cached > 0) {
    tokens += " + " + std::to_string(path.prompt_tokens_cached) + " cached";
  }
  const std::string work = "(" + tokens + ", " + formatted("%.0f ms", path.prefill_ms) + ")";
  if (path.prefill.empty() || path.prefill == path.decode) {
    return "prefill and decode " + path.decode + " " + work;
  }
  std::string hop;
  if (path.transfer_bytes > 0) {
    const double hidden =
        path.transfer_ms > 0 ? std::clamp(1 - path.transfer_visible_ms / path.transfer_ms, 0.0, 1.0)
                             : 1.0;
    hop = formatted("%.1f MB", static_cast<double>(path.transfer_bytes) / 1e6) + " over " +
          path.transport + " (" + formatted("%.0f ms, ", path.transfer_ms) +
          formatted("%.0f %% hidden)", hidden * 100) + " -> ";
  }
  return "prefill " + path.prefill + " " + work + " -> " + hop + "decode " + path.decode;
}

bool AnswerReader::feed(std::string_view bytes) {
  while (!bytes.empty() && !done_ && error_.ok()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() > kMaxLine) {
      error_ = internal_error("an event of the stream is longer than 1 MiB");
    }
    if (end == std::string_view::npos) {
      break;
    }
    bytes.remove_prefix(end + 1);
    if (line_.ends_with('\r')) {
      line_.pop_back();
    }
    take_line(line_);
    line_.clear();
  }
  return !done_ && error_.ok();
}

bool AnswerReader::take_line(std::string_view line) {
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) {
    return true;  // a blank line between events, or a comment
  }
  line.remove_prefix(kData.size());
  line.remove_prefix(line.starts_with(' ') ? 1 : 0);
  if (line == "[DONE]") {
    done_ = true;
    return false;
  }
  const Result<json::object> chunk = parse_object(line);
  if (!chunk.ok()) {
    error_ = chunk.status();
    return false;
  }
  server_error_ = server_error_of(*chunk);
  if (server_error_) {
    error_ = status_of(*server_error_);
    return false;
  }
  if (const json::object* choice = choice_of(*chunk)) {
    const json::object* delta = object_of(*choice, "delta");
    if (const std::string text = delta ? text_of(*delta, "content") : ""; !text.empty()) {
      on_text_(text);
    }
    if (const std::string reason = text_of(*choice, "finish_reason"); !reason.empty()) {
      finish_reason_ = reason;
    }
  }
  if (const json::object* usage = object_of(*chunk, "usage");
      usage != nullptr && usage->contains("completion_tokens")) {
    completion_tokens_ = integer_of(*usage, "completion_tokens");
  }
  if (const json::object* trace = object_of(*chunk, "baton")) {
    path_ = path_of(*trace);
  }
  return true;
}

Status AnswerReader::status() const {
  if (!error_.ok()) {
    return error_;
  }
  return done_ ? Status() : internal_error("the stream ended before [DONE]");
}

http::TlsTrust trust_in(const std::string& cacert) {
  return {.authorities = cacert, .hint = "; --cacert FILE names who is trusted"};
}

RouterClient::RouterClient(ServerAccess server, Duration timeout, int interrupt_fd)
    : url_(std::move(server.url)),
      api_key_(std::move(server.api_key)),
      client_({.connect_timeout = std::min<Duration>(timeout, 2s),
               .timeout = timeout,
               .idle_timeout = timeout,
               .interrupt_fd = interrupt_fd,
               .trust = std::move(server.trust)}) {
  while (url_.ends_with('/')) {
    url_.pop_back();
  }
}

http::ClientRequest RouterClient::request(std::string method, const std::string& path) const {
  http::ClientRequest out{
      .method = std::move(method), .url = url_ + path, .headers = {}, .body = {}};
  if (!api_key_.empty()) {
    out.headers.set("Authorization", "Bearer " + api_key_);
  }
  return out;
}

bool RouterClient::ready() {
  const Result<http::Response> response = client_.request(request("GET", "/readyz"));
  return response.ok() && response->status == 200;
}

Result<std::string> RouterClient::get(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(http::Response response, client_.request(request("GET", path)));
  if (response.status == 200) {
    return std::move(response.body);
  }
  const Result<json::object> body = parse_object(response.body);
  const std::optional<ServerError> error = body.ok() ? server_error_of(*body) : std::nullopt;
  return unavailable(
      url_ + path + ": " +
      (error ? status_of(*error).message() : "HTTP status " + std::to_string(response.status)));
}

Result<ClusterStatus> RouterClient::status() {
  BATON_ASSIGN_OR_RETURN(const std::string body, get("/baton/status"));
  return parse_status(body);
}

Result<std::vector<ServedModel>> RouterClient::models() {
  BATON_ASSIGN_OR_RETURN(const std::string body, get("/v1/models"));
  BATON_ASSIGN_OR_RETURN(const json::object object, parse_object(body));
  std::vector<ServedModel> models;
  if (const json::array* list = array_of(object, "data")) {
    for (const json::value& item : *list) {
      if (const json::object* model = item.if_object()) {
        models.push_back({text_of(*model, "id"), integer_of(*model, "max_model_len")});
      }
    }
  }
  return models;
}

Answer RouterClient::stream_answer(const std::string& body,
                                   const std::function<void(std::string_view)>& on_text) {
  http::ClientRequest post = request("POST", "/v1/chat/completions");
  post.headers.set("Content-Type", "application/json");
  post.body = body;
  AnswerReader reader(on_text);
  std::string refusal;  // the body of an answer that is no stream
  int http_status = 0;
  bool ended_here = false;  // [DONE], an error, enough of a refusal: the client says "cancelled"
  const Result<http::Response> response = client_.stream(
      post, [&](const http::Response& head) { http_status = head.status; },
      [&](std::string_view bytes) {
        if (http_status != 200) {
          refusal += bytes;
        }
        ended_here = http_status == 200 ? !reader.feed(bytes) : refusal.size() > 65'536;
        return !ended_here;
      });
  Answer answer;
  std::optional<ServerError> error = reader.error();
  if (!response.ok() && !ended_here) {
    answer.status = response.status();
  } else if (http_status == 200) {
    answer.status = reader.status();
  } else {
    const Result<json::object> object = parse_object(refusal);
    error = object.ok() ? server_error_of(*object) : std::nullopt;
    answer.status =
        error ? status_of(*error) : unavailable("HTTP status " + std::to_string(http_status));
  }
  answer.context_overflow = error && is_context_overflow(*error);
  answer.path = reader.path();
  answer.finish_reason = reader.finish_reason();
  answer.completion_tokens = reader.completion_tokens();
  return answer;
}

Result<RequestPath> RouterClient::chat(const std::string& body,
                                       const std::function<void(std::string_view)>& on_text) {
  const Answer answer = stream_answer(body, on_text);
  BATON_RETURN_IF_ERROR(answer.status);
  return answer.path ? Result<RequestPath>(*answer.path)
                     : internal_error("the answer has no \"baton\" object");
}

Result<std::string> first_api_key(const std::string& path) {
  if (path.empty()) {
    return std::string();
  }
  std::ifstream file(path);
  if (!file) {
    return not_found("cannot read the API keys in " + path);
  }
  for (std::string line; std::getline(file, line);) {
    constexpr const char* kSpaces = " \t\r";  // what stands behind a key are its rights
    const size_t first = line.find_first_not_of(kSpaces);
    if (first != std::string::npos && line[0] != '#') {
      return line.substr(first, line.find_first_of(kSpaces, first) - first);
    }
  }
  return invalid_argument(path + " holds no API key");
}

}  // namespace baton::cli
