#include "router/endpoint.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <utility>

#include "common/http/error.h"
#include "router/api/field_reader.h"
#include "router/api/prompt_fields.h"
#include "router/api/tokenize.h"
#include "router/tool_calls/call_grammar.h"

namespace baton::router {
namespace {

constexpr std::string_view kCompletions = "/v1/completions";
constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kTargets = "/metrics/targets";
constexpr std::string_view kRequests = "/baton/requests/";

http::Response fault_response(const ApiFault& fault) {
  return http::error_response(fault.status, fault.param, fault.code);
}

http::Response not_found_path(const std::string& path) {
  return http::error_response(not_found("no such path: " + shortened(path)), "", "not_found");
}

http::Response wrong_method(std::string_view allowed) {
  http::ApiError error =
      http::to_api_error(invalid_argument("this path takes " + std::string(allowed)));
  error.http_status = 405;
  http::Response response = http::error_response(error);
  response.headers.set("Allow", std::string(allowed));
  return response;
}

bool one_of(std::string_view path, std::initializer_list<std::string_view> paths) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

http::Response unsupported_media(std::string message) {
  http::ApiError error = http::to_api_error(invalid_argument(std::move(message)));
  error.http_status = 415;
  return http::error_response(error);
}

// Empty when the body is plain UTF-8 as far as its header says, else what is wrong with it.
std::string coding_fault(const http::Headers& headers) {
  const std::string_view coding = headers.get("Content-Encoding", "identity");
  if (!http::equals_ignoring_case(coding, "identity")) {
    return "a request body with Content-Encoding '" + shortened(coding) + "' is not supported";
  }
  std::string type(headers.get("Content-Type"));
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr std::string_view kCharset = "charset=";
  const size_t at = type.find(kCharset);
  if (at == std::string::npos) {
    return {};
  }
  std::string charset = type.substr(at + kCharset.size());
  charset.resize(std::min(charset.size(), charset.find_first_of("; ")));
  std::erase(charset, '"');
  const bool utf8 = charset == "utf-8" || charset == "utf8" || charset == "us-ascii";
  return utf8 ? std::string()
              : "the charset of a request must be utf-8, not '" + shortened(charset) + "'";
}

// Without slashes at the end or in a row.
std::string normalised(std::string path) {
  path.erase(
      std::unique(path.begin(), path.end(), [](char a, char b) { return a == '/' && b == '/'; }),
      path.end());
  if (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  return path;
}

bool loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]");
}

}  // namespace

Endpoint::Endpoint(Options options, const ChatPrompt& chat, RouterLoop& loop,
                   metrics::Registry& registry, const Clock& clock, Random& random)
    : options_(std::move(options)),
      chat_(chat),
      loop_(loop),
      registry_(registry),
      clock_(clock),
      random_(random) {}

// ---------------------------------------------------------------- who may ask

bool Endpoint::origin_accepted(const http::Request& request) const {
  const std::string* origin = request.headers.find("Origin");
  if (origin == nullptr) {
    return true;
  }
  const std::vector<std::string>& listed = options_.config->cors_origins;
  if (listed.empty()) {
    // A page that knows no key gets nothing from a server that asks for one.
    return !options_.api_keys->keyless() || loopback(options_.config->listen);
  }
  return std::find(listed.begin(), listed.end(), *origin) != listed.end() ||
         std::find(listed.begin(), listed.end(), "*") != listed.end();
}

// A page of an origin that nobody listed may only send what makes the browser ask first.
bool Endpoint::content_type_accepted(const http::Request& request) const {
  const std::vector<std::string>& listed = options_.config->cors_origins;
  if (!request.headers.contains("Origin") || (!listed.empty() && origin_accepted(request))) {
    return true;
  }
  std::string_view type = request.headers.get("Content-Type");
  type = type.substr(0, type.find_first_of("; "));
  return http::equals_ignoring_case(type, "application/json");
}

http::Headers Endpoint::answer_headers(const http::Request& request) const {
  http::Headers headers;
  const std::string* given = request.headers.find("x-request-id");
  constexpr size_t kLongestId = 256;
  headers.set("x-request-id", given != nullptr && given->size() <= kLongestId
                                  ? *given
                                  : to_hex(random_.next_u128()));
  if (request.headers.contains("Origin") && origin_accepted(request)) {
    const bool any = options_.config->cors_origins.empty();
    headers.set("Access-Control-Allow-Origin",
                any ? "*" : std::string(request.headers.get("Origin")));
    headers.set("Vary", "Origin");
  }
  return headers;
}

std::optional<KeyRights> Endpoint::rights(const http::Request& request) const {
  if (options_.api_keys->keyless()) {
    return options_.api_keys->rights({});
  }
  std::string_view given = request.headers.get("Authorization");
  constexpr std::string_view kScheme = "bearer ";
  if (given.size() < kScheme.size() ||
      !http::equals_ignoring_case(given.substr(0, kScheme.size()), kScheme)) {
    return std::nullopt;
  }
  return options_.api_keys->rights(given.substr(kScheme.size()));
}

// ---------------------------------------------------------------- paths

http::Response Endpoint::probe(const std::string& path) const {
  const RouterHealth& health = loop_.health();
  const Duration age = clock_.now().time_since_epoch() - Duration(health.last_turn_ns.load());
  if (age > 1s) {
    return http::error_response(unavailable("the router loop does not turn"));
  }
  if (path == "/livez") {
    return http::json_response(200, "{\"status\":\"ok\"}");
  }
  if (health.draining) {
    return http::error_response(unavailable("the router is shutting down"));
  }
  if (!health.ready) {
    return http::error_response(unavailable("no worker is ready yet"));
  }
  return http::json_response(200, "{\"status\":\"ok\"}");
}

http::Response Endpoint::models(const std::string& path) const {
  std::string model = "{\"id\":";
  http::append_json_string(model, options_.model.name);
  model +=
      ",\"object\":\"model\",\"created\":" + std::to_string(options_.started_unix) +
      ",\"owned_by\":\"baton\",\"max_model_len\":" + std::to_string(loop_.health().max_context) +
      "}";
  constexpr std::string_view kList = "/v1/models";
  if (path == kList) {
    return http::json_response(200, "{\"object\":\"list\",\"data\":[" + model + "]}");
  }
  if (path.substr(kList.size() + 1) == options_.model.name) {
    return http::json_response(200, std::move(model));
  }
  return http::error_response(
      not_found("the model '" + shortened(path.substr(kList.size() + 1)) + "' does not exist"),
      "model", "model_not_found");
}

// ---------------------------------------------------------------- completions

// What the answer tells about the tokens of its prompts, once for each choice: the router writes
// all of it, and a stream writes it in one event, which must fit what a connection may hold back.
ApiFault check_prompt_scores(const ApiRequest& request) {
  constexpr int64_t kMostEntries = 1'000'000;
  constexpr int64_t kMostStreamed = 50'000;
  if (request.prompt_scores() < 0) {
    return {};
  }
  int64_t tokens = 0;
  for (const Prompt& prompt : request.prompts) {
    tokens += static_cast<int64_t>(prompt.tokens.size());
  }
  const int64_t entries = tokens * request.candidates() * (int64_t{request.prompt_scores()} + 1);
  const int64_t most = request.stream ? kMostStreamed : kMostEntries;
  if (entries <= most) {
    return {};
  }
  return {invalid_argument(
              "the log-probabilities of the prompt would be " + std::to_string(entries) +
              " entries (tokens x choices x alternatives); " + "at most " + std::to_string(most) +
              (request.stream ? " fit a stream" : " fit an answer")),
          request.prompt_logprobs >= 0 ? "prompt_logprobs" : "echo", ""};
}

ApiFault Endpoint::fit_context(ApiRequest& request) const {
  const int context = loop_.health().max_context;
  if (context == 0) {
    return {unavailable("no worker is ready yet"), "", ""};
  }
  truncate_prompts(request, context, *options_.model.tokenizer);
  size_t longest = 0;
  for (const Prompt& prompt : request.prompts) {
    longest = std::max(longest, prompt.tokens.size());
  }
  const auto prompt = static_cast<int64_t>(longest);
  const int64_t asked = request.sampling.max_tokens;
  if (prompt + std::max<int64_t>(asked, 1) > context) {
    const std::string numbers = asked > 0 ? std::to_string(prompt + asked) + " tokens (" +
                                                std::to_string(prompt) + " in the prompt, " +
                                                std::to_string(asked) + " for the answer)"
                                          : std::to_string(prompt) + " tokens in the prompt";
    return {invalid_argument("This model's maximum context length is " + std::to_string(context) +
                             " tokens, but the request asks for " + numbers),
            request.chat ? "messages" : "prompt", "context_length_exceeded"};
  }
  if (asked == 0) {
    request.sampling.max_tokens = static_cast<int32_t>(context - prompt);
  }
  return check_prompt_scores(request);
}

ApiFault Endpoint::read_request(const http::Request& request, ApiRequest& out) const {
  const Parsed<boost::json::value> json = parse_body(request.body);
  if (!json.ok()) {
    return json.fault;
  }
  const bool chat = normalised(request.path) == kChat;
  Parsed<ApiRequest> parsed = chat ? parse_chat(json.value.get_object(), options_.model)
                                   : parse_completion(json.value.get_object(), options_.model);
  if (!parsed.ok()) {
    return parsed.fault;
  }
  out = std::move(parsed.value);
  if (out.model != options_.model.name) {
    return {not_found("the model '" + shortened(out.model) +
                      "' does not exist; this server serves '" + options_.model.name + "'"),
            "model", "model_not_found"};
  }
  if (chat) {
    const auto now =
        std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
    Result<ChatTurn> turn = chat_.turn(out, now);
    if (!turn.ok()) {
      return {turn.status(), "messages", ""};
    }
    out.prompts.push_back({std::move(turn->tokens)});
    out.answer = std::move(turn->answer);
    if (Status status = restrict_to_calls(out.tools, out.answer, out.sampling); !status.ok()) {
      return {std::move(status), out.tools.legacy ? "functions" : "tools", ""};
    }
  }
  return fit_context(out);
}

void Endpoint::count_error(StatusCode code) const {
  registry_.counter(metrics::MetricId::kRequestErrors, {status_code_info(code).label}).add();
}

void Endpoint::complete(const http::Request& request, KeyRights rights, http::Headers headers,
                        const std::shared_ptr<http::Responder>& responder) const {
  const TimePoint arrived = clock_.now();
  Exchange::Options exchange;
  const ApiFault fault = read_request(request, exchange.request);
  http::Response refused;
  if (!fault.status.ok()) {
    count_error(fault.status.code());
    refused = fault_response(fault);
  } else {
    if (exchange.request.priority != 0 && !rights.priority) {
      exchange.request.priority = 0;
      exchange.request.ignored.insert(exchange.request.ignored.begin(), "priority");
    }
    exchange.request.whole_blocks = rights.others;
    std::string ignored;
    for (const std::string& field : exchange.request.ignored) {
      ignored += (ignored.empty() ? "" : ", ") + field;
    }
    constexpr size_t kLongestHeader = 1024;
    const bool printable =
        std::all_of(ignored.begin(), ignored.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
    if (!ignored.empty() && printable && ignored.size() <= kLongestHeader) {
      headers.set("x-baton-ignored", ignored);
    }
    exchange.id = loop_.next_exchange_id();
    exchange.responder = responder;
    exchange.headers = headers;
    exchange.public_id =
        (exchange.request.chat ? "chatcmpl-" : "cmpl-") + to_hex(random_.next_u128());
    exchange.created = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
    exchange.arrived = arrived;
    exchange.tokenised = clock_.now();
    const uint64_t id = exchange.id;
    if (loop_.post(NewExchange{std::move(exchange)})) {
      responder->on_close([this, id] { (void)loop_.post(ClientGone{id}); });
      return;
    }
    const Status why = loop_.health().draining
                           ? unavailable("the router is shutting down")
                           : resource_exhausted("too many requests arrive at once");
    count_error(why.code());
    refused = http::error_response(why);
  }
  for (const auto& [name, value] : headers) {
    refused.headers.set(name, value);
  }
  responder->send(std::move(refused));
}

void Endpoint::handle(http::Request request,
                      const std::shared_ptr<http::Responder>& responder) const {
  const http::Headers headers = answer_headers(request);
  const auto answer = [&headers, &responder](http::Response response) {
    for (const auto& [name, value] : headers) {
      response.headers.set(name, value);
    }
    responder->send(std::move(response));
  };
  const std::string path = normalised(request.path);
  if (request.method == "OPTIONS") {
    http::Response allowed = http::text_response(204, "");
    allowed.headers.set("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    // The wildcard does not cover Authorization.
    allowed.headers.set("Access-Control-Allow-Headers", "Authorization, Content-Type, *");
    allowed.headers.set("Access-Control-Max-Age", "600");
    answer(std::move(allowed));
    return;
  }
  const bool open = one_of(path, {"/health", "/livez", "/readyz"}) ||
                    (one_of(path, {"/metrics", kTargets}) && !options_.config->metrics_need_key);
  const std::optional<KeyRights> rights = open ? KeyRights() : this->rights(request);
  if (!rights) {
    count_error(StatusCode::kUnauthenticated);
    answer(http::error_response(unauthenticated("the API key is missing or wrong"), "",
                                "invalid_api_key"));
    return;
  }
  const bool get = request.method == "GET" || request.method == "HEAD";
  if (one_of(path, {kCompletions, kChat, "/tokenize", "/detokenize"})) {
    if (request.method != "POST") {
      answer(wrong_method("POST"));
    } else if (!content_type_accepted(request)) {
      answer(unsupported_media(
          "a request from another origin must have the content type application/json"));
    } else if (std::string fault = coding_fault(request.headers); !fault.empty()) {
      answer(unsupported_media(std::move(fault)));
    } else if (path == "/tokenize") {
      answer(tokenize(request.body, options_.model, chat_, loop_.health().max_context));
    } else if (path == "/detokenize") {
      answer(detokenize(request.body, *options_.model.tokenizer));
    } else {
      complete(request, *rights, headers, responder);
    }
    return;
  }
  const bool known =
      open ||
      one_of(path, {"/metrics", kTargets, "/v1/models", "/tokenizer_info", "/baton/status"}) ||
      path.starts_with("/v1/models/") || path.starts_with(kRequests);
  if (!known) {
    answer(not_found_path(path));
  } else if (!get) {
    answer(wrong_method("GET, HEAD"));
  } else if (path == "/metrics") {
    http::Response response = http::text_response(200, registry_.serialize());
    response.headers.set("Content-Type", std::string(metrics::Registry::kContentType));
    answer(std::move(response));
  } else if (path == "/baton/status" || path == kTargets) {
    if (path == kTargets ? !loop_.post(TargetsAsked{headers, responder})
                         : !loop_.post(StatusAsked{headers, responder})) {
      answer(http::error_response(unavailable("the router is busy")));
    }
  } else if (path.starts_with(kRequests)) {
    if (!loop_.post(ExplainAsked{path.substr(kRequests.size()), headers, responder})) {
      answer(http::error_response(unavailable("the router is busy")));
    }
  } else if (path == "/tokenizer_info") {
    answer(tokenizer_info(*options_.model.tokenizer));
  } else if (path.starts_with("/v1/models")) {
    answer(models(path));
  } else {
    answer(probe(path));
  }
}

}  // namespace baton::router
