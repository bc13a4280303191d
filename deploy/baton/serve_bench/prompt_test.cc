#include "deploy/baton/serve_bench/prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <set>

namespace baton::serve_bench {
namespace {

int words_in(const std::string& text) {
  return static_cast<int>(std::ranges::count(text, ' ')) + 1;
}

PlannedRequest request(int input, std::vector<uint64_t> blocks = {}) {
  return {{}, input, 1, std::move(blocks)};
}

TEST(PromptTest, HasAsManyWordsAsMakeTheTokens) {
  const PromptMaker prompts(1);
  EXPECT_EQ(words_in(prompts.text(request(300), 0, {})), 300);
  EXPECT_EQ(words_in(prompts.text(request(300), 0, {.per_word = 1.5, .overhead = 30})), 180);
  EXPECT_EQ(words_in(prompts.text(request(3), 0, {.overhead = 30})), 1);
}

TEST(PromptTest, DiffersFromTheFirstWordsOnAndRepeatsForTheSameSalt) {
  const PromptMaker prompts(1);
  std::set<std::string> beginnings;
  for (uint64_t i = 0; i < 1000; ++i) {
    beginnings.insert(prompts.text(request(8), i, {}));
  }
  EXPECT_EQ(beginnings.size(), 1000u);
  EXPECT_EQ(prompts.text(request(50), 3, {}), PromptMaker(1).text(request(50), 3, {}));
  EXPECT_NE(prompts.text(request(50), 3, {}), PromptMaker(2).text(request(50), 3, {}));
}

TEST(PromptTest, SharesTheBlocksOfATraceAndNothingElse) {
  const PromptMaker prompts(1);
  const std::string a = prompts.text(request(1300, {5, 6, 7}), 0, {});
  const std::string b = prompts.text(request(1400, {5, 6, 8}), 1, {});
  EXPECT_EQ(words_in(a), 1300);
  EXPECT_EQ(words_in(b), 1400);
  const auto same = std::ranges::mismatch(a, b).in1 - a.begin();
  const int shared = words_in(a.substr(0, static_cast<size_t>(same)));
  EXPECT_GE(shared, 1024);
  EXPECT_LE(shared, 1030);
  // Longer than its blocks: the rest is its own.
  const std::string c = prompts.text(request(600, {5}), 2, {});
  const std::string d = prompts.text(request(600, {5}), 3, {});
  EXPECT_EQ(words_in(c), 600);
  EXPECT_NE(c, d);
}

TEST(PromptTest, BodiesAreWhatTheEndpointsTake) {
  Dialect dialect;
  dialect.model = "a \"model\"";
  boost::json::value body = boost::json::parse(dialect.body("one two", 7));
  EXPECT_EQ(body.at("model").as_string(), "a \"model\"");
  EXPECT_EQ(body.at("prompt").as_string(), "one two");
  EXPECT_EQ(body.at("max_tokens").as_int64(), 7);
  EXPECT_TRUE(body.at("stream").as_bool());
  EXPECT_TRUE(body.at("ignore_eos").as_bool());
  EXPECT_TRUE(body.at("stream_options").at("include_usage").as_bool());
  dialect.chat = true;
  dialect.ignore_eos = false;
  dialect.include_usage = false;
  body = boost::json::parse(dialect.body("one two", 7));
  EXPECT_EQ(body.at("messages").as_array().at(0).at("content").as_string(), "one two");
  EXPECT_FALSE(body.as_object().contains("ignore_eos"));
  EXPECT_FALSE(body.as_object().contains("stream_options"));
}

}  // namespace
}  // namespace baton::serve_bench
