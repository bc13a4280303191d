#include "common/grammar/ebnf.h"

#include <gtest/gtest.h>

#include <string>

#include "common/grammar/grammar_fixture.h"

namespace baton::grammar {
namespace {

bool matches(const std::string& grammar, std::string_view text) {
  const Result<bool> out = accepts({Kind::kEbnf, {grammar}}, text);
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  return out.ok() && *out;
}
Status error_of(const std::string& grammar) { return compile({Kind::kEbnf, {grammar}}).status(); }

TEST(EbnfTest, ReadsRulesInAnyOrder) {
  const std::string grammar =
      "# sums\n"
      "number ::= [1-9] [0-9]*  # no zero\n"
      "root ::= sum | \"none\"\n"
      "sum  ::= number\n"
      "         (' + ' number)*\n";
  EXPECT_TRUE(matches(grammar, "12 + 3 + 40"));
  EXPECT_TRUE(matches(grammar, "none"));
  EXPECT_FALSE(matches(grammar, "12 + "));
  EXPECT_FALSE(matches(grammar, "0"));
}

TEST(EbnfTest, RulesMayRecur) {
  const std::string grammar = "root ::= \"(\" root \")\" root | \"\"";
  EXPECT_TRUE(matches(grammar, ""));
  EXPECT_TRUE(matches(grammar, "(()())()"));
  EXPECT_FALSE(matches(grammar, "(()"));
  EXPECT_FALSE(matches(grammar, "())"));
  const std::string deep(5000, '(');
  EXPECT_TRUE(matches(grammar, deep + std::string(5000, ')')));
}

TEST(EbnfTest, EscapesAndClasses) {
  EXPECT_TRUE(
      matches(R"(root ::= "a\n\"\x41\u00e4" '\'' [\]x-z^]{2,3} .)", "a\n\"A\xC3\xA4']^z\n"));
  EXPECT_TRUE(matches("root ::= [^\"\\\\]+", "abc"));
}

TEST(EbnfTest, LongListsKeepAFlatStack) {
  EXPECT_TRUE(
      matches("root ::= item rest\nrest ::= \",\" item rest | \"\"\nitem ::= [a-z]", "a,b,c"));
  std::string text = "a";
  for (int i = 0; i < 20'000; ++i) {
    text += ",b";
  }
  EXPECT_TRUE(matches("root ::= item rest\nrest ::= \",\" item rest | \"\"\nitem ::= [a-z]", text));
}

TEST(EbnfTest, SaysWhatIsWrong) {
  EXPECT_EQ(error_of("x ::= \"a\"").message(), "the rule root is not defined");
  EXPECT_EQ(error_of("root ::= a").message(), "the rule a is not defined");
  EXPECT_EQ(error_of("root ::= \"a\"\nroot ::= \"b\"").message(), "the rule root is defined twice");
  EXPECT_EQ(error_of("start: \"a\"").message(),
            "no rule; a rule is written: name ::= ... at byte 0");
  EXPECT_EQ(error_of("root ::= \"a").message(), "a text without its closing quote at byte 11");
  for (const char* grammar :
       {"root ::= (", "root ::= )", "root ::= \"a\" {2", "root ::= [a", "", "root ::= \"a\"*****",
        "root ::= \xFF", "root ::= \"a\"{2,10001}", "root ::= \"a\"{10001}"}) {
    EXPECT_EQ(error_of(grammar).code(), StatusCode::kInvalidArgument) << grammar;
  }
  EXPECT_EQ(error_of("root ::= root \"a\" | \"b\"").message(),
            "a rule of the grammar begins with itself (left recursion); write the repetition with "
            "* or put the recursion at the end");
  EXPECT_FALSE(error_of("root ::= e a\na ::= e root\ne ::= \"\" | \"x\"").ok());
}

TEST(EbnfTest, HostileGrammarsAreBounded) {
  EXPECT_EQ(error_of("root ::= " + std::string(60'000, '(')).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(error_of("root ::= \"a\"" + std::string(60'000, '*')).ok());
  std::string many = "root ::= \"a\"\n";
  for (int i = 0; i < 5000; ++i) {
    many += "r" + std::to_string(i) + " ::= \"a\"\n";
  }
  EXPECT_FALSE(error_of(many).ok());
  // Each rule is empty only once the next is known to be: the search for that is bounded, too.
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 4000; ++i) {
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " r" +
             std::to_string(i + 1) + "\n";
  }
  chain += "r4000 ::= \"\" | \"a\"\n";
  const Status status = error_of(chain);
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton::grammar
