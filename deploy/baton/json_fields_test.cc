#include "deploy/baton/json_fields.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

TEST(JsonFieldsTest, ReadsWhatIsThere) {
  const auto object =
      parse_object(R"({"t":"text","i":-7,"u":18446744073709551615,"d":1.5,"o":{},"a":[1]})");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(text_of(*object, "t"), "text");
  EXPECT_EQ(integer_of(*object, "i"), -7);
  EXPECT_EQ(number_of(*object, "d"), 1.5);
  EXPECT_NE(object_of(*object, "o"), nullptr);
  EXPECT_EQ(array_of(*object, "a")->size(), 1u);
  EXPECT_EQ(integer_of(*object, "u"), 0) << "what no int64 holds";
}

TEST(JsonFieldsTest, WhatIsAbsentOrOfAnotherTypeIsEmpty) {
  const auto object = parse_object(R"({"t":1,"n":"1","z":null,"o":[],"a":{}})");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(text_of(*object, "t"), "");
  EXPECT_EQ(text_of(*object, "none"), "");
  EXPECT_EQ(optional_number_of(*object, "n"), std::nullopt);
  EXPECT_EQ(optional_number_of(*object, "z"), std::nullopt);
  EXPECT_EQ(number_of(*object, "none"), 0);
  EXPECT_EQ(object_of(*object, "o"), nullptr);
  EXPECT_EQ(array_of(*object, "a"), nullptr);
  EXPECT_FALSE(parse_object("[]").ok());
  EXPECT_FALSE(parse_object("{").ok());
}

}  // namespace
}  // namespace baton::cli
