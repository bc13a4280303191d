#include "router/api/prompt_echo.h"

#include <gtest/gtest.h>

#include "router/api/response.h"
#include "router/router_fixture.h"

namespace baton::router {
namespace {

// "ab" and a unicorn, which takes several tokens of this vocabulary.
const std::string kText = "ab \U0001F984 c";

class PromptEchoTest : public testing::Test {
 protected:
  PromptEchoTest() {
    prompt_.text = kText;
    prompt_.tokens = tokenizer_.encode(kText);
    for (size_t i = 1; i < prompt_.tokens.size(); ++i) {
      logprobs_.push_back({-0.5f * static_cast<float>(i), {{5, -0.25f}}, 3});
    }
  }
  ApiRequest request(const std::string& fields) const {
    return completion(R"({"prompt":"a")" + fields + "}", tokenizer_);
  }
  PromptView view() const { return {&prompt_, logprobs_}; }
  boost::json::value whole(const ApiRequest& request) {
    ResponseFormat format(request, tokenizer_, "id", 1, "tiny");
    ResponseFormat::WholeChoice choice;
    choice.text = "d";
    choice.ids = tokenizer_.encode("d");
    choice.logprobs = {{-1, {}, 0}};
    choice.finish = wire::FinishReason::kLength;
    choice.prompt = view();
    return json(format.whole({choice}, {}, "")).at("choices").at(0);
  }

  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
  Prompt prompt_;
  std::vector<wire::TokenLogprob> logprobs_;
};

TEST_F(PromptEchoTest, TheListsBeginWithThePrompt) {
  const boost::json::value choice = whole(request(R"(,"echo":true,"logprobs":1)"));
  EXPECT_EQ(choice.at("text"), boost::json::value(kText + "d"));
  const boost::json::value& got = choice.at("logprobs");
  const size_t count = prompt_.tokens.size() + 1;
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    ASSERT_EQ(got.at(list).as_array().size(), count) << list;
  }
  EXPECT_TRUE(got.at("token_logprobs").at(0).is_null());
  EXPECT_TRUE(got.at("top_logprobs").at(0).is_null());
  EXPECT_EQ(got.at("token_logprobs").at(1), -0.5);
  EXPECT_GE(got.at("top_logprobs").at(1).as_object().size(), 1u);
  EXPECT_EQ(got.at("token_logprobs").at(count - 1), -1);
}

// The first token of a SentencePiece text begins with a space that the text does not have.
TEST(PromptEchoSpaceTest, OffsetsLeaveOutTheHiddenSpace) {
  const tokenizer::Tokenizer tokenizer = llama2_tokenizer();
  Prompt prompt;
  prompt.text = "Hello world";
  prompt.tokens = tokenizer.encode(prompt.text, {.add_bos = false});
  const ApiRequest asked = completion(R"({"prompt":"a","echo":true,"logprobs":0})", tokenizer);
  const TokenWriter writer(asked, tokenizer);
  LogprobLists lists(writer, 0);
  lists.add_prompt({&prompt, {}}, 0);
  const boost::json::value got = json(lists.json());
  const boost::json::array& tokens = got.at("tokens").as_array();
  const boost::json::array& offsets = got.at("text_offset").as_array();
  const std::string text = " " + prompt.text;
  size_t at = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(offsets[i].as_int64(), static_cast<int64_t>(at == 0 ? 0 : at - 1)) << i;
    at += tokens[i].as_string().size();
  }
  EXPECT_EQ(at, text.size());
  EXPECT_EQ(lists.text_offset(), prompt.text.size());
}

TEST_F(PromptEchoTest, OffsetsCountACharacterInSeveralTokensOnce) {
  const boost::json::value choice = whole(request(R"(,"echo":true,"logprobs":0)"));
  const boost::json::array& offsets = choice.at("logprobs").at("text_offset").as_array();
  size_t place = 0;
  for (size_t i = 0; i < prompt_.tokens.size(); ++i) {
    EXPECT_EQ(offsets[i].to_number<size_t>(), place) << i;
    place += characters(tokenizer_.token_bytes(prompt_.tokens[i]));
  }
  EXPECT_EQ(place, characters(kText));
  EXPECT_EQ(offsets.back().to_number<size_t>(), place) << "the output comes after it";
}

TEST_F(PromptEchoTest, PartsOfCharactersHaveNamesOfTheirOwn) {
  const ApiRequest asked = request(R"(,"echo":true,"logprobs":0)");
  const TokenWriter writer(asked, tokenizer_);
  const std::vector<TokenId> parts = tokenizer_.encode("\U0001F984");
  ASSERT_GT(parts.size(), 1u);
  std::string out;
  writer.append(out, parts[0]);
  EXPECT_TRUE(out.starts_with("\"bytes:\\\\xf0")) << out;
  out.clear();
  writer.append(out, tokenizer_.encode("a")[0]);
  EXPECT_EQ(out, "\"a\"");
}

TEST_F(PromptEchoTest, TokensMayBeNamedByTheirIds) {
  const ApiRequest asked = request(R"(,"logprobs":0,"return_tokens_as_token_ids":true)");
  std::string out;
  TokenWriter(asked, tokenizer_).append(out, 7);
  EXPECT_EQ(out, "\"token_id:7\"");
}

TEST_F(PromptEchoTest, EchoWithoutLogprobsIsTextOnly) {
  const boost::json::value choice = whole(request(R"(,"echo":true)"));
  EXPECT_EQ(choice.at("text"), boost::json::value(kText + "d"));
  EXPECT_TRUE(choice.at("logprobs").is_null());
}

TEST_F(PromptEchoTest, AStreamBeginsWithThePrompt) {
  const ApiRequest asked = request(R"(,"echo":true,"logprobs":0,"stream":true)");
  ResponseFormat format(asked, tokenizer_, "id", 1, "tiny");
  ChoiceDelta delta;
  delta.first = true;
  delta.text = "d";
  delta.ids = tokenizer_.encode("d");
  delta.logprobs = {{-1, {}, 0}};
  const PromptView first = view();
  boost::json::value event =
      json(events(format.delta_events(delta, 0, nullptr, &first))[0]).at("choices").at(0);
  EXPECT_EQ(event.at("text"), boost::json::value(kText + "d"));
  EXPECT_EQ(event.at("logprobs").at("tokens").as_array().size(), prompt_.tokens.size() + 1);
  delta.first = false;
  event = json(events(format.delta_events(delta, 0, nullptr, nullptr))[0]).at("choices").at(0);
  EXPECT_EQ(event.at("text"), "d");
  EXPECT_EQ(event.at("logprobs").at("text_offset").at(0).to_number<size_t>(),
            characters(kText) + 1);
}

TEST_F(PromptEchoTest, WritesPromptLogprobsAsVllmDoes) {
  const Prompt prompt{{7, 5, 9}, ""};
  const std::vector<wire::TokenLogprob> logprobs = {{-0.25f, {{5, -0.25f}, {6, -2}}, 1},
                                                    {-3, {{5, -0.5f}, {6, -2}}, 4}};
  std::string out;
  append_prompt_logprobs(out, {&prompt, logprobs}, 1, tokenizer_);
  const auto text = [this](TokenId id) { return std::string(tokenizer_.token_bytes(id)); };
  const boost::json::value got = json(out);
  ASSERT_EQ(got.as_array().size(), 3u);
  EXPECT_TRUE(got.at(0).is_null());
  EXPECT_EQ(got.at(1).as_object().size(), 1u) << "the most likely is the token itself";
  EXPECT_EQ(got.at(1).at("5").at("rank"), 1);
  EXPECT_EQ(got.at(1).at("5").at("decoded_token"), boost::json::value(text(5)));
  EXPECT_EQ(got.at(2).at("9").at("logprob"), -3);
  EXPECT_EQ(got.at(2).at("9").at("rank"), 4);
  EXPECT_EQ(got.at(2).at("5").at("rank"), 1);
  EXPECT_FALSE(got.at(2).as_object().contains("6"));
}

}  // namespace
}  // namespace baton::router
