#include "deploy/baton/generate.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/config/program_options.h"
#include "common/http/error.h"
#include "common/tokenizer/incremental_detokenizer.h"
#include "common/tokenizer/load_tokenizer.h"
#include "deploy/baton/sequence_runner.h"
#include "deploy/baton/token_files.h"

namespace baton::cli {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

struct Request {
  std::vector<TokenId> prompt;
  std::vector<TokenId> forced;
  sampling::SamplingParams params;
  int outputs = 0;  // at most
};

Result<Request> make_request(const GenerateOptions& options,
                             const tokenizer::Tokenizer& tokenizer) {
  const auto vocab = static_cast<int>(tokenizer.vocab_size());
  Request request;
  if (!options.prompt_ids_file.empty()) {
    BATON_ASSIGN_OR_RETURN(request.prompt, read_token_ids(options.prompt_ids_file, vocab));
  } else {
    // As the router reads the prompt of a completion.
    request.prompt = tokenizer.encode(options.prompt, {.add_bos = true, .parse_special = true});
  }
  if (request.prompt.empty()) {
    return invalid_argument("the prompt has no tokens");
  }
  if (!options.force_ids_file.empty()) {
    BATON_ASSIGN_OR_RETURN(request.forced, read_token_ids(options.force_ids_file, vocab));
  }
  request.outputs =
      request.forced.empty() ? options.max_tokens : static_cast<int>(request.forced.size());
  request.params.temperature = options.temperature;
  request.params.top_p = options.top_p;
  request.params.top_k = options.top_k;
  request.params.seed = options.seed;
  request.params.max_tokens = request.outputs;
  request.params.ignore_eos = options.ignore_eos || !request.forced.empty();
  request.params.end_ids.assign(tokenizer.end_ids().begin(), tokenizer.end_ids().end());
  BATON_RETURN_IF_ERROR(sampling::validate(request.params, vocab));
  return request;
}

// Writes rows and shows text as they come.
class Output {
 public:
  Output(const tokenizer::Tokenizer& tokenizer, bool show)
      : tokens_(tokenizer, {.continues = true}), show_(show) {}

  Status open_logits(const std::string& path) {
    logits_.reset(std::fopen(path.c_str(), "wbe"));
    return logits_ ? Status() : unavailable("cannot write " + path + ": " + std::strerror(errno));
  }
  bool wants_logits() const { return logits_ != nullptr; }

  Status take(const SequenceRunner::Next& next, const tokenizer::Tokenizer& tokenizer) {
    const TokenId id = next.sampled.id;
    ids_.push_back(id);
    const bool end_token =
        next.sampled.finish == sampling::FinishReason::kStop && tokenizer.is_end(id);
    show(end_token ? "" : tokens_.feed(id));
    const std::vector<float>& row = next.logits;
    if (logits_ &&
        std::fwrite(row.data(), sizeof(float), row.size(), logits_.get()) != row.size()) {
      return unavailable(std::string("cannot write the logits: ") + std::strerror(errno));
    }
    return Status();
  }
  Status finish() {
    show(tokens_.finish());
    if (logits_ && std::fclose(logits_.release()) != 0) {
      return unavailable(std::string("cannot write the logits: ") + std::strerror(errno));
    }
    return Status();
  }

  const std::vector<TokenId>& ids() const { return ids_; }
  const std::string& text() const { return text_; }

 private:
  void show(const std::string& piece) {
    text_ += piece;
    if (show_ && !piece.empty()) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    }
  }

  tokenizer::IncrementalDetokenizer tokens_;
  bool show_;
  File logits_;
  std::vector<TokenId> ids_;
  std::string text_;
};

void append_ids(std::string& out, const std::vector<TokenId>& ids) {
  out += '[';
  for (const TokenId id : ids) {
    out += (out.ends_with('[') ? "" : ",") + std::to_string(id);
  }
  out += ']';
}

void print_json(const Output& output, const Request& request) {
  std::string out = "{\"tokens\":";
  append_ids(out, output.ids());
  out += ",\"text\":";
  http::append_json_string(out, output.text());
  out += ",\"prompt_tokens\":";
  append_ids(out, request.prompt);
  std::printf("%s}\n", out.c_str());
}

// The loop of a decode worker, for one sequence.
Status generate(const Request& request, const tokenizer::Tokenizer& tokenizer, int rows,
                SequenceRunner& runner, Output& output) {
  const int tokens = std::min(rows, static_cast<int>(tokenizer.vocab_size()));
  sampling::SequenceSampler sampler(request.params, request.prompt, {}, 0, tokens);
  std::vector<TokenId> next_tokens = request.prompt;
  for (int i = 0; i < request.outputs; ++i) {
    BATON_ASSIGN_OR_RETURN(const SequenceRunner::Next next,
                           runner.feed_and_sample(next_tokens, sampler, output.wants_logits()));
    BATON_RETURN_IF_ERROR(output.take(next, tokenizer));
    if (next.sampled.finish != sampling::FinishReason::kNone) {
      break;
    }
    next_tokens = {request.forced.empty() ? next.sampled.id
                                          : request.forced[static_cast<size_t>(i)]};
  }
  return output.finish();
}

Status run(const GenerateOptions& options) {
  BATON_ASSIGN_OR_RETURN(const tokenizer::Tokenizer tokenizer,
                         tokenizer::load_tokenizer(options.engine.model));
  BATON_ASSIGN_OR_RETURN(Request request, make_request(options, tokenizer));
  Output output(tokenizer, !options.json);
  if (!options.logits_file.empty()) {
    BATON_RETURN_IF_ERROR(output.open_logits(options.logits_file));
  }
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  constexpr int64_t kMaxPositions = int64_t{1} << 24;
  if (prompt + request.outputs > kMaxPositions) {
    return invalid_argument("prompt and --max-tokens are " +
                            std::to_string(prompt + request.outputs) + " tokens, more than " +
                            std::to_string(kMaxPositions));
  }
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                         make_engine(options.engine,
                                     {.positions = static_cast<int>(prompt) + request.outputs,
                                      .batch_tokens = options.engine.chunk},
                                     engine::EngineOptions::Pool::kDecode));
  const int context = engine->description().max_context;
  if (prompt >= context) {
    return invalid_argument("the prompt has " + std::to_string(prompt) +
                            " tokens, the model's context is " + std::to_string(context));
  }
  request.outputs = std::min(request.outputs, context - static_cast<int>(prompt));
  SequenceRunner runner(*engine, options.engine.chunk);
  BATON_RETURN_IF_ERROR(generate(request, tokenizer, engine->description().vocab, runner, output));
  if (options.json) {
    print_json(output, request);
  } else {
    std::printf("\n");
  }
  return Status();
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  const Status status = run(options);
  if (!status.ok()) {
    std::fprintf(stderr, "baton: %s\n", status.message().c_str());
    return config::kExitCannotStart;
  }
  return config::kExitStopped;
}

}  // namespace baton::cli
