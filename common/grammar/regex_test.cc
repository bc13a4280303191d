#include "common/grammar/regex.h"

#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <string>

#include "common/base/random.h"
#include "common/grammar/grammar_fixture.h"

namespace baton::grammar {
namespace {

bool matches(const std::string& expression, std::string_view text) {
  const Result<bool> out = accepts({Kind::kRegex, {expression}}, text);
  EXPECT_TRUE(out.ok()) << expression << ": " << out.status().to_string();
  return out.ok() && *out;
}
Status error_of(const std::string& expression) {
  return compile({Kind::kRegex, {expression}}).status();
}

TEST(RegexTest, MatchesTheWholeText) {
  EXPECT_TRUE(matches("a(b|c)*d", "abcbd"));
  EXPECT_FALSE(matches("a(b|c)*d", "abcb"));
  EXPECT_FALSE(matches("a(b|c)*d", "xabd"));
  EXPECT_TRUE(matches("^yes$|^no$", "no"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(RegexTest, RepeatsAreCounted) {
  EXPECT_TRUE(matches("a{3}", "aaa"));
  EXPECT_FALSE(matches("a{3}", "aa"));
  EXPECT_TRUE(matches("a{2,}", "aaaaa"));
  EXPECT_FALSE(matches("a{2,}", "a"));
  EXPECT_FALSE(matches("(?:ab){1,2}", "ababab"));
  EXPECT_TRUE(matches("a{0,0}b", "b"));
  EXPECT_TRUE(matches("x{", "x{"));  // no repeat without a number
}

TEST(RegexTest, ClassesAreAsciiAndTextIsUtf8) {
  EXPECT_TRUE(matches("[\\d.]+", "3.14"));
  EXPECT_TRUE(matches("[^a-c]", "d"));
  EXPECT_FALSE(matches("[^a-c]", "b"));
  EXPECT_TRUE(matches("[^a-c]", "\xE2\x82\xAC"));  // one character of three bytes
  EXPECT_FALSE(matches("[^a-c]", "\xE2\x82"));
  EXPECT_FALSE(matches(".", "\n"));
  EXPECT_TRUE(matches("[\xD0\xB0-\xD1\x8F]+", "\xD0\xB4\xD0\xB0"));
  EXPECT_TRUE(matches("\\u00e4\\x41",
                      "\xC3\xA4"
                      "A"));
  EXPECT_TRUE(matches("[]a]+", "]a"));
  EXPECT_TRUE(matches("[a-]+", "a-"));
  EXPECT_TRUE(matches("[\\w-]+", "a-_9"));
  EXPECT_TRUE(matches("\\.\\*\\/", ".*/"));
}

TEST(RegexTest, AnyCodePointHasExactlyTheValidSequences) {
  const CodeRange all[] = {{0, kMaxCodePoint}};
  for (char32_t c :
       {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    if (c < 0x80) {
      text = std::string(1, static_cast<char>(c));
    } else if (c < 0x800) {
      text = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      text = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
              static_cast<char>(0x80 | (c & 63))};
    } else {
      text = {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
              static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    }
    EXPECT_TRUE(matches("[\\s\\S]", text)) << static_cast<uint32_t>(c);
  }
  EXPECT_EQ(complement({}), normalized({all[0]}));
  EXPECT_FALSE(matches("[\\s\\S]", "\xED\xA0\x80"));      // a surrogate
  EXPECT_FALSE(matches("[\\s\\S]", "\xC0\x80"));          // overlong
  EXPECT_FALSE(matches("[\\s\\S]", "\xF4\x90\x80\x80"));  // beyond Unicode
}

TEST(RegexTest, NamesWhatItDoesNotSupport) {
  for (const char* expression : {"(?=a)b", "(?!a)b", "(?<=a)b", "a\\b", "(a)\\1", "\\p{L}", "a++",
                                 "a^b", "(?i)a", "[[:alpha:]]"}) {
    EXPECT_EQ(error_of(expression).code(), StatusCode::kUnsupported) << expression;
  }
  for (const char* expression :
       {"(", ")", "a)", "*a", "[a", "a{3,2}", "a**", "\\", "[z-a]", "\\xZZ", "\xFF", "a{99999}",
        "a{10001}", "a{2,10001}", "a{2,99999}", "a{,3}x{2"}) {
    EXPECT_EQ(error_of(expression).code(), StatusCode::kInvalidArgument) << expression;
  }
  EXPECT_EQ(error_of("ab(?=c)").message(),
            "a group that begins with (?= at byte 4 is not supported");
}

TEST(RegexTest, NestingAndSizeAreBounded) {
  EXPECT_EQ(error_of(std::string(60'000, '(')).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(error_of("((a{100}){100}){100}").code(), StatusCode::kResourceExhausted);
}

// The library's regular expressions are the oracle, over random expressions and texts.
TEST(RegexTest, AgreesWithTheStandardLibrary) {
  auto random = SeededRandom(7);
  const auto pick = [&random](uint64_t n) { return static_cast<size_t>(random.next() % n); };
  const std::function<std::string(int)> expression = [&](int depth) -> std::string {
    switch (pick(depth > 3 ? 3 : 7)) {
      case 0:
      case 1:
        return std::string(1, static_cast<char>('a' + pick(3)));
      case 2:
        return pick(2) == 0 ? "[ab]" : "[^a]";
      case 3:
        return expression(depth + 1) + expression(depth + 1);
      case 4:
        return "(" + expression(depth + 1) + "|" + expression(depth + 1) + ")";
      case 5:
        return "(" + expression(depth + 1) + ")" + "*+?"[pick(3)];
      default:
        return "(?:" + expression(depth + 1) + "){1,2}";
    }
  };
  int matched = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string source = expression(0);
    const std::regex oracle(source);
    const Result<Automaton> automaton = compile({Kind::kRegex, {source}});
    ASSERT_TRUE(automaton.ok()) << source;
    Recognizer recognizer(*automaton, byte_vocabulary());
    for (int j = 0; j < 40; ++j) {
      std::string text;
      for (size_t n = pick(6); n > 0; --n) {
        text += static_cast<char>('a' + pick(3));
      }
      const auto place = recognizer.advance(recognizer.start(), text);
      const bool got = place->ok() && (*place)->may_end;
      ASSERT_EQ(got, std::regex_match(text, oracle)) << source << " on " << text;
      matched += got ? 1 : 0;
    }
  }
  EXPECT_GT(matched, 500);
}

}  // namespace
}  // namespace baton::grammar
