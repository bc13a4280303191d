#include "deploy/baton/serve_bench/server_setup.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <utility>

#include "common/http/address.h"
#include "common/http/client.h"
#include "deploy/baton/serve_bench/completion_event.h"

namespace baton::serve_bench {
namespace {

namespace json = boost::json;

constexpr int kFewWords = 16;
// Long enough that rounding does not matter, short enough for any context.
constexpr int kMostWords = 1024;

// A failed answer as one line that says what to do about it.
Status failure(const std::string& where, int http_status, const std::string& message) {
  const std::string text = where + ": HTTP status " + std::to_string(http_status) +
                           (message.empty() ? "" : ": " + message);
  if (http_status == 401 || http_status == 403) {
    return unauthenticated(text + "; give the server's key with --api-key-file FILE");
  }
  if (http_status == 404) {
    return not_found(text + "; check --url and --model");
  }
  return unavailable(text);
}

// The last answer to one question.
class Question final : public AnswerObserver {
 public:
  explicit Question(CompletionPort& port) : port_(port) {}
  void on_tokens(TimePoint) override {}
  void on_end(const AnswerEnd& end) override {
    answer = end;
    port_.interrupt();
  }
  std::optional<AnswerEnd> answer;

 private:
  CompletionPort& port_;
};

Result<std::string> model_of(const std::string& url, const std::string& body) {
  boost::system::error_code error;
  const json::value value = json::parse(body, error);
  const json::value* data =
      !error && value.is_object() ? value.get_object().if_contains("data") : nullptr;
  if (data != nullptr && data->is_array() && !data->get_array().empty() &&
      data->get_array()[0].is_object()) {
    const json::value* id = data->get_array()[0].get_object().if_contains("id");
    if (id != nullptr && id->is_string()) {
      return std::string(id->get_string());
    }
  }
  return unavailable(url + " names no model; give one with --model NAME");
}

}  // namespace

Result<ApiUrl> split_api_url(const std::string& url) {
  BATON_ASSIGN_OR_RETURN(const http::Url parsed, http::parse_url(url));
  std::string path = parsed.target.substr(0, parsed.target.find('?'));
  while (path.ends_with('/')) {
    path.pop_back();
  }
  const size_t slash = path.rfind('/');
  const std::string last = slash == std::string::npos ? "" : path.substr(slash + 1);
  const bool version =
      last.size() >= 2 && last[0] == 'v' &&
      std::all_of(last.begin() + 1, last.end(), [](char c) { return c >= '0' && c <= '9'; });
  return ApiUrl{http::origin(parsed), version ? path : path + "/v1"};
}

Result<std::string> first_model(const std::string& url, const std::string& api_key,
                                const http::TlsTrust& trust) {
  BATON_ASSIGN_OR_RETURN(const ApiUrl api, split_api_url(url));
  http::ClientRequest request;
  request.url = api.server + api.api + "/models";
  if (!api_key.empty()) {
    request.headers.set("Authorization", "Bearer " + api_key);
  }
  http::Client client({.timeout = 10s, .max_body_bytes = 16 << 20, .trust = trust});
  BATON_ASSIGN_OR_RETURN(const http::Response response, client.request(request));
  if (response.status != 200) {
    return failure(request.url, response.status, error_text(response.body));
  }
  return model_of(request.url, response.body);
}

Result<AnswerEnd> ServerProbe::ask(const ServerSetup& setup, const std::string& prompt,
                                   int output_tokens) {
  Question question(port_);
  port_.start({setup.path, setup.dialect.body(prompt, output_tokens), timeout_}, question);
  while (!question.answer) {
    if (stopped_()) {
      port_.cancel_all();
      return cancelled("stopped");
    }
    port_.run_until(port_.now() + 100ms);
  }
  ++unmeasured_.requests;
  unmeasured_.prompt_tokens += std::max<int64_t>(0, question.answer->prompt_tokens);
  unmeasured_.completion_tokens += std::max<int64_t>(0, question.answer->completion_tokens);
  return *question.answer;
}

// Fields that are no part of OpenAI's API go first, one by one, when the server refuses them.
Result<AnswerEnd> ServerProbe::first_question(ServerSetup& setup, const std::string& prompt) {
  BATON_ASSIGN_OR_RETURN(AnswerEnd answer, ask(setup, prompt, 2));
  for (bool* field : {&setup.dialect.ignore_eos, &setup.dialect.include_usage}) {
    if (answer.outcome == Outcome::kHttpStatus &&
        (answer.http_status == 400 || answer.http_status == 422)) {
      *field = false;
      BATON_ASSIGN_OR_RETURN(answer, ask(setup, prompt, 2));
    }
  }
  return answer;
}

Result<ServerSetup> ServerProbe::prepare(ServerSetup setup, int input_tokens,
                                         const PromptMaker& prompts) {
  setup.path = setup.api + (setup.dialect.chat ? "/chat/completions" : "/completions");
  const auto words = [&](int count) {
    return prompts.text({Duration::zero(), count, 1, {}}, number_++, {});
  };
  BATON_ASSIGN_OR_RETURN(const AnswerEnd first, first_question(setup, words(kFewWords)));
  if (first.outcome == Outcome::kHttpStatus) {
    return failure(setup.path, first.http_status, first.message);
  }
  if (first.outcome != Outcome::kComplete && first.outcome != Outcome::kEmpty) {
    return unavailable(setup.path + ": " + first.message);
  }
  setup.counts_prompts = first.prompt_tokens > 0;
  if (!setup.counts_prompts) {
    return setup;
  }
  const int many = std::clamp(input_tokens, 4 * kFewWords, kMostWords);
  BATON_ASSIGN_OR_RETURN(const AnswerEnd second, ask(setup, words(many), 1));
  const double per_word = static_cast<double>(second.prompt_tokens - first.prompt_tokens) /
                          static_cast<double>(many - kFewWords);
  // A prompt that does not fit, or a count that does not follow the prompt, teaches nothing.
  if (second.outcome == Outcome::kComplete && per_word > 0.2 && per_word < 20) {
    setup.scale.per_word = per_word;
    setup.scale.overhead = static_cast<double>(first.prompt_tokens) - per_word * kFewWords;
  }
  return setup;
}

Status ServerProbe::settle(const ServerSetup& setup, const PromptMaker& prompts) {
  const std::string prompt = prompts.text({Duration::zero(), kFewWords, 1, {}}, number_++, {});
  return ask(setup, prompt, 1).status();
}

}  // namespace baton::serve_bench
