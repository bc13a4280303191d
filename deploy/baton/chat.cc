#include "deploy/baton/chat.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <utility>

#include "common/config/program_options.h"
#include "deploy/baton/chat_session.h"
#include "deploy/baton/router_client.h"
#include "deploy/baton/terminal_editor.h"
#include "deploy/baton/terminal_lines.h"
#include "deploy/baton/terminal_signals.h"
#include "deploy/baton/terminal_text.h"

namespace baton::cli {
namespace {

// Of one answer: somebody who has waited long enough presses Ctrl-C.
constexpr Duration kAnswerTimeout = 1h;

// People give the address that OpenAI's clients want, too.
std::string without_version(std::string url) {
  while (url.ends_with('/')) {
    url.pop_back();
  }
  if (url.ends_with("/v1")) {
    url.resize(url.size() - 3);
  }
  return url;
}

// The model to talk to; `told` is what the server says of it, if it says anything.
Result<ServedModel> choose_model(const std::string& wanted, RouterClient& server) {
  if (!wanted.empty()) {
    return ServedModel{wanted, 0};
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<ServedModel> models, server.models());
  if (models.empty() || models.front().id.empty()) {
    return not_found("the server lists no model; name one with --model");
  }
  return models.front();
}

std::string greeting(const ServedModel& model, const std::string& url) {
  return one_line(model.id) + " at " + url +
         (model.max_context > 0 ? ", context " + std::to_string(model.max_context) + " tokens"
                                : "") +
         ". /help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.\n";
}

int failed(const Status& status) {
  std::cerr << "baton: " << one_line(status.message()) << std::endl;
  return config::kExitCannotStart;
}

}  // namespace

int run_chat(const ChatOptions& options) {
  const Result<std::string> key = first_api_key(options.api_key_file);
  if (!key.ok()) {
    return failed(key.status());
  }
  TerminalSignals signals;
  const std::string url = without_version(options.url);
  RouterClient server({url, *key, trust_in(options.cacert)}, kAnswerTimeout, signals.fd());
  const Result<ServedModel> model = choose_model(options.model, server);
  if (!model.ok()) {
    const bool stopped = model.status().code() == StatusCode::kCancelled;
    return stopped ? config::kExitStopped : failed(model.status());
  }
  const SteadyClock clock;
  const bool interactive = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  std::unique_ptr<LineReader> lines;
  if (interactive) {
    std::cout << greeting(*model, url) << std::flush;
    lines = std::make_unique<TerminalEditor>(signals);
  } else {
    lines = std::make_unique<PlainLines>(STDIN_FILENO, signals);
  }
  return ChatSession({.model = model->id,
                      .max_tokens = options.max_tokens,
                      .temperature = options.temperature,
                      .seed = options.seed},
                     options.system,
                     {.server = server,
                      .lines = *lines,
                      .signals = signals,
                      .clock = clock,
                      .out = std::cout,
                      .err = std::cerr,
                      .interactive = interactive})
      .run();
}

}  // namespace baton::cli
