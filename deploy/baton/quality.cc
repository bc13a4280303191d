#include "deploy/baton/quality.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "common/config/program_options.h"
#include "deploy/baton/sequence_runner.h"
#include "deploy/baton/token_files.h"

namespace baton::cli {
namespace {

namespace json = boost::json;

// Reads one item of the file; remembers the first thing that is wrong.
class ItemReader {
 public:
  ItemReader(const json::value& item, int vocab_size)
      : item_(item.if_object()), vocab_size_(vocab_size) {}

  const Status& status() const { return status_; }

  std::vector<TokenId> ids(std::string_view key) { return ids_in(list(key), key); }
  std::vector<double> numbers(std::string_view key) { return numbers_in(list(key), key); }
  std::vector<std::vector<TokenId>> id_lists(std::string_view key) {
    std::vector<std::vector<TokenId>> out;
    for (const json::value& row : list(key)) {
      out.push_back(ids_in(row.is_array() ? row.get_array() : none_, key));
    }
    return out;
  }
  std::vector<std::vector<double>> number_lists(std::string_view key) {
    std::vector<std::vector<double>> out;
    for (const json::value& row : list(key)) {
      out.push_back(numbers_in(row.is_array() ? row.get_array() : none_, key));
    }
    return out;
  }

 private:
  const json::array& list(std::string_view key) {
    const json::value* value = item_ != nullptr ? item_->if_contains(key) : nullptr;
    if (value == nullptr || !value->is_array()) {
      fail(key, "is no list");
      return none_;
    }
    return value->get_array();
  }
  std::vector<TokenId> ids_in(const json::array& list, std::string_view key) {
    std::vector<TokenId> out;
    for (const json::value& value : list) {
      if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() >= vocab_size_) {
        fail(key, "holds something that is no token id of this model");
        return {};
      }
      out.push_back(static_cast<TokenId>(value.get_int64()));
    }
    return out;
  }
  std::vector<double> numbers_in(const json::array& list, std::string_view key) {
    std::vector<double> out;
    for (const json::value& value : list) {
      boost::system::error_code error;
      out.push_back(value.to_number<double>(error));
      if (error) {
        fail(key, "holds something that is no number");
        return {};
      }
    }
    return out;
  }
  void fail(std::string_view key, std::string_view what) {
    if (status_.ok()) {
      status_ = invalid_argument(std::string(key) + " " + std::string(what));
    }
  }

  const json::object* item_;
  const int vocab_size_;
  const json::array none_;
  Status status_;
};

Result<ReferencePrompt> read_item(const json::value& item, int vocab_size) {
  ItemReader reader(item, vocab_size);
  ReferencePrompt prompt;
  prompt.prompt = reader.ids("prompt_ids");
  const std::vector<TokenId> greedy = reader.ids("greedy_ids");
  const std::vector<double> margin = reader.numbers("margin");
  std::vector<std::vector<TokenId>> top_ids = reader.id_lists("top_ids");
  std::vector<std::vector<double>> top_logprobs = reader.number_lists("top_logprobs");
  BATON_RETURN_IF_ERROR(reader.status());
  const size_t steps = greedy.size();
  if (prompt.prompt.empty() || steps == 0 || margin.size() != steps || top_ids.size() != steps ||
      top_logprobs.size() != steps) {
    return invalid_argument("the lists are empty or of different lengths");
  }
  for (size_t i = 0; i < steps; ++i) {
    if (top_ids[i].size() != top_logprobs[i].size()) {
      return invalid_argument("top_ids and top_logprobs of a step have different lengths");
    }
    prompt.steps.push_back(
        {greedy[i], margin[i], std::move(top_ids[i]), std::move(top_logprobs[i])});
  }
  return prompt;
}

double kl_divergence(const ReferenceStep& step, std::span<const float> logits, double max,
                     double total) {
  constexpr double kTiny = 1e-12;
  double kl = 0;
  double p_sum = 0;
  double q_sum = 0;
  for (size_t i = 0; i < step.top_ids.size(); ++i) {
    const double q_exp = std::exp(logits[static_cast<size_t>(step.top_ids[i])] - max);
    const double log_q = logits[static_cast<size_t>(step.top_ids[i])] - max - std::log(total);
    const double p = std::exp(step.top_logprobs[i]);
    kl += p * (step.top_logprobs[i] - log_q);
    p_sum += p;
    q_sum += q_exp;
  }
  const double p_rest = 1 - p_sum;
  if (p_rest > kTiny) {
    kl += p_rest * std::log(p_rest / std::max((total - q_sum) / total, kTiny));
  }
  return kl;
}

Status measure(const ReferencePrompt& prompt, SequenceRunner& runner, size_t vocab,
               QualityMeter& meter) {
  runner.reset();
  meter.begin_prompt();
  const std::span<const TokenId> tokens = prompt.prompt;
  runner.feed(tokens.first(tokens.size() - 1));
  std::vector<TokenId> fed = {tokens.back()};
  for (const ReferenceStep& step : prompt.steps) {
    fed.push_back(step.token);
  }
  fed.pop_back();  // nothing is asked after the last one
  BATON_ASSIGN_OR_RETURN(const std::vector<float> rows, runner.feed_for_logits(fed, true));
  for (size_t i = 0; i < prompt.steps.size(); ++i) {
    meter.add(prompt.steps[i], std::span(rows).subspan(i * vocab, vocab));
  }
  return Status();
}

Result<QualityResult> run(const QualityOptions& options) {
  BATON_ASSIGN_OR_RETURN(const std::string text, read_text_file(options.reference));
  // Ids are checked against the vocabulary once the model is there; lengths are needed before.
  BATON_ASSIGN_OR_RETURN(const std::vector<ReferencePrompt> prompts,
                         parse_reference(text, 1 << 24));
  size_t longest = 0;
  for (const ReferencePrompt& prompt : prompts) {
    longest = std::max(longest, prompt.prompt.size() + prompt.steps.size());
  }
  BATON_ASSIGN_OR_RETURN(
      const std::unique_ptr<engine::Engine> engine,
      make_engine(options.engine,
                  {.positions = static_cast<int>(longest), .batch_tokens = options.engine.chunk},
                  engine::EngineOptions::Pool::kDecode));
  const int vocab = engine->description().vocab;
  BATON_RETURN_IF_ERROR(parse_reference(text, vocab).status());
  SequenceRunner runner(*engine, options.engine.chunk);
  if (static_cast<int>(longest) > runner.capacity()) {
    return invalid_argument("the longest prompt with its answer has " + std::to_string(longest) +
                            " tokens, the model's context is " +
                            std::to_string(engine->description().max_context));
  }
  QualityMeter meter;
  const bool show_progress = isatty(STDERR_FILENO) == 1;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (show_progress) {
      std::fprintf(stderr, "\rprompt %zu of %zu ", i + 1, prompts.size());
    }
    BATON_RETURN_IF_ERROR(measure(prompts[i], runner, static_cast<size_t>(vocab), meter));
  }
  if (show_progress) {
    std::fprintf(stderr, "\n");
  }
  return meter.result();
}

}  // namespace

Result<std::vector<ReferencePrompt>> parse_reference(std::string_view text, int vocab_size) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  const json::value* items =
      !error && value.is_object() ? value.get_object().if_contains("items") : nullptr;
  if (items == nullptr || !items->is_array() || items->get_array().empty()) {
    return invalid_argument(
        "the reference is no JSON object with a list \"items\" (unpack .xz files first)");
  }
  std::vector<ReferencePrompt> prompts;
  for (const json::value& item : items->get_array()) {
    Result<ReferencePrompt> prompt = read_item(item, vocab_size);
    if (!prompt.ok()) {
      return prompt.status().with_context("reference item " + std::to_string(prompts.size()));
    }
    prompts.push_back(std::move(prompt).value());
  }
  return prompts;
}

void QualityMeter::add(const ReferenceStep& step, std::span<const float> logits) {
  const auto best = std::ranges::max_element(logits);
  const double max = *best;
  double total = 0;
  for (const float logit : logits) {
    total += std::exp(logit - max);
  }
  ++tokens_;
  kl_sum_ += kl_divergence(step, logits, max, total);
  if (best - logits.begin() == step.token) {
    ++agreed_;
  } else if (!std::exchange(parted_, true)) {
    worst_margin_ = std::max(worst_margin_, step.margin);
  }
}

QualityResult QualityMeter::result() const {
  const double count = std::max(tokens_, 1);
  return {.tokens = tokens_,
          .top1_agreement = agreed_ / count,
          .kl_top64_mean = kl_sum_ / count,
          .worst_margin = worst_margin_};
}

int run_quality(const QualityOptions& options) {
  const Result<QualityResult> result = run(options);
  if (!result.ok()) {
    std::fprintf(stderr, "baton: %s\n", result.status().message().c_str());
    return config::kExitCannotStart;
  }
  std::printf(options.json ? "{\"tokens\":%d,\"top1_agreement\":%.6f,\"kl_top64_mean\":%.9f,"
                             "\"worst_margin\":%.5f}\n"
                           : "tokens          %d\ntop-1 agreement %.4f\nmean KL         %.2e\n"
                             "worst margin    %.3f\n",
              result->tokens, result->top1_agreement, result->kl_top64_mean, result->worst_margin);
  return config::kExitStopped;
}

}  // namespace baton::cli
