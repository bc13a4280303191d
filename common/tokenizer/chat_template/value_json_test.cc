#include "common/tokenizer/chat_template/value_json.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "common/tokenizer/chat_template/json_text.h"

namespace baton::chat_template {
namespace {

TEST(ValueJsonTest, KeepsKindsAndOrder) {
  constexpr const char* kText =
      R"({"z": 1, "a": [null, true, 1.5, "é"], "m": {"k": -9223372036854775808}})";
  const Result<Value> value = value_from_json(boost::json::parse(kText));
  ASSERT_TRUE(value.ok());
  Budget budget(1'000'000);
  EXPECT_EQ(*to_json_text(*value, {}, budget), kText);
}

TEST(ValueJsonTest, RefusesWhatItCannotHold) {
  EXPECT_EQ(value_from_json(boost::json::parse("18446744073709551615")).status(),
            invalid_argument("integer beyond 64 bit signed: 18446744073709551615"));
  EXPECT_EQ(value_from_json(boost::json::value("\xff")).status(),
            invalid_argument("text is not valid UTF-8"));
  boost::json::value deep = 1;
  for (int i = 0; i < 100; ++i) {
    deep = boost::json::array{deep};
  }
  EXPECT_EQ(value_from_json(deep).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::chat_template
