#include "decode_worker/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/base/random.h"

namespace baton::decode_worker {
namespace {

using Output = std::vector<TokenId>;
// The log-probabilities of every token after an output.
using Model = std::function<std::vector<float>(const Output&)>;

constexpr int kVocab = 12;

// A model whose rows follow from the output alone.
Model seeded_model(uint64_t seed) {
  return [seed](const Output& output) {
    uint64_t state = seed;
    for (const TokenId id : output) {
      state = state * 1'000'003 + static_cast<uint64_t>(id) + 1;
    }
    SeededRandom random(state);
    std::vector<float> row;
    double sum = 0;
    for (int i = 0; i < kVocab; ++i) {
      row.push_back(static_cast<float>(random.next() % 1000) / 250.0f);
      sum += std::exp(static_cast<double>(row.back()));
    }
    for (float& value : row) {
      value -= static_cast<float>(std::log(sum));
    }
    return row;
  };
}

wire::TokenLogprob top_of(const std::vector<float>& row, int count) {
  wire::TokenLogprob out;
  for (int i = 0; i < kVocab; ++i) {
    out.top.emplace_back(i, row[static_cast<size_t>(i)]);
  }
  std::stable_sort(out.top.begin(), out.top.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  out.top.resize(static_cast<size_t>(count));
  return out;
}

struct Scored {
  Output output;
  double score = 0;
};

struct Found {
  std::vector<BeamSearch::Hypothesis> best;
  int steps = 0;
};

Found search(const Model& model, const BeamSearch::Options& options) {
  BeamSearch beams(options);
  std::vector<Output> outputs = {{}};
  Found run;
  while (true) {
    std::vector<wire::TokenLogprob> rows;
    for (const Output& output : outputs) {
      rows.push_back(top_of(model(output), 2 * options.width));
    }
    ++run.steps;
    const std::vector<BeamSearch::Successor> next = beams.advance(rows);
    if (next.empty()) {
      run.best = beams.best();
      return run;
    }
    std::vector<Output> longer;
    for (const BeamSearch::Successor& successor : next) {
      longer.push_back(outputs[static_cast<size_t>(successor.parent)]);
      longer.back().push_back(successor.token);
    }
    outputs = std::move(longer);
  }
}

// The search as it is defined, without a shortcut and with everything kept.
std::vector<Scored> by_definition(const Model& model, const BeamSearch::Options& options) {
  const auto is_end = [&options](TokenId id) {
    return std::find(options.ends.begin(), options.ends.end(), id) != options.ends.end();
  };
  const auto score = [&options](double sum, size_t length) {
    return sum / std::pow(static_cast<double>(options.prompt_tokens) + static_cast<double>(length),
                          options.length_penalty);
  };
  const auto best_first = [](const Scored& a, const Scored& b) { return a.score > b.score; };
  std::vector<Scored> open = {{}};  // scored by their sums
  std::vector<Scored> done;
  for (int step = 0; step < options.max_tokens; ++step) {
    std::vector<Scored> longer;
    for (const Scored& beam : open) {
      for (const auto& [id, logprob] : top_of(model(beam.output), 2 * options.width).top) {
        Scored one = {beam.output, beam.score + static_cast<double>(logprob)};
        one.output.push_back(id);
        if (is_end(id)) {
          done.push_back({one.output, score(one.score, beam.output.size())});
        } else {
          longer.push_back(one);
        }
      }
    }
    std::stable_sort(longer.begin(), longer.end(), best_first);
    longer.resize(std::min(longer.size(), static_cast<size_t>(options.width)));
    open = longer;
  }
  for (const Scored& beam : open) {
    done.push_back({beam.output, score(beam.score, beam.output.size())});
  }
  std::stable_sort(done.begin(), done.end(), best_first);
  done.resize(std::min(done.size(), static_cast<size_t>(options.width)));
  return done;
}

TEST(BeamSearchTest, FindsWhatTheDefinitionFindsForAnyPenalty) {
  int shorter = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    BeamSearch::Options options;
    options.width = 1 + static_cast<int>(seed % 5);
    options.length_penalty = std::vector<double>{1, 0, 2.5, -1}[seed % 4];
    options.prompt_tokens = 1 + static_cast<int>(seed % 7);
    options.max_tokens = 1 + static_cast<int>(seed % 12);
    if (seed % 3 != 0) {
      options.ends = {3, 7};
    }
    const Found got = search(seeded_model(seed), options);
    const std::vector<Scored> expected = by_definition(seeded_model(seed), options);
    ASSERT_EQ(got.best.size(), expected.size()) << "seed " << seed;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(got.best[i].output, expected[i].output) << "seed " << seed << " beam " << i;
      EXPECT_NEAR(got.best[i].score, expected[i].score, 1e-9);
    }
    shorter += got.steps < options.max_tokens ? 1 : 0;
  }
  EXPECT_GT(shorter, 5) << "a search that can find nothing better ends";
}

TEST(BeamSearchTest, SaysWhyEachOutputEnded) {
  BeamSearch::Options options;
  options.width = 4;
  options.max_tokens = 5;
  options.ends = {3};
  for (const BeamSearch::Hypothesis& found : search(seeded_model(5), options).best) {
    const bool ended = found.output.back() == 3;
    EXPECT_EQ(found.finish, ended ? wire::FinishReason::kStop : wire::FinishReason::kLength);
    EXPECT_EQ(ended || found.output.size() == 5u, true);
    EXPECT_TRUE(found.logprobs.empty());
  }
}

TEST(BeamSearchTest, ReportsTheLogprobsOfEveryToken) {
  BeamSearch::Options options;
  options.width = 2;
  options.max_tokens = 4;
  options.length_penalty = 0;
  options.logprobs = 3;
  const Model model = seeded_model(9);
  for (const BeamSearch::Hypothesis& found : search(model, options).best) {
    ASSERT_EQ(found.logprobs.size(), found.output.size());
    double sum = 0;
    Output so_far;
    for (size_t i = 0; i < found.output.size(); ++i) {
      EXPECT_EQ(found.logprobs[i].top, top_of(model(so_far), 3).top);
      EXPECT_EQ(found.logprobs[i].logprob, model(so_far)[static_cast<size_t>(found.output[i])]);
      sum += static_cast<double>(found.logprobs[i].logprob);
      so_far.push_back(found.output[i]);
    }
    EXPECT_NEAR(found.score, sum, 1e-6);
  }
}

TEST(BeamSearchTest, EndsWhenEveryTokenEndsTheOutput) {
  BeamSearch::Options options;
  options.width = 2;
  options.max_tokens = 9;
  for (TokenId id = 0; id < kVocab; ++id) {
    options.ends.push_back(id);
  }
  const Found run = search(seeded_model(2), options);
  EXPECT_EQ(run.steps, 1);
  ASSERT_EQ(run.best.size(), 2u);
  EXPECT_EQ(run.best[0].output.size(), 1u);
}

TEST(BeamSearchTest, OfEqualsTheFirstFoundComesFirst) {
  const Model flat = [](const Output&) { return std::vector<float>(kVocab, -2.0f); };
  BeamSearch::Options options;
  options.width = 3;
  options.max_tokens = 2;
  const Found run = search(flat, options);
  ASSERT_EQ(run.best.size(), 3u);
  EXPECT_EQ(run.best[0].output, (Output{0, 0}));
  EXPECT_EQ(run.best[1].output, (Output{0, 1}));
  EXPECT_EQ(run.best[2].output, (Output{0, 2}));
}

}  // namespace
}  // namespace baton::decode_worker
