#include "router/api/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/random.h"

namespace baton::router {
namespace {

TEST(StopMatcherTest, LetsEverythingThroughWithoutStops) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.feed("abc").text, "abc");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcherTest, SendsTheTextBeforeTheMatchInOnePiece) {
  StopMatcher matcher({"END"});
  const StopMatcher::Out out = matcher.feed("textENDmore");
  EXPECT_EQ(out.text, "text");
  EXPECT_EQ(out.matched, 0);
}

TEST(StopMatcherTest, FindsAStopThatIsSplitOverPieces) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.feed("aE").text, "a");
  EXPECT_EQ(matcher.feed("N").text, "");
  const StopMatcher::Out out = matcher.feed("D!");
  EXPECT_EQ(out.text, "");
  EXPECT_EQ(out.matched, 0);
}

TEST(StopMatcherTest, TakesTheEarliestMatchWhateverTheOrder) {
  StopMatcher matcher({"cd", "bc"});
  const StopMatcher::Out out = matcher.feed("abcd");
  EXPECT_EQ(out.text, "a");
  EXPECT_EQ(out.matched, 1);
}

TEST(StopMatcherTest, BreaksTiesByListOrder) {
  StopMatcher longer_first({"ab", "a"});
  EXPECT_EQ(longer_first.feed("xab").matched, 0);
  StopMatcher shorter_first({"a", "ab"});
  EXPECT_EQ(shorter_first.feed("xab").matched, 0);
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"\n\nHuman:"});
  EXPECT_EQ(matcher.feed("a long line without").text, "a long line without");
  EXPECT_EQ(matcher.feed("one\n").text, "one");
  EXPECT_EQ(matcher.feed("\n").text, "");
  EXPECT_EQ(matcher.feed("\n").text, "\n");  // now only the last two may begin it
  EXPECT_EQ(matcher.feed("Human").text, "");
  EXPECT_EQ(matcher.feed("s").text, "\n\nHumans");
}

TEST(StopMatcherTest, FlushesWhatWasHeldAtTheEnd) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.feed("sto").text, "");
  EXPECT_EQ(matcher.finish(), "sto");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcherTest, MatchesNothingWhileItIsDisabled) {
  StopMatcher matcher({"ab"});
  const StopMatcher::Out out = matcher.feed("xaby", false);
  EXPECT_EQ(out.text, "xaby");
  EXPECT_EQ(out.matched, -1);
  EXPECT_EQ(matcher.feed("ab").matched, 0);
}

// What the whole text says: where the earliest match lies and which stop it is.
struct Reference {
  std::string text;
  int matched = -1;
};

Reference whole_text(const std::string& text, const std::vector<std::string>& stops) {
  size_t at = std::string::npos;
  Reference out{text};
  for (size_t i = 0; i < stops.size(); ++i) {
    const size_t found = text.find(stops[i]);
    if (found < at) {
      at = found;
      out.matched = static_cast<int>(i);
    }
  }
  out.text = text.substr(0, std::min(at, text.size()));
  return out;
}

std::string random_text(SeededRandom& random, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) {
    text += static_cast<char>('a' + random.next() % 3);
  }
  return text;
}

// A stop that ends earlier is found before one that begins earlier but needs more text: with
// pieces, the match is the earliest of the text up to the piece in which a stop is complete.
Reference up_to_first_complete(const std::vector<std::string>& pieces,
                               const std::vector<std::string>& stops) {
  std::string text;
  for (const std::string& piece : pieces) {
    text += piece;
    if (const Reference found = whole_text(text, stops); found.matched >= 0) {
      return found;
    }
  }
  return {text};
}

TEST(StopMatcherTest, AgreesWithTheWholeTextWhateverThePieces) {
  SeededRandom random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + random.next() % 3; ++i) {
      stops.push_back(random_text(random, 1 + random.next() % 5));
    }
    std::vector<std::string> pieces;
    for (size_t i = 0; i < random.next() % 12; ++i) {
      pieces.push_back(random_text(random, random.next() % 4));
    }
    StopMatcher matcher(stops);
    std::string sent;
    int matched = -1;
    for (const std::string& piece : pieces) {
      const StopMatcher::Out out = matcher.feed(piece);
      sent += out.text;
      matched = out.matched;
      if (matched >= 0) {
        break;
      }
    }
    sent += matcher.finish();
    const Reference want = up_to_first_complete(pieces, stops);
    ASSERT_EQ(sent, want.text) << "round " << round;
    ASSERT_EQ(matched, want.matched) << "round " << round;
  }
}

TEST(StopMatcherTest, NeverHoldsMoreThanALongestStopLessOne) {
  SeededRandom random(11);
  for (int round = 0; round < 2'000; ++round) {
    const std::string stop = random_text(random, 2 + random.next() % 5);
    StopMatcher matcher({stop});
    std::string fed;
    std::string sent;
    while (fed.size() < 40) {
      const std::string piece = random_text(random, 1);
      fed += piece;
      const StopMatcher::Out out = matcher.feed(piece);
      if (out.matched >= 0) {
        break;
      }
      sent += out.text;
      const std::string held = fed.substr(sent.size());
      ASSERT_LT(held.size(), stop.size());
      ASSERT_TRUE(stop.starts_with(held)) << held;
    }
  }
}

}  // namespace
}  // namespace baton::router
