#include "deploy/baton/quality.h"

#include <gtest/gtest.h>

#include <cmath>

namespace baton::cli {
namespace {

// Vocabulary of four tokens; the reference names two of them.
ReferenceStep step(TokenId token, double margin) {
  return {token, margin, {0, 1}, {std::log(0.5), std::log(0.25)}};
}
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) {
    logits.push_back(static_cast<float>(std::log(p) + 3));
  }
  return logits;
}

TEST(QualityMeterTest, FindsNoDifferenceInEqualDistributions) {
  QualityMeter meter;
  meter.begin_prompt();
  meter.add(step(0, 0.7), logits_of({0.5, 0.25, 0.125, 0.125}));
  const QualityResult result = meter.result();
  EXPECT_EQ(result.tokens, 1);
  EXPECT_EQ(result.top1_agreement, 1);
  EXPECT_NEAR(result.kl_top64_mean, 0, 1e-6);
  EXPECT_EQ(result.worst_margin, 0);
}

TEST(QualityMeterTest, CountsAllOthersAsOneClass) {
  QualityMeter meter;
  meter.begin_prompt();
  // How the last quarter is shared out among tokens that the reference does not name is no matter.
  meter.add(step(0, 0.7), logits_of({0.5, 0.25, 0.2, 0.05}));
  EXPECT_NEAR(meter.result().kl_top64_mean, 0, 1e-6);
  meter.add(step(0, 0.7), logits_of({0.25, 0.25, 0.25, 0.25}));
  const double kl = 0.5 * std::log(2) + 0.25 * std::log(0.25 / 0.5);
  EXPECT_NEAR(meter.result().kl_top64_mean, kl / 2, 1e-6);
}

TEST(QualityMeterTest, TakesTheMarginWhereEachTextFirstParts) {
  QualityMeter meter;
  meter.begin_prompt();
  meter.add(step(0, 0.01), logits_of({0.5, 0.25, 0.125, 0.125}));
  meter.add(step(1, 0.2), logits_of({0.5, 0.25, 0.125, 0.125}));
  meter.add(step(1, 5.0), logits_of({0.5, 0.25, 0.125, 0.125}));  // after it: another text
  meter.begin_prompt();
  meter.add(step(1, 0.1), logits_of({0.5, 0.25, 0.125, 0.125}));
  const QualityResult result = meter.result();
  EXPECT_EQ(result.tokens, 4);
  EXPECT_EQ(result.top1_agreement, 0.25);
  EXPECT_EQ(result.worst_margin, 0.2);
}

TEST(ReferenceTest, ReadsItems) {
  const auto prompts = parse_reference(
      R"({"model":"m","items":[{"kind":"raw","prompt_ids":[1,2],"greedy_ids":[3],"margin":[1],
          "top_ids":[[3,0]],"top_logprobs":[[-0.5,-2]]}]})",
      4);
  ASSERT_TRUE(prompts.ok()) << prompts.status().to_string();
  ASSERT_EQ(prompts->size(), 1u);
  EXPECT_EQ((*prompts)[0].prompt, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ((*prompts)[0].steps[0].token, 3);
  EXPECT_EQ((*prompts)[0].steps[0].top_logprobs, (std::vector<double>{-0.5, -2}));
}

std::string error_of(const std::string& item) {
  return parse_reference("{\"items\":[" + item + "]}", 4).status().message();
}

TEST(ReferenceTest, NamesWhatIsWrong) {
  EXPECT_NE(parse_reference("\xFD"
                            "7zXZ",
                            4)
                .status()
                .message()
                .find("unpack .xz"),
            std::string::npos);
  EXPECT_EQ(error_of("1"), "reference item 0: prompt_ids is no list");
  EXPECT_EQ(error_of(R"({"prompt_ids":[4]})"),
            "reference item 0: prompt_ids holds something that is no token id of this model");
  EXPECT_EQ(error_of(R"({"prompt_ids":[1],"greedy_ids":[1],"margin":["x"]})"),
            "reference item 0: margin holds something that is no number");
  EXPECT_EQ(error_of(R"({"prompt_ids":[1],"greedy_ids":[1],"margin":[1],"top_ids":[],
                         "top_logprobs":[]})"),
            "reference item 0: the lists are empty or of different lengths");
  EXPECT_EQ(error_of(R"({"prompt_ids":[1],"greedy_ids":[1],"margin":[1],"top_ids":[[1,2]],
                         "top_logprobs":[[1]]})"),
            "reference item 0: top_ids and top_logprobs of a step have different lengths");
}

}  // namespace
}  // namespace baton::cli
