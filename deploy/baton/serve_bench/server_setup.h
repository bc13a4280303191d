#pragma once

// What has to be known about a server before it is measured: where its API lies, the model's name,
// which fields it takes, and how many tokens a word has. Nothing of it needs more than OpenAI's
// API.

#include <functional>
#include <string>

#include "common/base/status.h"
#include "common/http/tls.h"
#include "deploy/baton/serve_bench/completion_port.h"
#include "deploy/baton/serve_bench/options.h"
#include "deploy/baton/serve_bench/prompt.h"

namespace baton::serve_bench {

// What was sent besides the measurement: a server's own counters hold it, too.
struct Unmeasured {
  size_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

struct ServerSetup {
  std::string api;   // "/v1" behind the url's path, or what the url ends with ("/v3")
  std::string path;  // of completions
  Dialect dialect;
  TokenScale scale;
  bool counts_prompts = false;  // else prompts have a word a token, and nobody checks
};

// Splits "https://host:port/v3" into server and "/v3"; without such an end the API is "/v1".
struct ApiUrl {
  std::string server;  // "https://host:port"
  std::string api;     // "/v1"
};
Result<ApiUrl> split_api_url(const std::string& url);

// The name of the first model of `url`/models. Errors say what to do.
Result<std::string> first_model(const std::string& url, const std::string& api_key,
                                const http::TlsTrust& trust = {});

class ServerProbe {
 public:
  // `stopped` is asked every 100 ms: true ends a wait with kCancelled.
  ServerProbe(CompletionPort& port, Duration timeout, std::function<bool()> stopped)
      : port_(port), timeout_(timeout), stopped_(std::move(stopped)) {}

  // Asks a few short questions. `setup` comes with api and model.
  Result<ServerSetup> prepare(ServerSetup setup, int input_tokens, const PromptMaker& prompts);
  // One short request, to the end: when it is answered, the queue before it is gone.
  Status settle(const ServerSetup& setup, const PromptMaker& prompts);

  const Unmeasured& unmeasured() const { return unmeasured_; }

 private:
  Result<AnswerEnd> ask(const ServerSetup& setup, const std::string& prompt, int output_tokens);
  Result<AnswerEnd> first_question(ServerSetup& setup, const std::string& prompt);

  CompletionPort& port_;
  const Duration timeout_;
  const std::function<bool()> stopped_;
  Unmeasured unmeasured_;
  uint64_t number_ = uint64_t{1} << 48;  // of the next prompt, away from those of a run
};

}  // namespace baton::serve_bench
