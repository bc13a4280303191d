#include "deploy/baton/chat_history.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

TEST(ChatHistoryTest, SendsAllThatWasSaid) {
  ChatHistory history;
  EXPECT_EQ(history.request_body({.model = "m\"x"}, "hi"),
            R"({"model":"m\"x","messages":[{"role":"user","content":"hi"}],"stream":true,)"
            R"("stream_options":{"include_usage":true}})");
  history.set_system("Be brief.");
  history.add({"hi", "Hello\nyou"});
  EXPECT_EQ(
      history.request_body({.model = "m", .max_tokens = 9, .temperature = 0.25, .seed = -3},
                           "and now?"),
      R"({"model":"m","messages":[{"role":"system","content":"Be brief."},)"
      R"({"role":"user","content":"hi"},{"role":"assistant","content":"Hello\nyou"},)"
      R"({"role":"user","content":"and now?"}],"stream":true,)"
      R"("stream_options":{"include_usage":true},"max_tokens":9,"temperature":0.25,"seed":-3})");
}

TEST(ChatHistoryTest, DropsTheOlderHalf) {
  ChatHistory history;
  EXPECT_EQ(history.drop_oldest(), 0u);
  for (const char* question : {"1", "2", "3", "4", "5"}) {
    history.add({question, "a"});
  }
  EXPECT_EQ(history.drop_oldest(), 3u);
  EXPECT_EQ(history.turns()[0].question, "4");
  EXPECT_EQ(history.drop_oldest(), 1u);
  EXPECT_EQ(history.drop_oldest(), 1u);
  EXPECT_TRUE(history.turns().empty());
}

TEST(ChatHistoryTest, TakesTheLastTurnBack) {
  ChatHistory history;
  EXPECT_FALSE(history.pop().has_value());
  history.add({"1", "a"});
  history.add({"2", "b"});
  EXPECT_EQ(history.pop()->question, "2");
  EXPECT_EQ(history.turns().size(), 1u);
  history.clear();
  EXPECT_FALSE(history.pop().has_value());
}

}  // namespace
}  // namespace baton::cli
