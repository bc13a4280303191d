#include "router/tool_calls/answer_reader.h"

#include <gtest/gtest.h>

#include <random>

namespace baton::router {
namespace {

ToolRequest tools_named(std::vector<std::string> names) {
  ToolRequest tools;
  tools.choice = ToolChoice::kAuto;
  for (std::string& name : names) {
    tools.callable.push_back({std::move(name), "{}"});
  }
  return tools;
}

// What an answer is read as, in one line: (reasoning) content [index name arguments]...
std::string shown(const AnswerPiece& piece) {
  std::string out;
  out += piece.reasoning.empty() ? "" : "(" + piece.reasoning + ")";
  out += piece.content;
  for (const CallPiece& call : piece.calls) {
    out += "[" + std::to_string(call.index) + " " + call.name + " " + call.arguments + "]";
  }
  return out;
}

void add(AnswerPiece& all, const AnswerPiece& piece) {
  all.reasoning += piece.reasoning;
  all.content += piece.content;
  for (const CallPiece& call : piece.calls) {
    if (call.name.empty()) {
      all.calls.back().arguments += call.arguments;
    } else {
      all.calls.push_back(call);
    }
  }
}

class AnswerReaderTest : public testing::Test {
 protected:
  AnswerPiece read_in(std::string_view text, const std::vector<size_t>& sizes, bool cut) const {
    AnswerReader reader(form_, tools_);
    AnswerPiece all;
    for (size_t i = 0; !text.empty(); ++i) {
      const size_t size = std::min(sizes[i % sizes.size()], text.size());
      add(all, reader.feed(text.substr(0, size)));
      text.remove_prefix(size);
    }
    add(all, reader.finish(cut));
    return all;
  }
  // Read whole, byte by byte and in random pieces: always the same.
  std::string read(std::string_view text, bool cut = false) const {
    const std::string whole = shown(read_in(text, {text.size() + 1}, cut));
    EXPECT_EQ(shown(read_in(text, {1}, cut)), whole) << text;
    std::mt19937 random(7);
    for (int i = 0; i < 20; ++i) {
      std::vector<size_t> sizes;
      for (int n = 0; n < 40; ++n) {
        sizes.push_back(1 + random() % 9);
      }
      EXPECT_EQ(shown(read_in(text, sizes, cut)), whole) << text;
    }
    return whole;
  }
  void use(CallForm form) {
    form_.call_form = form;
    form_.has_calls = true;
  }

  AnswerForm form_;
  ToolRequest tools_ = tools_named({"f", "g"});
};

TEST_F(AnswerReaderTest, LeavesTextAloneThatIsNeitherReasoningNorCall) {
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read(" a <tool_call>{\"name\": \"f\"}</tool_call> \n"),
            " a <tool_call>{\"name\": \"f\"}</tool_call> \n");
  for (const CallForm form : {CallForm::kHermes, CallForm::kLlama3, CallForm::kMistral}) {
    use(form);
    for (const char* text : {"", "a", " a b\n\n c \n", "<", "<tool", "[TOOL", "<|python", "x{",
                             "a <b", "[1, 2]", "  \n"}) {
      EXPECT_EQ(read(text), text);
    }
  }
}

// White space is held back while it may belong to a call; an answer of nothing else must not pile
// up.
TEST_F(AnswerReaderTest, HoldsLittleWhiteSpaceBack) {
  const std::string space(3'000, ' ');
  for (const CallForm form : {CallForm::kHermes, CallForm::kLlama3, CallForm::kMistral}) {
    use(form);
    form_.has_reasoning = true;
    EXPECT_EQ(read(space), space);
    EXPECT_EQ(read(space + "<think>a</think>"), space + "<think>a</think>");
    EXPECT_EQ(read("a" + space + "b"), "a" + space + "b");
    AnswerReader reader(form_, tools_);
    EXPECT_GT(reader.feed(space).content.size(), 2'500u);
  }
  use(CallForm::kLlama3);
  EXPECT_EQ(read(space + "{\"name\": \"f\", \"parameters\": {}}"),
            space + "{\"name\": \"f\", \"parameters\": {}}");
}

TEST_F(AnswerReaderTest, SplitsReasoningOff) {
  form_.has_reasoning = true;
  EXPECT_EQ(read("<think>\nwhy <b> not\n</think>\n\nbecause"), "(why <b> not)because");
  EXPECT_EQ(read(" \n<think>a</think>b</think>"), "(a)b</think>");
  EXPECT_EQ(read("no <think>a</think>"), "no <think>a</think>");
  EXPECT_EQ(read("<think></think>x"), "x");
  EXPECT_EQ(read("<thin"), "<thin");
  EXPECT_EQ(read("<thin", true), "");
  EXPECT_EQ(read("<think>half", true), "(half)");
  EXPECT_EQ(read("<think>half</thi", true), "(half)");
  EXPECT_EQ(read("<think>half</thi"), "(half</thi)");
  form_.begins_in_reasoning = true;
  EXPECT_EQ(read("\nhm\n</think>\nx"), "(hm)x");
  form_.shows_reasoning = false;
  EXPECT_EQ(read("\nhm\n</think>\nx"), "x");
}

TEST_F(AnswerReaderTest, ReadsHermesCalls) {
  use(CallForm::kHermes);
  EXPECT_EQ(read("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\\\"\"]}}\n"
                 "</tool_call>"),
            "[0 f {\"a\": [1, \"}\\\"\"]}]");
  EXPECT_EQ(read("Let me see. \n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
                 "<tool_call>\n{\"arguments\": {\"b\": 2}, \"name\": \"g\"}\n</tool_call>\n done"),
            "Let me see.done[0 f {}][1 g {\"b\": 2}]");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>"),
            "[0 f {\"a\": 1}]");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\"}</tool_call>"), "[0 f {}]");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\", \"arguments\": null, \"id\": 5}</tool_call>"),
            "[0 f {}]");
  // Two in one, and an end that is not there.
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\"}\n{\"name\": \"g\"}</tool_call>"),
            "[0 f {}][1 g {}]");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\"}"), "[0 f {}]");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\"}\n<tool_call>{\"name\": \"g\"}"), "[0 f {}][1 g {}]");
}

TEST_F(AnswerReaderTest, GivesBackAsTextWhatIsNoCall) {
  use(CallForm::kHermes);
  for (const char* text : {
           "a <tool_call>b</tool_call> c",
           "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>",
           "<tool_call>{'name': 'f'}</tool_call>",
           "<tool_call>{\"arguments\": {}}</tool_call>",
           "<tool_call>{\"name\": 5}</tool_call>",
           "<tool_call>{\"name\": \"f",
           "<tool_call>",
           "<tool_call>[1]",
       }) {
    EXPECT_EQ(read(text), text);
  }
  EXPECT_EQ(read("<tool_call>x<tool_call>{\"name\": \"f\"}</tool_call>"), "<tool_call>x[0 f {}]");
}

TEST_F(AnswerReaderTest, DropsHalfAMarkerOrCallAtTheLimitOfTokens) {
  use(CallForm::kHermes);
  EXPECT_EQ(read("a\n<tool_c", true), "a\n");
  EXPECT_EQ(read("a <", true), "a <");
  EXPECT_EQ(read("<tool_call>\n{\"na", true), "");
  EXPECT_EQ(read("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b", true),
            "[0 f {\"a\": \"b]");
  EXPECT_EQ(read("<tool_call>\n{\"name\": \"f\"}\n</too", true), "[0 f {}]");
  use(CallForm::kLlama3);
  EXPECT_EQ(read("{\"na", true), "{\"na");  // may be an answer in JSON
  EXPECT_EQ(read("<|python_tag|>{\"na", true), "");
}

TEST_F(AnswerReaderTest, ClosesACallThatBreaksInItsArguments) {
  use(CallForm::kHermes);
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1}}</tool_call> and on"),
            "and on[0 f {\"a\": [1}]");
}

TEST_F(AnswerReaderTest, ReadsLlamaCalls) {
  use(CallForm::kLlama3);
  EXPECT_EQ(read("{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}"), "[0 f {\"a\": \"b\"}]");
  EXPECT_EQ(read(" <|python_tag|>{\"name\": \"f\", \"parameters\": {}}"), "[0 f {}]");
  EXPECT_EQ(read("{\"type\": \"function\", \"name\": \"g\", \"parameters\": {}}; "
                 "{\"name\": \"f\", \"parameters\": {}}"),
            "[0 g {}][1 f {}]");
  EXPECT_EQ(read("{\"name\": \"g\"}<|python_tag|>{\"name\": \"f\"}"), "[0 g {}][1 f {}]");
  EXPECT_EQ(read("{\"name\": \"g\"};"), "[0 g {}]");
  EXPECT_EQ(read("{\"type\": \"function\", \"function\": \"g\", \"parameters\": {}}"), "[0 g {}]");
  EXPECT_EQ(read("{\"name\": \"f\"} text"), "text[0 f {}]");
  for (const char* text : {"{\"name\": \"Bob\", \"parameters\": {}}", "{\"a\": 1}", "{", "{}",
                           "so {\"name\": \"f\"}", "<|python_tag|>print(1)"}) {
    EXPECT_EQ(read(text), text);
  }
}

TEST_F(AnswerReaderTest, ReadsMistralCalls) {
  use(CallForm::kMistral);
  EXPECT_EQ(read("[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, "
                 "{\"name\": \"g\", \"arguments\": {}}]"),
            "[0 f {\"a\": 1}][1 g {}]");
  EXPECT_EQ(read("See. [TOOL_CALLS]f[ARGS]{\"a\": {\"b\": 1}}[TOOL_CALLS]g{}"),
            "See.[0 f {\"a\": {\"b\": 1}}][1 g {}]");
  EXPECT_EQ(read("[TOOL_CALLS]f[CALL_ID]abc[ARGS]{}"), "[0 f {}]");
  EXPECT_EQ(read("[TOOL_CALLS]{\"name\": \"f\"}"), "[0 f {}]");
  for (const char* text :
       {"[TOOL_CALLS]unknown[ARGS]{}", "[TOOL_CALLS] []", "[TOOL_CALLS] [1]", "[TOOL_CALLS]"}) {
    EXPECT_EQ(read(text), text);
  }
  form_.begins_in_calls = true;
  EXPECT_EQ(read(" [{\"name\": \"f\", \"arguments\": {}}]"), "[0 f {}]");
  EXPECT_EQ(read(" [{\"na", true), "");
}

TEST_F(AnswerReaderTest, GivesOneCallWhereOnlyOneIsWanted) {
  use(CallForm::kHermes);
  tools_.parallel = false;
  EXPECT_EQ(
      read("<tool_call>{\"name\": \"f\"}</tool_call><tool_call>{\"name\": \"g\"}</tool_call>"),
      "[0 f {}]");
}

TEST_F(AnswerReaderTest, PassesArgumentsOnAsTheyCome) {
  use(CallForm::kHermes);
  AnswerReader reader(form_, tools_);
  EXPECT_EQ(shown(reader.feed("<tool_call>\n{\"name\": \"f")), "");
  EXPECT_EQ(shown(reader.feed("\"")), "");  // its end is looked at with what follows
  EXPECT_EQ(shown(reader.feed(",")), "[0 f ]");
  EXPECT_EQ(shown(reader.feed(" \"arguments\": {\"ci")), "[0  {\"ci]");
  EXPECT_EQ(shown(reader.feed("ty\": 1")), "[0  ty\": 1]");
  EXPECT_EQ(shown(reader.feed("}}\n</tool_call>")), "[0  }]");
  EXPECT_EQ(reader.calls(), 1);
}

TEST_F(AnswerReaderTest, SurvivesEndlessBracketsAndNames) {
  use(CallForm::kMistral);
  const std::string brackets = "[TOOL_CALLS]f" + std::string(100'000, '{');
  EXPECT_EQ(read_in(brackets, {1000}, false).calls.size(), 1);
  const std::string name = "[TOOL_CALLS]" + std::string(100'000, 'f');
  EXPECT_EQ(read_in(name, {1000}, false).content, name);
  use(CallForm::kHermes);
  const std::string long_name = "<tool_call>{\"name\": \"" + std::string(100'000, 'f');
  EXPECT_EQ(read_in(long_name, {1000}, false).content, long_name);
}

}  // namespace
}  // namespace baton::router
