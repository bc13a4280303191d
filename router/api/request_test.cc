#include "router/api/request.h"

#include <gtest/gtest.h>

#include "router/api/field_reader.h"
#include "router/api/prompt_fields.h"
#include "router/router_fixture.h"

namespace baton::router {
namespace {

class RequestTest : public testing::Test {
 protected:
  // The fault of a completion request with these further fields: "param: message".
  std::string completion_fault(const std::string& fields) const {
    const std::string body = fields.find("\"prompt\"") == std::string::npos
                                 ? R"({"prompt":"a",)" + fields + "}"
                                 : "{" + fields + "}";
    return fault(parse_completion(json(body).get_object(), model_).fault);
  }
  std::string chat_fault(const std::string& fields) const {
    const std::string body = fields.find("\"messages\"") == std::string::npos
                                 ? R"({"messages":[{"role":"user","content":"a"}],)" + fields + "}"
                                 : "{" + fields + "}";
    return fault(parse_chat(json(body).get_object(), model_).fault);
  }
  static std::string fault(const ApiFault& fault) {
    return fault.status.ok() ? "" : fault.param + ": " + fault.status.message();
  }

  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
  const ServedModel model_{"tiny", &tokenizer_};
};

TEST_F(RequestTest, ParsesAnObjectOnly) {
  EXPECT_TRUE(parse_body("{}").ok());
  EXPECT_TRUE(parse_body("\xEF\xBB\xBF{\"a\":1}").ok());  // a byte order mark
  for (const std::string_view body : {"", "[]", "1", "null", "{", "{}x", "{\"a\":\"\xFF\"}",
                                      "{\"a\":\"\\ud800\"}", "{'a':1}", "{\"a\":NaN}"}) {
    EXPECT_EQ(parse_body(body).fault.status.code(), StatusCode::kInvalidArgument) << body;
  }
  EXPECT_EQ(parse_body("[]").fault.status.message(), "the request body must be a JSON object");
}

TEST_F(RequestTest, BoundsTheNesting) {
  const auto nested = [](int levels) {
    return "{\"a\":" + std::string(static_cast<size_t>(levels), '[') +
           std::string(static_cast<size_t>(levels), ']') + "}";
  };
  EXPECT_TRUE(parse_body(nested(60)).ok());
  EXPECT_EQ(parse_body(nested(100)).fault.status.message(),
            "the request body is nested deeper than 64 levels");
  EXPECT_FALSE(parse_body(nested(100'000)).ok());
}

TEST_F(RequestTest, TakesTheLastOfDuplicateKeys) {
  EXPECT_EQ(completion(R"({"prompt":"a","n":1,"n":2})", tokenizer_).n, 2);
}

TEST_F(RequestTest, FillsInTheDefaultsOfACompletion) {
  const ApiRequest request = completion(R"({"prompt":"hello"})", tokenizer_);
  EXPECT_FALSE(request.chat);
  EXPECT_EQ(request.model, "tiny");
  EXPECT_EQ(request.sampling.max_tokens, 16);
  EXPECT_EQ(request.sampling.temperature, 1.0f);
  EXPECT_EQ(request.sampling.top_p, 1.0f);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(request.sampling.logprobs, -1);
  EXPECT_FALSE(request.seed_given);
  EXPECT_FALSE(request.stream);
  EXPECT_EQ(request.n, 1);
  EXPECT_TRUE(request.parse_special);
  EXPECT_TRUE(request.skip_special_tokens);
  EXPECT_FALSE(request.return_token_ids);
  EXPECT_TRUE(request.ignored.empty());
  const std::vector<TokenId> ends(tokenizer_.end_ids().begin(), tokenizer_.end_ids().end());
  EXPECT_EQ(request.sampling.end_ids, ends);
  EXPECT_EQ(request.sampling.token_count, tokenizer_.vocab_size());
  ASSERT_EQ(request.prompts.size(), 1u);
}

TEST_F(RequestTest, LeavesTheLimitOfAChatOpenUnlessItIsGiven) {
  const std::string head = R"({"messages":[{"role":"user","content":"a"}])";
  const ApiRequest open = chat(head + "}", tokenizer_);
  EXPECT_TRUE(open.chat);
  EXPECT_EQ(open.sampling.max_tokens, 0);
  EXPECT_FALSE(open.parse_special);
  EXPECT_TRUE(open.add_generation_prompt);
  EXPECT_EQ(chat(head + R"(,"max_tokens":5})", tokenizer_).sampling.max_tokens, 5);
  const ApiRequest both = chat(head + R"(,"max_tokens":5,"max_completion_tokens":7})", tokenizer_);
  EXPECT_EQ(both.sampling.max_tokens, 7);
}

TEST_F(RequestTest, ReadsEverySamplingField) {
  const ApiRequest request = completion(
      R"({"prompt":"a","temperature":0,"top_p":0,"min_p":0.25,"top_k":-1,"seed":-2,
          "repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":2,
          "logit_bias":{"7":-100,"3":1.5},"stop_token_ids":[4],"ignore_eos":true,
          "min_tokens":2,"max_tokens":9,"logprobs":0,"n":3,"cache_salt":"tenant"})",
      tokenizer_);
  EXPECT_EQ(request.sampling.temperature, 0.0f);
  EXPECT_EQ(request.sampling.top_p, 0.0f);
  EXPECT_EQ(request.sampling.min_p, 0.25f);
  EXPECT_EQ(request.sampling.top_k, -1);
  EXPECT_TRUE(request.seed_given);
  EXPECT_EQ(request.sampling.seed, UINT64_MAX - 1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.sampling.presence_penalty, -2.0f);
  EXPECT_EQ(request.sampling.frequency_penalty, 2.0f);
  const std::vector<std::pair<TokenId, float>> bias = {{3, 1.5f}, {7, -100.0f}};
  EXPECT_EQ(request.sampling.logit_bias, bias);
  EXPECT_EQ(request.sampling.stop_token_ids, std::vector<TokenId>{4});
  EXPECT_TRUE(request.sampling.ignore_eos);
  EXPECT_EQ(request.sampling.min_tokens, 2);
  EXPECT_EQ(request.sampling.max_tokens, 9);
  EXPECT_EQ(request.sampling.logprobs, 0);
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(request.cache_salt, "tenant");
}

TEST_F(RequestTest, RefusesEachFieldOutsideItsRangeByName) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"temperature", "2.1"},
      {"temperature", "-0.1"},
      {"temperature", "1e400"},
      {"top_p", "1.1"},
      {"top_p", "-1"},
      {"min_p", "2"},
      {"top_k", "-2"},
      {"top_k", "1.5"},
      {"repetition_penalty", "0"},
      {"repetition_penalty", "-1"},
      {"repetition_penalty", "1e39"},
      {"prompt_logprobs", "21"},
      {"truncate_prompt_tokens", "0"},
      {"truncate_prompt_tokens", "-2"},
      {"presence_penalty", "2.5"},
      {"frequency_penalty", "-3"},
      {"max_tokens", "0"},
      {"max_tokens", "-1"},
      {"max_tokens", "1e12"},
      {"min_tokens", "-1"},
      {"n", "0"},
      {"n", "129"},
      {"logprobs", "21"},
      {"logprobs", "-1"},
      {"best_of", "21000"},
      {"seed", "1e30"},
      {"seed", "18446744073709551615"},
  };
  for (const auto& [name, value] : bad) {
    const std::string got = completion_fault("\"" + name + "\":" + value);
    EXPECT_TRUE(got.starts_with(name + ": '" + name + "' must be")) << name << " " << value << got;
  }
}

TEST_F(RequestTest, RefusesEachFieldOfAnotherTypeByName) {
  const std::vector<std::string> numbers = {"temperature",
                                            "top_p",
                                            "min_p",
                                            "top_k",
                                            "repetition_penalty",
                                            "presence_penalty",
                                            "max_tokens",
                                            "min_tokens",
                                            "n",
                                            "logprobs",
                                            "frequency_penalty",
                                            "seed",
                                            "priority",
                                            "prompt_logprobs",
                                            "truncate_prompt_tokens",
                                            "best_of"};
  for (const std::string& name : numbers) {
    const std::string got = completion_fault("\"" + name + "\":\"5\"");
    EXPECT_TRUE(got.starts_with(name + ": '" + name + "' must be")) << got;
  }
  for (const std::string name :
       {"stream", "ignore_eos", "skip_special_tokens", "return_token_ids",
        "include_stop_str_in_output", "echo", "add_special_tokens", "return_tokens_as_token_ids",
        "baton_parse_special", "baton_trace"}) {
    EXPECT_EQ(completion_fault("\"" + name + "\":1"),
              name + ": '" + name + "' must be a boolean, not a number");
  }
  EXPECT_EQ(completion_fault(R"("model":5)"), "model: 'model' must be a string, not a number");
  EXPECT_EQ(completion_fault(R"("cache_salt":5)"),
            "cache_salt: 'cache_salt' must be a string, not a number");
}

TEST_F(RequestTest, TreatsNullAsAbsent) {
  const ApiRequest request = completion(
      R"({"prompt":"a","max_tokens":null,"temperature":null,"stop":null,"stream_options":null,
          "logprobs":null,"logit_bias":null,"suffix":null,"response_format":null})",
      tokenizer_);
  EXPECT_EQ(request.sampling.max_tokens, 16);
  EXPECT_EQ(request.sampling.logprobs, -1);
}

TEST_F(RequestTest, RefusesBadLogitBias) {
  for (const std::string value :
       {"5", "[1]", R"({"x":1})", R"({"320":1})", R"({"-1":1})", R"({"1.0":1})", R"({"1":"a"})",
        R"({"1":101})", R"({"1":-100.5})", R"({"1":null})", R"({"":1})"}) {
    EXPECT_TRUE(completion_fault("\"logit_bias\":" + value).starts_with("logit_bias: 'logit_bias'"))
        << value;
  }
}

TEST_F(RequestTest, NeverRepeatsALongTextOfTheClient) {
  EXPECT_EQ(shortened("abc"), "abc");
  EXPECT_EQ(shortened(std::string(101, 'm')), std::string(100, 'm') + "...");
  EXPECT_LT(completion_fault("\"logit_bias\":{\"" + std::string(100'000, 'x') + "\":1}").size(),
            300u);
}

TEST_F(RequestTest, ReadsStopsAndBoundsThem) {
  EXPECT_EQ(completion(R"({"prompt":"a","stop":"x"})", tokenizer_).stop.size(), 1u);
  EXPECT_TRUE(completion(R"({"prompt":"a","stop":[]})", tokenizer_).stop.empty());
  EXPECT_EQ(completion_fault(R"("stop":"")"), "stop: 'stop' must not hold an empty string");
  EXPECT_EQ(completion_fault(R"("stop":["a",""])"), "stop: 'stop' must not hold an empty string");
  EXPECT_EQ(completion_fault(R"("stop":5)"),
            "stop: 'stop' must be a string or a list of strings, not a number");
  std::string seventeen;
  for (int i = 0; i < 17; ++i) {
    seventeen += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\"";
  }
  EXPECT_EQ(completion_fault("\"stop\":[" + seventeen + "]"),
            "stop: 'stop' has more than 16 entries");
  EXPECT_EQ(completion_fault("\"stop\":\"" + std::string(1025, 'x') + "\""),
            "stop: a string of 'stop' must have at most 1024 bytes");
}

TEST_F(RequestTest, ReadsStreamOptionsWithAStreamOnly) {
  const ApiRequest request = completion(
      R"({"prompt":"a","stream":true,
          "stream_options":{"include_usage":true,"continuous_usage_stats":true}})",
      tokenizer_);
  EXPECT_TRUE(request.include_usage);
  EXPECT_TRUE(request.continuous_usage);
  EXPECT_FALSE(
      completion(R"({"prompt":"a","stream":true,"stream_options":{}})", tokenizer_).include_usage);
  EXPECT_EQ(completion_fault(R"("stream_options":{})"),
            "stream_options: 'stream_options' is only allowed with 'stream': true");
  EXPECT_EQ(completion_fault(R"("stream":true,"stream_options":1)"),
            "stream_options: 'stream_options' must be an object");
  EXPECT_EQ(completion_fault(R"("stream":true,"stream_options":{"include_usage":"yes"})"),
            "stream_options.include_usage: 'include_usage' must be a boolean, not a string");
}

TEST_F(RequestTest, ReadsLogprobsOfCompletionsAsNumberOrBoolean) {
  EXPECT_EQ(completion(R"({"prompt":"a","logprobs":true})", tokenizer_).sampling.logprobs, 1);
  EXPECT_EQ(completion(R"({"prompt":"a","logprobs":false})", tokenizer_).sampling.logprobs, -1);
  EXPECT_EQ(completion(R"({"prompt":"a","logprobs":20})", tokenizer_).sampling.logprobs, 20);
}

TEST_F(RequestTest, ReadsLogprobsOfChats) {
  const std::string head = R"({"messages":[{"role":"user","content":"a"}],)";
  EXPECT_EQ(chat(head + R"("logprobs":true})", tokenizer_).sampling.logprobs, 0);
  EXPECT_EQ(chat(head + R"("logprobs":true,"top_logprobs":4})", tokenizer_).sampling.logprobs, 4);
  EXPECT_EQ(chat(head + R"("top_logprobs":0})", tokenizer_).sampling.logprobs, -1);
  EXPECT_EQ(chat_fault(R"("top_logprobs":2)"),
            "top_logprobs: 'top_logprobs' needs 'logprobs': true");
  EXPECT_EQ(chat_fault(R"("logprobs":1)"), "logprobs: 'logprobs' must be a boolean, not a number");
  EXPECT_EQ(chat_fault(R"("logprobs":true,"top_logprobs":21)"),
            "top_logprobs: 'top_logprobs' must be between 0 and 20");
}

TEST_F(RequestTest, ReadsPromptsOfAllFourForms) {
  EXPECT_EQ(completion(R"({"prompt":"ab"})", tokenizer_).prompts.size(), 1u);
  EXPECT_EQ(completion(R"({"prompt":["ab","c","d"]})", tokenizer_).prompts.size(), 3u);
  const ApiRequest ids = completion(R"({"prompt":[5,6,319]})", tokenizer_);
  ASSERT_EQ(ids.prompts.size(), 1u);
  EXPECT_EQ(ids.prompts[0].tokens, (std::vector<TokenId>{5, 6, 319}));  // never a BOS
  const ApiRequest lists = completion(R"({"prompt":[[5],[6,7]]})", tokenizer_);
  ASSERT_EQ(lists.prompts.size(), 2u);
  EXPECT_EQ(lists.prompts[1].tokens, (std::vector<TokenId>{6, 7}));
}

TEST_F(RequestTest, RefusesPromptsOfAnyOtherForm) {
  const std::string want =
      "prompt: 'prompt' must be a string, a list of strings, a list of token ids from 0 to 319, or "
      "a list of such lists, none of them empty";
  for (const std::string value :
       {"null", "5", "{}", "[]", "[[]]", "[1,\"a\"]", "[\"a\",1]", "[\"a\",[1]]", "[[1],\"a\"]",
        "[[1],[]]", "[1.5]", "[true]", "[null]", "[-1]", "[320]", "[[320]]", "[[[1]]]",
        "[99999999999999999999]"}) {
    EXPECT_EQ(completion_fault("\"prompt\":" + value), want) << value;
  }
  EXPECT_FALSE(parse_completion(json("{}").get_object(), model_).ok());
}

TEST_F(RequestTest, BoundsTheNumberOfPrompts) {
  std::string many = "\"a\"";
  for (int i = 0; i < 256; ++i) {
    many += ",\"a\"";
  }
  EXPECT_EQ(completion_fault("\"prompt\":[" + many + "]"),
            "prompt: 'prompt' has more than 256 prompts");
}

TEST_F(RequestTest, RefusesAnEmptyPromptUnlessABosMakesItOne) {
  const bool bos = tokenizer_.adds_bos();
  EXPECT_EQ(completion_fault(R"("prompt":"")"), bos ? "" : "prompt: 'prompt' is empty");
  EXPECT_EQ(completion_fault(R"("prompt":"","add_special_tokens":false)"),
            "prompt: 'prompt' is empty");
}

TEST_F(RequestTest, ParsesSpecialTextInCompletionsUnlessToldNotTo) {
  const std::string end(tokenizer_.token_text(tokenizer_.end_ids()[0]));
  const ApiRequest parsed =
      completion("{\"add_special_tokens\":false,\"prompt\":\"" + end + "\"}", tokenizer_);
  EXPECT_EQ(parsed.prompts[0].tokens.size(), 1u);
  const ApiRequest plain = completion(
      "{\"add_special_tokens\":false,\"baton_parse_special\":false,\"prompt\":\"" + end + "\"}",
      tokenizer_);
  EXPECT_GT(plain.prompts[0].tokens.size(), 1u);
}

TEST_F(RequestTest, RefusesBadMessages) {
  for (const std::string value : {"null", "[]", "{}", "\"x\"", "[123]", "[{}]",
                                  R"([{"role":123,"content":"x"}])", R"([{"content":"x"}])"}) {
    EXPECT_TRUE(chat_fault("\"messages\":" + value).starts_with("messages: ")) << value;
  }
  for (const std::string content :
       {"123", "true", "null", R"({"type":"text","text":"x"})", "[1]", R"([{"type":"text"}])",
        R"([{"text":"x"}])", R"([{"type":"image_url","image_url":{}}])",
        R"([{"type":"text","text":5}])"}) {
    EXPECT_EQ(chat_fault(R"("messages":[{"role":"user","content":)" + content + "}]"),
              "messages.content: 'content' of a message must be a string or a list of text parts")
        << content;
  }
  EXPECT_EQ(chat_fault(R"("messages":[{"role":"user"}])").substr(0, 17), "messages.content:");
  EXPECT_EQ(chat_fault(R"("messages":[{"role":"assistant","content":"a"},
                                      {"role":"assistant","content":"b"}])"),
            "messages.content: two assistant messages follow each other");
}

TEST_F(RequestTest, AcceptsContentPartsAndToolCallsWithoutContent) {
  EXPECT_EQ(chat_fault(R"("messages":[{"role":"user","content":[{"type":"text","text":"x"}]},
      {"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","content":"y"}])"),
            "");
  EXPECT_EQ(chat_fault(R"("messages":[{"role":"user","content":""}])"), "");
}

TEST_F(RequestTest, ReadsEchoAndItsPrompt) {
  const auto read = [this](const std::string& fields) {
    return completion("{" + fields + "}", tokenizer_);
  };
  ApiRequest request = read(R"("prompt":"hello","echo":true)");
  EXPECT_TRUE(request.echo);
  EXPECT_FALSE(request.echo_only);
  EXPECT_EQ(request.prompt_scores(), -1) << "nothing is scored without logprobs";
  EXPECT_EQ(request.prompts[0].text, "hello");
  request = read(R"("prompt":[[5,6],[7]],"echo":true,"logprobs":2,"max_tokens":0)");
  EXPECT_TRUE(request.echo_only);
  EXPECT_EQ(request.sampling.max_tokens, 1);
  EXPECT_EQ(request.prompt_scores(), 2);
  EXPECT_EQ(request.prompts[1].text, tokenizer_.decode(std::vector<TokenId>{7}));
  EXPECT_EQ(read(R"("prompt":"a","echo":true,"logprobs":1,"prompt_logprobs":3)").prompt_scores(),
            3);
  EXPECT_EQ(read(R"("prompt":"a","prompt_logprobs":0)").prompt_scores(), 0);
  EXPECT_EQ(completion_fault(R"("echo":true,"max_tokens":0,"min_tokens":1)"),
            "min_tokens: 'min_tokens' must not be more than 'max_tokens'");
  EXPECT_EQ(completion_fault(R"("prompt_logprobs":1,"stream":true)"),
            "prompt_logprobs: 'prompt_logprobs' is not allowed with 'stream': true");
}

TEST_F(RequestTest, ReadsBestOf) {
  EXPECT_EQ(completion(R"({"prompt":"a"})", tokenizer_).candidates(), 1);
  const ApiRequest request = completion(R"({"prompt":"a","n":2,"best_of":5})", tokenizer_);
  EXPECT_EQ(request.candidates(), 5);
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(completion(R"({"prompt":"a","best_of":0})", tokenizer_).candidates(), 1);
  EXPECT_EQ(completion_fault(R"("best_of":21)"), "best_of: 'best_of' must be between 0 and 20");
  EXPECT_EQ(completion_fault(R"("n":30,"best_of":30)"), "");
}

TEST_F(RequestTest, ForbidsABadWordAtABeginningAndInsideAText) {
  const auto words = [this](const std::string& list) {
    return completion("{\"prompt\":\"a\",\"bad_words\":" + list + "}", tokenizer_)
        .sampling.bad_words;
  };
  const std::vector<TokenId> plain = tokenizer_.encode("fox");
  const std::vector<TokenId> spaced = tokenizer_.encode(" fox");
  EXPECT_EQ(words(R"(["fox"])"), (std::vector<std::vector<TokenId>>{plain, spaced}));
  EXPECT_EQ(words(R"([" fox"])"), (std::vector<std::vector<TokenId>>{plain, spaced}));
  EXPECT_TRUE(words("[]").empty());
  EXPECT_TRUE(completion_fault(R"("bad_words":["a"," "])")
                  .starts_with("bad_words: a string of 'bad_words' must have"));
  EXPECT_EQ(completion_fault(R"("bad_words":[1])"),
            "bad_words: 'bad_words' must be a list of strings, not a number");
}

TEST_F(RequestTest, CutsPromptsFromTheFrontWhenAsked) {
  const auto cut = [this](const std::string& fields, int context) {
    ApiRequest request =
        completion("{\"prompt\":[5,6,7,8],\"echo\":true," + fields + "}", tokenizer_);
    truncate_prompts(request, context, tokenizer_);
    EXPECT_EQ(request.prompts[0].text, tokenizer_.decode(request.prompts[0].tokens));
    return request.prompts[0].tokens;
  };
  EXPECT_EQ(cut(R"("max_tokens":2)", 5), (std::vector<TokenId>{5, 6, 7, 8}));
  EXPECT_EQ(cut(R"("max_tokens":2,"truncate_prompt_tokens":2)", 100), (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(cut(R"("max_tokens":2,"truncate_prompt_tokens":9)", 100),
            (std::vector<TokenId>{5, 6, 7, 8}));
  EXPECT_EQ(cut(R"("max_tokens":2,"truncate_prompt_tokens":-1)", 5),
            (std::vector<TokenId>{6, 7, 8}));
}

TEST_F(RequestTest, RefusesListsAndTextsThatMeanNothing) {
  EXPECT_EQ(completion_fault(R"("cache_salt":"")"),
            "cache_salt: 'cache_salt' must have 1 to 1024 bytes");
  EXPECT_EQ(completion_fault(R"("allowed_token_ids":[])"),
            "allowed_token_ids: 'allowed_token_ids' must not be empty");
  EXPECT_EQ(completion_fault(R"("allowed_token_ids":[320])"),
            "allowed_token_ids: 'allowed_token_ids' must hold token ids from 0 to 319");
}

TEST_F(RequestTest, BeamSearchHasTheChoicesAsItsWidth) {
  const ApiRequest request = completion(
      R"({"prompt":"a","use_beam_search":true,"n":4,"best_of":4,"length_penalty":-0.5,
          "temperature":0.7,"top_p":0.5,"seed":3,"stream":false,"ignore_eos":true,
          "stop_token_ids":[5],"repetition_penalty":1})",
      tokenizer_);
  EXPECT_EQ(request.sampling.beam_width, 4u);
  EXPECT_EQ(request.candidates(), 4);
  EXPECT_EQ(request.sampling.length_penalty, -0.5);
  const ApiRequest plain =
      completion(R"({"prompt":"a","use_beam_search":false,"n":40,"length_penalty":2})", tokenizer_);
  EXPECT_EQ(plain.sampling.beam_width, 0u);
}

TEST_F(RequestTest, BeamSearchRefusesWhatWouldChangeItsCandidates) {
  const std::vector<std::pair<std::string, std::string>> others = {
      {"stop", "[\"a\"]"},
      {"min_tokens", "2"},
      {"logit_bias", "{\"5\":1}"},
      {"allowed_token_ids", "[5]"},
      {"bad_words", "[\"a\"]"},
      {"repetition_penalty", "1.1"},
      {"presence_penalty", "0.1"},
      {"frequency_penalty", "-0.1"},
      {"response_format", "{\"type\":\"json_object\"}"},
      {"best_of", "2"},
  };
  for (const auto& [name, value] : others) {
    const std::string field = "\"" + name + "\":" + value;
    EXPECT_EQ(completion_fault(field), "") << name;
    EXPECT_TRUE(completion_fault(field + ",\"use_beam_search\":true")
                    .starts_with(name + ": '" + name + "' is not allowed with 'use_beam_search'"))
        << name;
  }
  EXPECT_EQ(completion_fault(R"("use_beam_search":true,"n":33)"),
            "n: 'n' must be at most 32 with 'use_beam_search'");
  EXPECT_TRUE(completion_fault(R"("length_penalty":10.5)").starts_with("length_penalty: "));
  const std::string tools =
      R"({"messages":[{"role":"user","content":"a"}],"use_beam_search":true,
          "tools":[{"type":"function","function":{"name":"f"}}])";
  const auto chat = [&](const std::string& more) {
    return parse_chat(json(tools + more + "}").get_object(), {"tiny", &tokenizer_}).fault.param;
  };
  EXPECT_EQ(chat(""), "");
  EXPECT_EQ(chat(R"(,"tool_choice":"required")"), "tool_choice");
}

TEST_F(RequestTest, ASeedOfMinusOneIsNone) {
  EXPECT_FALSE(completion(R"({"prompt":"a","seed":-1})", tokenizer_).seed_given);
  EXPECT_TRUE(completion(R"({"prompt":"a","seed":-2})", tokenizer_).seed_given);
}

TEST_F(RequestTest, RefusesByNameWhatIsNotSupported) {
  EXPECT_TRUE(
      completion_fault(R"("suffix":"a")").starts_with("suffix: 'suffix' is not supported: "));
  EXPECT_EQ(completion_fault(R"("n":3,"best_of":3)"), "");
  const std::string form = "\"guided_choice\":[\"" + std::string(40'000, 'a') + "\"]";
  std::string prompts = "\"a\"";
  EXPECT_EQ(completion_fault("\"prompt\":[" + prompts + "]," + form), "");
  for (int i = 0; i < 30; ++i) {
    prompts += ",\"a\"";
  }
  EXPECT_TRUE(completion_fault("\"prompt\":[" + prompts + "]," + form)
                  .starts_with("prompt: the form of the output"));
  std::string ids = "5";
  for (int i = 1; i < 8192; ++i) {
    ids += ",5";
  }
  EXPECT_EQ(completion_fault("\"allowed_token_ids\":[" + ids + "]"), "");
  for (int i = 0; i < 40; ++i) {
    prompts += ",\"a\"";
  }
  EXPECT_TRUE(completion_fault("\"prompt\":[" + prompts + "],\"allowed_token_ids\":[" + ids + "]")
                  .starts_with("prompt: the form of the output"));
  EXPECT_EQ(completion_fault(R"("n":2,"best_of":1)"),
            "best_of: 'best_of' must not be less than 'n'");
  EXPECT_EQ(completion_fault(R"("n":2,"best_of":2,"stream":true)"),
            "best_of: 'best_of' is not allowed with 'stream': true");
  EXPECT_EQ(chat_fault(R"("reasoning_effort":"low")"), "");
  EXPECT_EQ(chat_fault(R"("reasoning_effort":"enormous")"),
            "reasoning_effort: 'reasoning_effort' must be none, minimal, low, medium, high, xhigh "
            "or max");
  EXPECT_EQ(chat_fault(R"("response_format":{"type":5})"),
            "response_format: 'response_format.type' must be text, json_object or json_schema");
  EXPECT_EQ(chat_fault(R"("response_format":{"type":"json_object"})"), "");
  EXPECT_EQ(chat_fault(R"("response_format":{"type":"text"})"), "");
  EXPECT_EQ(chat_fault(R"("tools":[])"), "tools: 'tools' must be a list of 1 to 512 functions");
  EXPECT_EQ(chat_fault(R"("tool_choice":"auto")"), "tool_choice: 'tool_choice' needs 'tools'");
  EXPECT_EQ(chat_fault(R"("tool_choice":"none")"), "");
  EXPECT_EQ(chat_fault(R"("continue_final_message":true)"), "");
  EXPECT_EQ(chat_fault(R"("continue_final_message":true,"add_generation_prompt":true)"),
            "continue_final_message: 'continue_final_message' and 'add_generation_prompt' cannot "
            "both be true");
  EXPECT_EQ(chat_fault(R"("chat_template_kwargs":5)"),
            "chat_template_kwargs: 'chat_template_kwargs' must be an object");
}

TEST_F(RequestTest, RefusesMoreMinTokensThanMaxTokens) {
  EXPECT_EQ(completion_fault(R"("max_tokens":2,"min_tokens":3)"),
            "min_tokens: 'min_tokens' must not be more than 'max_tokens'");
  EXPECT_EQ(completion_fault(R"("max_tokens":3,"min_tokens":3)"), "");
}

TEST_F(RequestTest, AcceptsKnownFieldsWithoutEffectAndNamesUnknownOnes) {
  const ApiRequest request = completion(
      R"({"prompt":"a","user":"u","metadata":{},"store":true,"priority":1,"frobnicate":1,
          "zoom":null})",
      tokenizer_);
  EXPECT_EQ(request.ignored, (std::vector<std::string>{"frobnicate", "zoom"}));
  std::string body = R"({"prompt":"a")";
  for (int i = 0; i < 100; ++i) {
    body += ",\"unknown" + std::to_string(i) + "\":1";
  }
  EXPECT_EQ(completion(body + "}", tokenizer_).ignored.size(), 32u);
}

}  // namespace
}  // namespace baton::router
