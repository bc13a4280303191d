#include "common/http/event_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton::http {
namespace {

using Events = std::vector<std::string>;

Events read(std::string_view text, size_t piece) {
  Events events;
  EventStreamReader reader([&](std::string_view data) {
    events.emplace_back(data);
    return true;
  });
  for (size_t at = 0; at < text.size(); at += piece) {
    EXPECT_TRUE(reader.feed(text.substr(at, piece)));
  }
  reader.finish();
  EXPECT_TRUE(reader.status().ok());
  return events;
}

TEST(EventStreamTest, GivesTheSameEventsWhateverThePieces) {
  constexpr std::string_view kText =
      ": hello\r\n\r\ndata: one\n\nid: 7\nevent: x\ndata:two\ndata: more\r\n\r\n\n\n"
      "data:  three\n\nretry: 5\n\ndata\n\ndata: [DONE]\n\n";
  const Events wanted = {"one", "two\nmore", " three", "[DONE]"};
  for (size_t piece = 1; piece <= kText.size(); ++piece) {
    EXPECT_EQ(read(kText, piece), wanted) << piece;
  }
}

TEST(EventStreamTest, TakesALastEventWithoutItsBlankLine) {
  EXPECT_EQ(read("data: a\n\ndata: [DONE]\n", 5), (Events{"a", "[DONE]"}));
  EXPECT_EQ(read("data: a\n\ndata: [DONE]", 100), (Events{"a", "[DONE]"}));
}

TEST(EventStreamTest, StopsWhenTheReaderHasEnough) {
  Events events;
  EventStreamReader reader([&](std::string_view data) {
    events.emplace_back(data);
    return false;
  });
  EXPECT_FALSE(reader.feed("data: a\n\ndata: b\n\n"));
  EXPECT_FALSE(reader.feed("data: c\n\n"));
  reader.finish();
  EXPECT_EQ(events, Events{"a"});
  EXPECT_TRUE(reader.status().ok());
}

TEST(EventStreamTest, BoundsWhatItKeeps) {
  EventStreamReader reader([](std::string_view) { return true; });
  const std::string piece(1 << 20, 'x');
  bool more = reader.feed("data: ");
  for (int i = 0; more && i < 8; ++i) {
    more = reader.feed(piece);
  }
  EXPECT_FALSE(more);
  EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton::http
