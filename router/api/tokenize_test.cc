#include "router/api/tokenize.h"

#include <gtest/gtest.h>

#include "router/router_fixture.h"

namespace baton::router {
namespace {

class TokenizeTest : public testing::Test {
 protected:
  TokenizeTest() : chat_(ChatPrompt::create(tokenizer_, {}).value()) {}

  boost::json::value ask(std::string_view body, int status = 200) const {
    const http::Response response = tokenize(body, {"tiny", &tokenizer_}, chat_, 512);
    EXPECT_EQ(response.status, status) << response.body;
    return json(response.body);
  }
  static std::vector<TokenId> ids(const boost::json::value& answer) {
    std::vector<TokenId> out;
    for (const boost::json::value& id : answer.at("tokens").as_array()) {
      out.push_back(static_cast<TokenId>(id.as_int64()));
    }
    return out;
  }

  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
  const ChatPrompt chat_;
};

TEST_F(TokenizeTest, AnswersBothFormsAlike) {
  const boost::json::value vllm = ask(R"({"prompt":"hello","add_special_tokens":false})");
  const boost::json::value llama = ask(R"({"content":"hello"})");
  EXPECT_EQ(vllm, llama);
  EXPECT_EQ(ids(vllm), tokenizer_.encode("hello"));
  EXPECT_EQ(vllm.at("count"), static_cast<int64_t>(ids(vllm).size()));
  EXPECT_EQ(vllm.at("max_model_len"), 512);
}

TEST_F(TokenizeTest, AddsBosByTheModelsRule) {
  const size_t more = tokenizer_.adds_bos() ? 1 : 0;
  EXPECT_EQ(ids(ask(R"({"prompt":"a"})")).size(), 1 + more);
  EXPECT_EQ(ids(ask(R"({"content":"a","add_special":true})")).size(), 1 + more);
}

TEST_F(TokenizeTest, ReadsSpecialTextUnlessToldNotTo) {
  const std::string end(tokenizer_.token_text(tokenizer_.end_ids()[0]));
  EXPECT_EQ(ids(ask("{\"content\":\"" + end + "\"}")).size(), 1u);
  EXPECT_GT(ids(ask("{\"content\":\"" + end + "\",\"parse_special\":false}")).size(), 1u);
}

TEST_F(TokenizeTest, RendersMessagesAsAChatWould) {
  const boost::json::value answer = ask(R"({"messages":[{"role":"user","content":"a"}]})");
  const ApiRequest request = chat(R"({"messages":[{"role":"user","content":"a"}]})", tokenizer_);
  EXPECT_EQ(ids(answer), chat_.turn(request, {})->tokens);
  EXPECT_EQ(ask(R"({"messages":[]})", 400).at("error").at("param"), "messages");
}

TEST_F(TokenizeTest, GivesPiecesAsTextOrBytes) {
  const boost::json::value answer = ask("{\"content\":\"a\U0001F984\",\"with_pieces\":true}");
  const boost::json::array& tokens = answer.at("tokens").as_array();
  EXPECT_EQ(tokens[0].at("piece"), "a");
  ASSERT_GT(tokens.size(), 2u);
  EXPECT_EQ(tokens[1].at("piece").as_array()[0], 0xF0);
}

TEST_F(TokenizeTest, RefusesWhatIsNotARequest) {
  EXPECT_EQ(ask("[]", 400).at("error").at("type"), "invalid_request_error");
  EXPECT_EQ(ask("{}", 400).at("error").at("param"), "prompt");
  EXPECT_EQ(ask(R"({"prompt":5})", 400).at("error").at("param"), "prompt");
  EXPECT_EQ(ask(R"({"content":5})", 400).at("error").at("param"), "content");
  EXPECT_EQ(ask(R"({"prompt":"a","add_special_tokens":1})", 400).at("error").at("param"),
            "add_special_tokens");
}

TEST_F(TokenizeTest, DetokenizesBack) {
  const http::Response response = detokenize(R"({"tokens":[]})", tokenizer_);
  EXPECT_EQ(json(response.body), json(R"({"prompt":"","content":""})"));
  std::string list;
  for (const TokenId id : tokenizer_.encode("h\xC3\xA9llo \U0001F984")) {
    list += (list.empty() ? "" : ",") + std::to_string(id);
  }
  const boost::json::value back = json(detokenize("{\"tokens\":[" + list + "]}", tokenizer_).body);
  EXPECT_EQ(back.at("prompt"), "h\xC3\xA9llo \U0001F984");
  EXPECT_EQ(back.at("content"), back.at("prompt"));
}

TEST_F(TokenizeTest, RefusesIdsOutsideTheVocabulary) {
  for (const std::string_view body :
       {R"({"tokens":[320]})", R"({"tokens":[-1]})", R"({"tokens":["a"]})", R"({"tokens":5})",
        R"({"tokens":null})", "{}"}) {
    const http::Response response = detokenize(body, tokenizer_);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(json(response.body).at("error").at("param"), "tokens");
  }
}

TEST_F(TokenizeTest, TellsWhatEvaluationToolsNeed) {
  const boost::json::value info = json(tokenizer_info(tokenizer_).body);
  EXPECT_EQ(info.at("chat_template").as_string(), tokenizer_.chat_template());
  EXPECT_EQ(info.at("eos_token").as_string(), tokenizer_.token_text(*tokenizer_.eos_id()));
  EXPECT_EQ(info.at("bos_token").as_string(), tokenizer_.token_text(*tokenizer_.bos_id()));
}

}  // namespace
}  // namespace baton::router
