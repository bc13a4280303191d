#include "deploy/baton/router_client.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <tuple>
#include <utility>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace baton::cli {
namespace {

namespace json = boost::json;

Result<json::object> parse_object(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) {
    return internal_error("the router's answer is no JSON object");
  }
  return std::move(value.get_object());
}

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

double number_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  boost::system::error_code error;
  const double number = value != nullptr ? value->to_number<double>(error) : 0;
  return error ? 0 : number;
}

int64_t integer_of(const json::object& object, std::string_view key) {
  return static_cast<int64_t>(number_of(object, key));
}

const json::array& array_of(const json::object& object, std::string_view key,
                            const json::array& none) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_array() ? value->get_array() : none;
}

// {"error": {"message": ...}} as a status; OK for anything else.
Status error_of(const json::object& object) {
  const json::value* error = object.if_contains("error");
  if (error == nullptr) {
    return Status();
  }
  const std::string message = error->is_object() ? text_of(error->get_object(), "message") : "";
  return unavailable(message.empty() ? "the router reported an error" : message);
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

// What the first choice of a chunk adds.
std::string delta_text(const json::object& chunk) {
  const json::array none;
  const json::array& choices = array_of(chunk, "choices", none);
  if (choices.empty() || !choices[0].is_object()) {
    return "";
  }
  const json::value* delta = choices[0].get_object().if_contains("delta");
  return delta != nullptr && delta->is_object() ? text_of(delta->get_object(), "content") : "";
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

}  // namespace

Result<ClusterStatus> parse_status(const std::string& text) {
  BATON_ASSIGN_OR_RETURN(const json::object object, parse_object(text));
  ClusterStatus status;
  status.json = text;
  const json::array none;
  for (const json::value& item : array_of(object, "workers", none)) {
    if (!item.is_object()) {
      return internal_error("the router's status has a worker that is no object");
    }
    const json::object& worker = item.get_object();
    status.workers.push_back({.name = text_of(worker, "name"),
                              .role = text_of(worker, "role"),
                              .state = text_of(worker, "state"),
                              .incarnation = text_of(worker, "incarnation"),
                              .metrics_url = text_of(worker, "metrics_url"),
                              .pid = integer_of(worker, "pid"),
                              .blocks_total = integer_of(worker, "blocks_total"),
                              .blocks_free = integer_of(worker, "blocks_free"),
                              .running = integer_of(worker, "running"),
                              .waiting = integer_of(worker, "waiting"),
                              .tensor_parallel = integer_of(worker, "tensor_parallel")});
  }
  // "prefill" before "decode": the way of a request.
  std::ranges::sort(status.workers, [](const WorkerStatus& a, const WorkerStatus& b) {
    return std::tie(b.role, a.name) < std::tie(a.role, b.name);
  });
  for (const json::value& item : array_of(object, "links", none)) {
    if (!item.is_object()) {
      return internal_error("the router's status has a link that is no object");
    }
    const json::object& link = item.get_object();
    status.links.push_back(
        {text_of(link, "from"), text_of(link, "to"), text_of(link, "transport")});
  }
  std::ranges::sort(status.links, [](const LinkStatus& a, const LinkStatus& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
  return status;
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
  constexpr std::string_view kData = "data: ";
  if (!line.starts_with(kData)) {
    return true;  // a blank line between events, or a comment
  }
  line.remove_prefix(kData.size());
  if (line == "[DONE]") {
    done_ = true;
    return false;
  }
  const Result<json::object> chunk = parse_object(line);
  error_ = chunk.ok() ? error_of(*chunk) : chunk.status();
  if (!error_.ok()) {
    return false;
  }
  if (const std::string text = delta_text(*chunk); !text.empty()) {
    on_text_(text);
  }
  const json::value* trace = chunk->if_contains("baton");
  if (trace != nullptr && trace->is_object()) {
    path_ = path_of(trace->get_object());
  }
  return true;
}

Status AnswerReader::status() const {
  if (!error_.ok()) {
    return error_;
  }
  return done_ ? Status() : internal_error("the stream ended before [DONE]");
}

RouterClient::RouterClient(std::string url, std::string api_key, Duration timeout)
    : url_(std::move(url)),
      api_key_(std::move(api_key)),
      client_({.connect_timeout = std::min<Duration>(timeout, 2s),
               .timeout = timeout,
               .idle_timeout = timeout}) {
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

Result<ClusterStatus> RouterClient::status() {
  BATON_ASSIGN_OR_RETURN(const http::Response response,
                         client_.request(request("GET", "/baton/status")));
  if (response.status != 200) {
    const Result<json::object> body = parse_object(response.body);
    const Status error = body.ok() ? error_of(*body) : Status();
    return unavailable(
        url_ + "/baton/status: " +
        (error.ok() ? "HTTP status " + std::to_string(response.status) : error.message()));
  }
  return parse_status(response.body);
}

Result<RequestPath> RouterClient::chat(const std::string& body,
                                       const std::function<void(std::string_view)>& on_text) {
  http::ClientRequest post = request("POST", "/v1/chat/completions");
  post.headers.set("Content-Type", "application/json");
  post.body = body;
  AnswerReader reader(on_text);
  std::string refusal;  // the body of an answer that is no stream
  int http_status = 0;
  const Result<http::Response> response = client_.stream(
      post, [&](const http::Response& head) { http_status = head.status; },
      [&](std::string_view bytes) {
        if (http_status == 200) {
          return reader.feed(bytes);
        }
        refusal += bytes;
        return refusal.size() < 65'536;
      });
  if (http_status != 200) {
    BATON_RETURN_IF_ERROR(response.status());
    const Result<json::object> object = parse_object(refusal);
    const Status error = object.ok() ? error_of(*object) : Status();
    return error.ok() ? unavailable("HTTP status " + std::to_string(http_status)) : error;
  }
  // The reader ends the exchange at [DONE], which the client reports as cancelled.
  if (!response.ok() && response.status().code() != StatusCode::kCancelled) {
    return response.status();
  }
  BATON_RETURN_IF_ERROR(reader.status());
  return reader.path() ? Result<RequestPath>(*reader.path())
                       : internal_error("the answer has no \"baton\" object");
}

Result<std::string> first_api_key(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return not_found("cannot read the API keys in " + path);
  }
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (!line.empty() && line[0] != '#') {
      return line;
    }
  }
  return invalid_argument(path + " holds no API key");
}

}  // namespace baton::cli
