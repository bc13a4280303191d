#include "router/json_text.h"

#include <gtest/gtest.h>

#include <limits>

#include "router/router_fixture.h"

namespace baton::router {
namespace {

TEST(JsonTextTest, PutsCommasWhereTheyBelong) {
  JsonText text;
  text.open_object().text("a", "x\"y").count("b", -7).name("c").open_array();
  text.count(1).open_object().close_object().text("z").close_array();
  text.flag("d", true).name("e").open_object().close_object().close_object();
  EXPECT_EQ(text.take(), R"({"a":"x\"y","b":-7,"c":[1,{},"z"],"d":true,"e":{}})");
}

TEST(JsonTextTest, WritesNumbersShort) {
  JsonText text;
  text.open_array();
  for (const double value : {0.0, 0.000123456, 0.5, -2.0, 1234.56789, 1e9}) {
    text.number(value);
  }
  text.close_array();
  EXPECT_EQ(text.take(), "[0,0.000123,0.5,-2,1234.568,1000000000]");
}

TEST(JsonTextTest, KnowsNoNumberThatJsonHasNot) {
  JsonText text;
  text.open_object().number("a", std::numeric_limits<double>::quiet_NaN());
  text.number("b", std::numeric_limits<double>::infinity()).number("c", std::optional<double>());
  text.number("d", std::optional(1.5)).close_object();
  EXPECT_EQ(text.take(), R"({"a":null,"b":null,"c":null,"d":1.5})");
}

TEST(JsonTextTest, EscapesWhatBreaksLines) {
  JsonText text;
  text.text("a\nb\x01");
  const std::string out = text.take();
  EXPECT_EQ(out.find('\n'), std::string::npos);
  EXPECT_EQ(json(out).as_string(), "a\nb\x01");
}

}  // namespace
}  // namespace baton::router
