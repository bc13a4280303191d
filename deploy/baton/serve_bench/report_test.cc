#include "deploy/baton/serve_bench/report.h"

#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "deploy/baton/serve_bench/json_text.h"

namespace baton::serve_bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(JsonTextTest, WritesOneObject) {
  const std::string text = JsonText()
                               .text("a", "x\"\n")
                               .number("b", 1.23456)
                               .number("c", std::nan(""))
                               .count("d", size_t{7})
                               .boolean("e", true)
                               .null("f")
                               .raw("g", "[1]")
                               .number("h", 1e300, 0)
                               .str();
  const boost::json::value json = boost::json::parse(text);
  EXPECT_EQ(json.at("a").as_string(), "x\"\n");
  EXPECT_THAT(text, HasSubstr("\"b\":1.235,\"c\":null,\"d\":7,\"e\":true,\"f\":null,\"g\":[1]"));
  EXPECT_EQ(JsonText().str(), "{}");
}

Report all_failed() {
  Report report;
  report.options.rate = 2;
  report.setup.dialect.model = "m";
  report.measurement.load = 2;
  report.measurement.summary.sent = 3;
  report.measurement.summary.failed = 3;
  report.measurement.summary.failures["http_503"] = {3, "no \"worker\""};
  return report;
}

TEST(ReportTest, HasNoFiguresWhereThereAreNone) {
  const Report report = all_failed();
  const boost::json::value json = boost::json::parse(report_json(report));
  EXPECT_TRUE(json.at("ttft_ms").at("p50").is_null());
  EXPECT_TRUE(json.at("prompt_tokens_mean").is_null());
  EXPECT_EQ(json.at("failed").as_int64(), 3);
  EXPECT_EQ(json.at("failures").as_array().at(0).at("first_message").as_string(), "no \"worker\"");
  EXPECT_FALSE(json.as_object().contains("search"));
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("failures   all 3 requests failed: 3 x http_503 (no \"worker\")"));
  EXPECT_THAT(text, HasSubstr("tokens     ? in, 0.0 out"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(ReportTest, SaysWhatLimitsItsWorth) {
  Report report = all_failed();
  Summary& s = report.measurement.summary;
  s.completed = 5;
  s.short_answers = 2;
  s.client_late = true;
  s.client_lag_ms = {5, 1, 2, 25, 3, 30};
  report.measurement.shortened = 4;
  report.setup.dialect.ignore_eos = false;
  report.search.emplace();
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("2 answers are shorter than asked for; the server does not know"));
  EXPECT_THAT(text, HasSubstr("this client sent late (p99 25.0 ms)"));
  EXPECT_THAT(text, HasSubstr("4 requests of the trace were shortened"));
  EXPECT_THAT(text, HasSubstr("the server counts no tokens"));
  EXPECT_THAT(text, HasSubstr("highest    none"));
}

TEST(ReportTest, NamesTheLoad) {
  ServeBenchOptions options;
  EXPECT_EQ(load_text(options, 2.5), "2.5 requests/s");
  options.trace = "t";
  EXPECT_EQ(load_text(options, 2), "2 x the trace");
  options.concurrency = 8;
  EXPECT_EQ(load_text(options, 8), "8 clients");
}

}  // namespace
}  // namespace baton::serve_bench
