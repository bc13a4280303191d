#include "router/api/field_reader.h"

#include <gtest/gtest.h>

#include "router/router_fixture.h"

namespace baton::router {
namespace {

struct Read {
  std::string message;
  std::string param;
};

// What a reader says of a field "x".
template <typename Reader>
Read read(std::string_view value, const Reader& reader) {
  const boost::json::value object = json("{\"x\":" + std::string(value) + "}");
  FieldReader fields(object.get_object());
  reader(fields);
  return {fields.status().message(), fields.param()};
}

TEST(FieldReaderTest, CountsNullAsAbsent) {
  const boost::json::value object = json(R"({"x":null})");
  FieldReader fields(object.get_object());
  EXPECT_EQ(fields.raw("x"), nullptr);
  EXPECT_FALSE(fields.number("x", 0, 1));
  EXPECT_FALSE(fields.integer("x", 0, 1));
  EXPECT_FALSE(fields.boolean("x"));
  EXPECT_FALSE(fields.text("x"));
  EXPECT_TRUE(fields.texts("x", 4).empty());
  EXPECT_TRUE(fields.token_ids("x", 4, 10).empty());
  fields.refuse("x", "never");
  EXPECT_TRUE(fields.status().ok());
  EXPECT_TRUE(fields.unknown(8).empty());
}

TEST(FieldReaderTest, ReadsNumbersOfEveryKindInsideTheRange) {
  const boost::json::value object = json(R"({"i":1,"d":0.5,"u":18446744073709551615,"e":1e-3})");
  FieldReader fields(object.get_object());
  EXPECT_EQ(fields.number("i", 0, 2), 1.0);
  EXPECT_EQ(fields.number("d", 0, 2), 0.5);
  EXPECT_EQ(fields.number("u", 0, 2e19), 18446744073709551615.0);
  EXPECT_EQ(fields.number("e", 0, 2), 1e-3);
  EXPECT_TRUE(fields.status().ok());
}

TEST(FieldReaderTest, RefusesNumbersByNameTypeAndRange) {
  const auto number = [](FieldReader& fields) { (void)fields.number("x", -2, 2.5); };
  EXPECT_EQ(read("\"1\"", number).message, "'x' must be a number, not a string");
  EXPECT_EQ(read("true", number).message, "'x' must be a number, not a boolean");
  EXPECT_EQ(read("[]", number).message, "'x' must be a number, not a list");
  EXPECT_EQ(read("{}", number).message, "'x' must be a number, not an object");
  EXPECT_EQ(read("2.6", number).message, "'x' must be between -2 and 2.5");
  EXPECT_EQ(read("-2.1", number).message, "'x' must be between -2 and 2.5");
  EXPECT_EQ(read("1e400", number).message, "'x' must be between -2 and 2.5");
  EXPECT_EQ(read("3", number).param, "x");
}

TEST(FieldReaderTest, ReadsIntegersThatAreWrittenAsDoubles) {
  const boost::json::value object = json(R"({"x":5.0,"y":-7})");
  FieldReader fields(object.get_object());
  EXPECT_EQ(fields.integer("x", 0, 10), 5);
  EXPECT_EQ(fields.integer("y", -10, 10), -7);
  EXPECT_TRUE(fields.status().ok());
}

TEST(FieldReaderTest, RefusesIntegersByNameTypeAndRange) {
  const auto integer = [](FieldReader& fields) { (void)fields.integer("x", 1, 10); };
  EXPECT_EQ(read("\"5\"", integer).message, "'x' must be an integer, not a string");
  EXPECT_EQ(read("false", integer).message, "'x' must be an integer, not a boolean");
  EXPECT_EQ(read("1.5", integer).message, "'x' must be an integer, not a number");
  EXPECT_EQ(read("0", integer).message, "'x' must be between 1 and 10");
  EXPECT_EQ(read("11", integer).message, "'x' must be between 1 and 10");
  EXPECT_EQ(read("18446744073709551615", integer).message, "'x' must be between 1 and 10");
  EXPECT_FALSE(read("99999999999999999999999", integer).message.empty());
}

TEST(FieldReaderTest, RefusesBooleansAndTextOfAnotherType) {
  EXPECT_EQ(read("1", [](FieldReader& fields) { (void)fields.boolean("x"); }).message,
            "'x' must be a boolean, not a number");
  EXPECT_EQ(read("1", [](FieldReader& fields) { (void)fields.text("x"); }).message,
            "'x' must be a string, not a number");
}

TEST(FieldReaderTest, ReadsOneStringOrAListOfThem) {
  const boost::json::value object = json(R"({"one":"a","many":["a","b"],"none":[]})");
  FieldReader fields(object.get_object());
  EXPECT_EQ(fields.texts("one", 2), std::vector<std::string>{"a"});
  EXPECT_EQ(fields.texts("many", 2), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(fields.texts("none", 2).empty());
  EXPECT_TRUE(fields.status().ok());
  const auto texts = [](FieldReader& reader) { (void)reader.texts("x", 2); };
  EXPECT_EQ(read("7", texts).message, "'x' must be a string or a list of strings, not a number");
  EXPECT_EQ(read("[\"a\",7]", texts).message, "'x' must be a list of strings, not a number");
  EXPECT_EQ(read("[\"a\",\"b\",\"c\"]", texts).message, "'x' has more than 2 entries");
}

TEST(FieldReaderTest, ReadsTokenIdsOfTheVocabularyOnly) {
  const boost::json::value object = json(R"({"x":[0,9]})");
  FieldReader fields(object.get_object());
  EXPECT_EQ(fields.token_ids("x", 2, 10), (std::vector<int32_t>{0, 9}));
  const auto ids = [](FieldReader& reader) { (void)reader.token_ids("x", 2, 10); };
  const std::string range = "'x' must hold token ids from 0 to 9";
  EXPECT_EQ(read("[10]", ids).message, range);
  EXPECT_EQ(read("[-1]", ids).message, range);
  EXPECT_EQ(read("[1.5]", ids).message, range);
  EXPECT_EQ(read("[true]", ids).message, range);
  EXPECT_EQ(read("[1,2,3]", ids).message, "'x' has more than 2 entries");
  EXPECT_EQ(read("3", ids).message, "'x' must be a list of token ids, not a number");
}

TEST(FieldReaderTest, KeepsTheFirstFault) {
  const boost::json::value object = json(R"({"a":"x","b":"y"})");
  FieldReader fields(object.get_object());
  (void)fields.integer("a", 0, 1);
  (void)fields.integer("b", 0, 1);
  EXPECT_EQ(fields.param(), "a");
  EXPECT_EQ(fields.status().code(), StatusCode::kInvalidArgument);
}

TEST(FieldReaderTest, NamesFieldsThatNobodyReadUpToALimit) {
  const boost::json::value object = json(R"({"a":1,"b":2,"c":3,"d":4,"e":5})");
  FieldReader fields(object.get_object());
  (void)fields.integer("a", 0, 9);
  fields.ignore({"b"});
  EXPECT_EQ(fields.unknown(8), (std::vector<std::string>{"c", "d", "e"}));
  EXPECT_EQ(fields.unknown(2), (std::vector<std::string>{"c", "d"}));
}

TEST(FieldReaderTest, RefusesUnsupportedFieldsWithTheReason) {
  EXPECT_EQ(read("1", [](FieldReader& fields) { fields.refuse("x", "not yet"); }).message,
            "'x' is not supported: not yet");
}

}  // namespace
}  // namespace baton::router
