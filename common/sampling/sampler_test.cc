#include "common/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/grammar/grammar.h"
#include "common/kernels/math/exp.h"
#include "common/sampling/natural_log.h"
#include "common/sampling/philox.h"

namespace baton::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_row(SeededRandom& random, int n, float magnitude) {
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) {
    x = magnitude * static_cast<float>(static_cast<int32_t>(random.next() >> 32)) * 0x1p-31f;
  }
  return row;
}

Sampled sample(SequenceSampler& sampler, std::vector<float> row, Scratch& scratch) {
  Result<Sampled> sampled = sampler.sample(row, scratch);
  EXPECT_TRUE(sampled.ok()) << sampled.status().to_string();
  return sampled.ok() ? *sampled : Sampled{};
}

TokenId sample_once(const SamplingParams& params, const std::vector<float>& row,
                    const std::vector<TokenId>& prompt = {},
                    const std::vector<TokenId>& output = {}, int choice = 0) {
  SequenceSampler sampler(params, prompt, output, choice, static_cast<int>(row.size()));
  Scratch scratch;
  return sample(sampler, row, scratch).id;
}

// README.md read line by line, with sorts and loops and no shortcuts.
struct Reference {
  SamplingParams params;
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
  int choice = 0;

  void penalise(std::vector<float>& l) const {
    for (size_t i = 0; i < l.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      const auto in_output = std::count(output.begin(), output.end(), id);
      const bool seen = in_output > 0 || std::count(prompt.begin(), prompt.end(), id) > 0;
      if (seen && params.repetition_penalty != 1.0f) {
        l[i] = l[i] > 0 ? l[i] / params.repetition_penalty : l[i] * params.repetition_penalty;
      }
      if (in_output > 0) {
        l[i] -= params.presence_penalty + params.frequency_penalty * static_cast<float>(in_output);
      }
    }
  }

  // Blocks of 512, 16 strided partial sums, fold, f64 over blocks.
  static double blocked_sums(const std::vector<float>& w, std::vector<double>& blocks) {
    double total = 0;
    for (size_t start = 0; start < w.size(); start += 512) {
      float partial[16] = {};
      for (size_t j = start; j < std::min(start + 512, w.size()); ++j) {
        partial[j % 16] += w[j];
      }
      for (int half : {8, 4, 2, 1}) {
        for (int i = 0; i < half; ++i) {
          partial[i] += partial[i + half];
        }
      }
      blocks.push_back(static_cast<double>(partial[0]));
      total += blocks.back();
    }
    return total;
  }

  static TokenId draw_unfiltered(const std::vector<float>& w, double u) {
    std::vector<double> blocks;
    const double target = u * blocked_sums(w, blocks);
    double sum = 0;
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (sum + blocks[b] > target) {
        TokenId last = 0;
        for (size_t j = b * 512; j < std::min((b + 1) * 512, w.size()); ++j) {
          sum += static_cast<double>(w[j]);
          last = w[j] > 0 ? static_cast<TokenId>(j) : last;
          if (sum > target) {
            break;
          }
        }
        return last;
      }
      sum += blocks[b];
    }
    return -1;
  }

  TokenId next(std::vector<float> l) const {
    for (const auto& [id, bias] : params.logit_bias) {
      l[static_cast<size_t>(id)] += bias;
    }
    penalise(l);
    if (static_cast<int>(output.size()) < params.min_tokens) {
      for (const auto* ids : {&params.end_ids, &params.stop_token_ids}) {
        for (const TokenId id : *ids) {
          l[static_cast<size_t>(id)] = -kInf;
        }
      }
    }
    if (params.temperature < 1e-5f) {
      return static_cast<TokenId>(std::max_element(l.begin(), l.end()) - l.begin());
    }
    for (float& x : l) {
      x = x / params.temperature;
    }
    const float max = *std::max_element(l.begin(), l.end());
    std::vector<float> w(l.size());
    for (size_t i = 0; i < l.size(); ++i) {
      w[i] = kernels::exp_canonical(l[i] - max);
    }
    const double u = uniform_of(params.seed, static_cast<uint32_t>(choice),
                                static_cast<uint32_t>(output.size()), 0);
    const bool truncates = params.top_k > 0 || params.min_p > 0;
    if (!truncates && params.top_p >= 1) {
      return draw_unfiltered(w, u);
    }
    std::vector<size_t> order(l.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return l[a] > l[b]; });
    if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size()) {
      order.resize(static_cast<size_t>(params.top_k));
    }
    if (params.min_p > 0) {
      const float least = max + static_cast<float>(natural_log(static_cast<double>(params.min_p)));
      std::erase_if(order, [&](size_t i) { return l[i] < least; });
    }
    double total = 0;
    for (const size_t i : order) {
      total += static_cast<double>(w[i]);
    }
    if (!truncates) {
      std::vector<double> blocks;
      total = blocked_sums(w, blocks);
    }
    if (params.top_p < 1) {
      const double target = static_cast<double>(params.top_p) * total;
      total = 0;
      for (size_t kept = 0; kept < order.size(); ++kept) {
        total += static_cast<double>(w[order[kept]]);
        if (total >= target) {
          order.resize(kept + 1);
        }
      }
    }
    double sum = 0;
    for (const size_t i : order) {
      sum += static_cast<double>(w[i]);
      if (sum > u * total) {
        return static_cast<TokenId>(i);
      }
    }
    return -1;
  }
};

SamplingParams random_params(SeededRandom& random, int vocab) {
  const auto pick = [&](std::initializer_list<float> values) {
    return *(values.begin() + random.next() % values.size());
  };
  const auto token = [&] {
    return static_cast<TokenId>(random.next() % static_cast<size_t>(vocab));
  };
  SamplingParams p;
  p.temperature = pick({0.0f, 0.3f, 0.7f, 1.0f, 1.0f, 2.0f});
  p.top_p = pick({1.0f, 1.0f, 0.0f, 0.5f, 0.9f, 0.999f});
  p.min_p = pick({0.0f, 0.0f, 0.0f, 0.01f, 0.3f, 1.0f});
  p.top_k = static_cast<int>(pick({0.0f, 0.0f, -1.0f, 1.0f, 7.0f, 300.0f, 1e6f}));
  p.repetition_penalty = pick({1.0f, 1.0f, 1.3f, 0.8f});
  p.presence_penalty = pick({0.0f, 0.0f, 0.5f, -1.0f});
  p.frequency_penalty = pick({0.0f, 0.0f, 0.4f, -0.2f});
  p.min_tokens = static_cast<int>(random.next() % 4);
  p.end_ids = {token()};
  p.stop_token_ids = {token(), token()};
  if (random.next() % 3 == 0) {
    p.logit_bias = {{token(), 5.0f}, {token(), -100.0f}, {token(), 0.25f}};
  }
  p.seed = random.next();
  return p;
}

TEST(SamplerTest, EqualsTheReferenceOnEveryInstructionSet) {
  SeededRandom random(20240701);
  for (int round = 0; round < 600; ++round) {
    const int vocab = 2 + static_cast<int>(random.next() % (round % 50 == 0 ? 30'000 : 1500));
    Reference reference{random_params(random, vocab), {}, {}, static_cast<int>(round % 3)};
    ASSERT_TRUE(validate(reference.params, vocab).ok());
    if (vocab <= 3) {
      reference.params.min_tokens = 0;  // else everything could be masked
    }
    for (int i = 0; i < 6; ++i) {
      const auto id = static_cast<TokenId>(random.next() % static_cast<size_t>(vocab));
      (i % 2 == 0 ? reference.prompt : reference.output).push_back(id);
    }
    // Coarse values make ties.
    std::vector<float> row = random_row(random, vocab, round % 2 == 0 ? 12.0f : 3.0f);
    for (float& x : row) {
      x = round % 5 == 0 ? std::round(x) : x;
    }
    const TokenId expected = reference.next(row);
    for (const device::Isa isa : device::available_isas()) {
      SequenceSampler sampler(reference.params, reference.prompt, reference.output,
                              reference.choice, vocab);
      Scratch scratch;
      scratch.isa = isa;
      ASSERT_EQ(sample(sampler, row, scratch).id, expected)
          << "round " << round << " " << isa_name(isa);
    }
  }
}

TEST(SamplerTest, GreedyTakesTheLowestIdOfTheMaximum) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.top_p = 0.1f;
  std::vector<float> row(300, 1.0f);
  row[200] = 2.0f;
  row[70] = 2.0f;
  EXPECT_EQ(sample_once(params, row), 70);
  params.temperature = 0.9e-5f;
  EXPECT_EQ(sample_once(params, row), 70);
}

TEST(SamplerTest, BiasBansAndForces) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.logit_bias = {{0, -100.0f}};
  EXPECT_EQ(sample_once(params, {30.0f, 1.0f, 2.0f}), 2);
  params.logit_bias = {{1, 100.0f}};
  EXPECT_EQ(sample_once(params, {30.0f, -30.0f, 2.0f}), 1);
}

TEST(SamplerTest, IgnoresThePaddedTailOfTheRow) {
  SamplingParams params;
  params.temperature = 0.0f;
  SequenceSampler sampler(params, {}, {}, 0, 2);
  Scratch scratch;
  std::vector<float> row = {1.0f, 2.0f, 99.0f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(sampler.sample(row, scratch)->id, 1);
}

// Chi-square of 20,000 draws against the softmax, at choices, positions and seeds that differ.
void expect_distribution(const SamplingParams& base, const std::vector<float>& row,
                         const std::vector<double>& expected) {
  constexpr int kDraws = 20'000;
  std::vector<int> counts(row.size(), 0);
  Scratch scratch;
  for (int i = 0; i < kDraws / 100; ++i) {
    SamplingParams params = base;
    params.seed = static_cast<uint64_t>(i) * 77;
    SequenceSampler sampler(params, {}, {}, i % 5, static_cast<int>(row.size()));
    for (int k = 0; k < 100; ++k) {
      ++counts[static_cast<size_t>(sample(sampler, row, scratch).id)];
    }
  }
  double chi_square = 0;
  int degrees = -1;
  for (size_t i = 0; i < row.size(); ++i) {
    if (expected[i] == 0) {
      ASSERT_EQ(counts[i], 0) << i;
      continue;
    }
    const double mean = expected[i] * kDraws;
    chi_square += (counts[i] - mean) * (counts[i] - mean) / mean;
    ++degrees;
  }
  // Five standard deviations of chi-square; the seeds are fixed.
  EXPECT_LT(chi_square, degrees + 5 * std::sqrt(2.0 * degrees));
}

std::vector<double> softmax(const std::vector<double>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const double l : logits) {
    p.push_back(std::isinf(l) ? 0 : std::exp(l));
    sum += p.back();
  }
  for (double& x : p) {
    x /= sum;
  }
  return p;
}

TEST(SamplerTest, DrawsTheDistributionItPromises) {
  const std::vector<float> row = {1.0f, 0.0f, 2.0f, -1.0f, 0.5f, 1.5f};
  const double none = -std::numeric_limits<double>::infinity();
  SamplingParams params;
  expect_distribution(params, row, softmax({1, 0, 2, -1, 0.5, 1.5}));
  params.temperature = 0.5f;
  expect_distribution(params, row, softmax({2, 0, 4, -2, 1, 3}));
  params.temperature = 1.0f;
  params.top_k = 3;
  expect_distribution(params, row, softmax({1, none, 2, none, none, 1.5}));
  params.top_k = 0;
  params.top_p = 0.6f;  // 0.42, 0.25: the second crosses
  expect_distribution(params, row, softmax({none, none, 2, none, none, 1.5}));
  params.top_p = 1.0f;
  params.min_p = 0.2f;  // keeps logits >= 2 + ln 0.2 = 0.39
  expect_distribution(params, row, softmax({1, none, 2, none, 0.5, 1.5}));
}

TEST(SamplerTest, ChoicesAndSeedsDifferAndRepeat) {
  SeededRandom random(9);
  const std::vector<float> row = random_row(random, 1000, 1.0f);
  SamplingParams params;
  params.seed = 42;
  const TokenId first = sample_once(params, row);
  EXPECT_EQ(sample_once(params, row), first);
  EXPECT_NE(sample_once(params, row, {}, {}, 1), first);
  EXPECT_NE(sample_once(params, row, {}, {}, 2), sample_once(params, row, {}, {}, 1));
  params.seed = 43;
  EXPECT_NE(sample_once(params, row), first);
}

TEST(SamplerTest, ContinuesExactlyWhenRebuiltFromPromptAndOutput) {
  SeededRandom random(12);
  constexpr int kVocab = 700;
  SamplingParams params;
  params.seed = 5;
  params.repetition_penalty = 1.2f;
  params.presence_penalty = 0.3f;
  params.frequency_penalty = 0.2f;
  params.min_tokens = 20;
  params.end_ids = {3};
  const std::vector<TokenId> prompt = {1, 2, 3, 3, 699};
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 40; ++i) {
    rows.push_back(random_row(random, kVocab, 6.0f));
  }
  Scratch scratch;
  SequenceSampler whole(params, prompt, {}, 1, kVocab);
  std::vector<TokenId> output;
  for (const std::vector<float>& row : rows) {
    SequenceSampler rebuilt(params, prompt, output, 1, kVocab);
    EXPECT_EQ(rebuilt.output_count(), static_cast<int>(output.size()));
    const Sampled a = sample(whole, row, scratch);
    const Sampled b = sample(rebuilt, row, scratch);
    ASSERT_EQ(a.id, b.id);
    ASSERT_EQ(a.finish, b.finish);
    output.push_back(a.id);
  }
  EXPECT_EQ(whole.output_count(), 40);
}

TEST(SamplerTest, AcceptCountsLikeSample) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.presence_penalty = 2.0f;
  params.max_tokens = 3;
  Scratch scratch;
  SequenceSampler sampler(params, {}, {}, 0, 3);
  EXPECT_EQ(sampler.accept(0), FinishReason::kNone);
  EXPECT_EQ(sample(sampler, {2.0f, 1.0f, 0.5f}, scratch).id, 1);
  EXPECT_EQ(sampler.accept(2), FinishReason::kLength);
}

TEST(SamplerTest, EndTokensStopUnlessIgnoredStopTokensAlways) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.end_ids = {1};
  params.stop_token_ids = {2};
  Scratch scratch;
  const auto finish_at = [&](int id) {
    SequenceSampler sampler(params, {}, {}, 0, 4);
    std::vector<float> row(4, 0.0f);
    row[static_cast<size_t>(id)] = 1.0f;
    return sample(sampler, row, scratch).finish;
  };
  EXPECT_EQ(finish_at(0), FinishReason::kNone);
  EXPECT_EQ(finish_at(1), FinishReason::kStop);
  EXPECT_EQ(finish_at(2), FinishReason::kStop);
  params.ignore_eos = true;
  EXPECT_EQ(finish_at(1), FinishReason::kNone);
  EXPECT_EQ(finish_at(2), FinishReason::kStop);
  params.max_tokens = 1;
  EXPECT_EQ(finish_at(0), FinishReason::kLength);
  EXPECT_EQ(finish_at(2), FinishReason::kStop);
}

TEST(SamplerTest, MinTokensMasksEveryEndUntilThen) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.end_ids = {1};
  params.stop_token_ids = {2};
  params.min_tokens = 2;
  Scratch scratch;
  SequenceSampler sampler(params, {}, {}, 0, 4);
  const std::vector<float> row = {0.0f, 9.0f, 8.0f, 1.0f};
  EXPECT_EQ(sample(sampler, row, scratch).id, 3);
  EXPECT_EQ(sample(sampler, row, scratch).id, 3);
  const Sampled third = sample(sampler, row, scratch);
  EXPECT_EQ(third.id, 1);
  EXPECT_EQ(third.finish, FinishReason::kStop);
}

TEST(SamplerTest, LogprobsComeFromTheRawLogits) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.logit_bias = {{0, -100.0f}};
  params.logprobs = 2;
  Scratch scratch;
  SequenceSampler sampler(params, {}, {}, 0, 4);
  const Sampled sampled = sample(sampler, {2.0f, 1.0f, 1.0f, -kInf}, scratch);
  EXPECT_EQ(sampled.id, 1);
  ASSERT_TRUE(sampled.logprobs.has_value());
  const double lse = std::log(std::exp(2.0) + 2 * std::exp(1.0));
  EXPECT_NEAR(sampled.logprobs->sampled, 1.0 - lse, 1e-6);
  ASSERT_EQ(sampled.logprobs->top.size(), 2u);
  EXPECT_EQ(sampled.logprobs->top[0].id, 0);
  EXPECT_NEAR(sampled.logprobs->top[0].logprob, 2.0 - lse, 1e-6);
  EXPECT_EQ(sampled.logprobs->top[1].id, 1);
}

TEST(SamplerTest, LogprobsAreTheSameOnEveryInstructionSetAndWithoutSampling) {
  SeededRandom random(31);
  const std::vector<float> row = random_row(random, 3001, 9.0f);
  SamplingParams params;
  params.logprobs = 5;
  params.seed = 8;
  std::vector<Sampled> results;
  for (const device::Isa isa : device::available_isas()) {
    Scratch scratch;
    scratch.isa = isa;
    SequenceSampler sampler(params, {}, {}, 0, 3001);
    results.push_back(sample(sampler, row, scratch));
    EXPECT_EQ(results.back().logprobs, results.front().logprobs);
    const Result<TokenLogprobs> alone =
        token_logprobs(row, results.front().id, params.logprobs, scratch);
    ASSERT_TRUE(alone.ok());
    EXPECT_EQ(alone->sampled, results.front().logprobs->sampled);
    EXPECT_EQ(alone->top, results.front().logprobs->top);
  }
}

TEST(SamplerTest, ZeroLogprobsReportTheSampledTokenOnly) {
  SamplingParams params;
  params.logprobs = 0;
  Scratch scratch;
  SequenceSampler sampler(params, {}, {}, 0, 1);
  const Sampled sampled = sample(sampler, {3.0f}, scratch);
  ASSERT_TRUE(sampled.logprobs.has_value());
  EXPECT_EQ(sampled.logprobs->sampled, 0.0f);
  EXPECT_TRUE(sampled.logprobs->top.empty());
}

TEST(SamplerTest, FailsOnRowsThatCannotBeSampledAndRecordsNothing) {
  Scratch scratch;
  for (const int logprobs : {-1, 2}) {
    SamplingParams params;
    params.logprobs = logprobs;
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
      SequenceSampler sampler(params, {}, {}, 0, 3);
      std::vector<float> row = {0.0f, bad, 1.0f};
      EXPECT_EQ(sampler.sample(row, scratch).status(),
                internal_error("a logit is NaN or infinite"));
      EXPECT_EQ(sampler.output_count(), 0);
    }
    SequenceSampler sampler(params, {}, {}, 0, 2);
    std::vector<float> row = {-kInf, -kInf};
    EXPECT_EQ(sampler.sample(row, scratch).status().code(), StatusCode::kInternal);
  }
  SamplingParams params;
  params.min_tokens = 1;
  params.end_ids = {0, 1};
  SequenceSampler sampler(params, {}, {}, 0, 2);
  std::vector<float> row = {1.0f, 2.0f};
  EXPECT_EQ(sampler.sample(row, scratch).status().code(), StatusCode::kInvalidArgument);
}

TEST(SamplerTest, TinyPenaltiesStayFiniteAndOverflowIsTheRequestsFault) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.repetition_penalty = 1e-38f;
  EXPECT_EQ(sample_once(params, {5.0f, 1.0f}, {0}), 0);
  params.temperature = 0.5f;
  Scratch scratch;
  const std::vector<TokenId> prompt = {0};
  SequenceSampler sampler(params, prompt, {}, 0, 2);
  std::vector<float> row = {5.0f, 1.0f};
  EXPECT_EQ(sampler.sample(row, scratch).status().code(), StatusCode::kInvalidArgument);
}

// Token i is the letter a + i; the last is the end token.
SequenceSampler::MakeGrammar letters(const std::string& expression) {
  static constexpr std::string_view kLetters = "abcdefgh";
  Result<grammar::Automaton> automaton = grammar::compile({grammar::Kind::kRegex, {expression}});
  auto recognizer = std::make_shared<grammar::Recognizer>(
      std::move(*automaton), std::make_shared<grammar::VocabularyTrie>(9, [](TokenId id) {
        return kLetters.substr(static_cast<size_t>(id), 1);
      }));
  return [recognizer] { return recognizer; };
}

SamplingParams greedy_with_end() {
  SamplingParams params;
  params.temperature = 0;
  params.end_ids = {8};
  return params;
}

TEST(SamplerGrammarTest, OnlyTokensOfTheGrammarAreSampled) {
  Scratch scratch;
  SequenceSampler sampler(greedy_with_end(), {}, {}, 0, 9, letters("b[cd]+"));
  std::vector<TokenId> out;
  FinishReason finish = FinishReason::kNone;
  for (int i = 0; i < 4; ++i) {
    // The end token is likeliest once it may come.
    std::vector<float> logits = {9, 1, 2, 3, 0, 0, 0, 0, i < 3 ? 2.5f : 8.0f};
    const Result<Sampled> sampled = sampler.sample(logits, scratch);
    ASSERT_TRUE(sampled.ok());
    out.push_back(sampled->id);
    finish = sampled->finish;
  }
  EXPECT_EQ(out, (std::vector<TokenId>{1, 3, 3, 8}));
  EXPECT_EQ(finish, FinishReason::kStop);
}

TEST(SamplerGrammarTest, AWholeTextEndsTheChoiceAtOnce) {
  Scratch scratch;
  SequenceSampler sampler(greedy_with_end(), {}, {}, 0, 9, letters("ab"));
  std::vector<float> logits(9, 1.0f);
  EXPECT_EQ(sampler.sample(logits, scratch)->finish, FinishReason::kNone);
  logits.assign(9, 1.0f);
  const Result<Sampled> last = sampler.sample(logits, scratch);
  EXPECT_EQ(last->id, 1);
  EXPECT_EQ(last->finish, FinishReason::kStop);
}

TEST(SamplerGrammarTest, ContinuesAfterTheOutputSoFar) {
  Scratch scratch;
  const TokenId output[] = {1, 2};
  SequenceSampler sampler(greedy_with_end(), {}, output, 0, 9, letters("bc(e|f)"));
  std::vector<float> logits(9, 1.0f);
  EXPECT_EQ(sampler.sample(logits, scratch)->id, 4);
}

TEST(SamplerGrammarTest, OutputThatDoesNotFitIsAnError) {
  Scratch scratch;
  const TokenId output[] = {7};
  SequenceSampler sampler(greedy_with_end(), {}, output, 0, 9, letters("bc"));
  std::vector<float> logits(9, 1.0f);
  EXPECT_EQ(sampler.sample(logits, scratch).status().code(), StatusCode::kInvalidArgument);
}

TEST(SamplerGrammarTest, AGrammarThatCannotBeMadeIsAnError) {
  Scratch scratch;
  int calls = 0;
  SequenceSampler sampler(greedy_with_end(), {}, {}, 0, 9,
                          [&calls]() -> Result<std::shared_ptr<grammar::Recognizer>> {
                            ++calls;
                            return unsupported("no such form");
                          });
  EXPECT_EQ(calls, 0);
  std::vector<float> logits(9, 1.0f);
  EXPECT_EQ(sampler.sample(logits, scratch).status().code(), StatusCode::kUnsupported);
}

TEST(SamplerGrammarTest, AnEndTokenThatDoesNotEndIsNoText) {
  Scratch scratch;
  SamplingParams params = greedy_with_end();
  params.ignore_eos = true;
  SequenceSampler sampler(params, {}, {}, 0, 9, letters("a+"));
  for (int i = 0; i < 3; ++i) {
    std::vector<float> logits = {0, 0, 0, 0, 0, 0, 0, 0, 9};
    EXPECT_EQ(sampler.sample(logits, scratch)->id, 0);
  }
}

}  // namespace
}  // namespace baton::sampling
