#include "common/worker/run_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::worker {
namespace {

using testing::HasSubstr;

wire::RunBody body() {
  wire::RunBody made;
  made.prompt = {1, 2, 3};
  made.sampling.max_tokens = 4;
  return made;
}

std::string fault(const wire::RunBody& body) {
  const Status status = check_body(body, 100, 16);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

TEST(RunConvertTest, TakesWhatIsInRange) { EXPECT_TRUE(check_body(body(), 100, 16).ok()); }

TEST(RunConvertTest, NamesTheFirstFault) {
  wire::RunBody wrong = body();
  wrong.prompt.clear();
  EXPECT_THAT(fault(wrong), HasSubstr("without a prompt"));
  wrong = body();
  wrong.choices.clear();
  EXPECT_THAT(fault(wrong), HasSubstr("without a choice"));
  for (const TokenId id : {-1, 100}) {
    wrong = body();
    wrong.prompt[1] = id;
    EXPECT_EQ(fault(wrong), "prompt has a token id outside the vocabulary of 100");
    wrong = body();
    wrong.choices[0].output = {id};
    EXPECT_EQ(fault(wrong), "output has a token id outside the vocabulary of 100");
  }
  wrong = body();
  wrong.prompt.assign(16, 1);
  EXPECT_EQ(fault(wrong), "maximum context length is 16 tokens, the request has 16");
  wrong = body();
  wrong.choices[0].finished = wire::FinishReason::kStop;
  EXPECT_THAT(fault(wrong), HasSubstr("have all ended"));
  wrong = body();
  wrong.sampling.temperature = 9;
  EXPECT_THAT(fault(wrong), HasSubstr("temperature"));
  wrong = body();
  wrong.prompt_logprobs = 21;
  EXPECT_EQ(fault(wrong), "prompt_logprobs must be in [-1, 20]");
}

TEST(RunConvertTest, CarriesEverySamplingField) {
  wire::SamplingSpec spec;
  spec.temperature = 0.5f;
  spec.top_p = 0.9f;
  spec.min_p = 0.1f;
  spec.top_k = 7;
  spec.repetition_penalty = 1.1f;
  spec.presence_penalty = 0.2f;
  spec.frequency_penalty = 0.3f;
  spec.logit_bias = {{4, 1.5f}};
  spec.allowed_token_ids = {8, 9};
  spec.bad_words = {{4}, {5, 6}};
  spec.stop_token_ids = {8};
  spec.end_ids = {2};
  spec.ignore_eos = true;
  spec.min_tokens = 1;
  spec.max_tokens = 9;
  spec.seed = 1234;
  spec.logprobs = 3;
  sampling::SamplingParams want;
  want.temperature = 0.5f;
  want.top_p = 0.9f;
  want.min_p = 0.1f;
  want.top_k = 7;
  want.repetition_penalty = 1.1f;
  want.presence_penalty = 0.2f;
  want.frequency_penalty = 0.3f;
  want.logit_bias = {{4, 1.5f}};
  want.allowed_token_ids = {8, 9};
  want.bad_words = {{4}, {5, 6}};
  want.stop_token_ids = {8};
  want.end_ids = {2};
  want.ignore_eos = true;
  want.min_tokens = 1;
  want.max_tokens = 9;
  want.seed = 1234;
  want.logprobs = 3;
  EXPECT_EQ(sampling_params(spec), want);
}

TEST(RunConvertTest, TheEndOfTheContextEndsAChoice) {
  wire::RunBody unlimited = body();
  unlimited.sampling.max_tokens = 0;
  sampling::SequenceSampler sampler = make_sampler(unlimited, 0, 100, 5, nullptr);
  EXPECT_EQ(sampler.accept(1), sampling::FinishReason::kNone);
  EXPECT_EQ(sampler.accept(1), sampling::FinishReason::kLength);

  wire::RunBody shorter = body();
  shorter.sampling.max_tokens = 1;
  EXPECT_EQ(make_sampler(shorter, 0, 100, 16, nullptr).params().max_tokens, 1);
}

TEST(RunConvertTest, ASamplerNeverTakesARowWithoutAToken) {
  wire::RunBody padded = body();
  padded.sampling.temperature = 0;
  sampling::Scratch scratch;
  const auto sampled = [&](uint32_t token_count) {
    padded.sampling.token_count = token_count;
    std::vector<float> logits(100, 0.0f);
    logits[7] = 1;
    logits[98] = 2;
    auto out = make_sampler(padded, 0, 100, 50, nullptr).sample(logits, scratch);
    EXPECT_TRUE(out.ok()) << out.status().to_string();
    return out.ok() ? out->id : -1;
  };
  EXPECT_EQ(sampled(0), 98);
  EXPECT_EQ(sampled(98), 7);
  EXPECT_EQ(sampled(99), 98);
  EXPECT_EQ(sampled(4'000'000'000u), 98);
}

TEST(RunConvertTest, ASamplerFollowsTheOutputSoFar) {
  wire::RunBody moved = body();
  moved.choices[0].output = {5, 6};
  sampling::SequenceSampler sampler = make_sampler(moved, 0, 100, 16, nullptr);
  EXPECT_EQ(sampler.output_count(), 2);
  EXPECT_EQ(sampler.accept(1), sampling::FinishReason::kNone);
  EXPECT_EQ(sampler.accept(1), sampling::FinishReason::kLength);
}

TEST(RunConvertTest, TranslatesResults) {
  EXPECT_EQ(wire_finish(sampling::FinishReason::kNone), wire::FinishReason::kNone);
  EXPECT_EQ(wire_finish(sampling::FinishReason::kStop), wire::FinishReason::kStop);
  EXPECT_EQ(wire_finish(sampling::FinishReason::kLength), wire::FinishReason::kLength);
  sampling::TokenLogprobs logprobs;
  logprobs.sampled = -1.5f;
  logprobs.top = {{3, -0.5f}, {4, -1.5f}};
  const wire::TokenLogprob out = wire_logprob(logprobs);
  EXPECT_EQ(out.logprob, -1.5f);
  EXPECT_EQ(out.top, (std::vector<std::pair<TokenId, float>>{{3, -0.5f}, {4, -1.5f}}));
}

}  // namespace
}  // namespace baton::worker
