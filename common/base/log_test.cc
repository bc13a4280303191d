#include "common/base/log.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(LogTest, TextLineHasProgramWorkerWordsAndFields) {
  init_log({.program = "baton-prefill", .worker = "p0"});
  testing::internal::CaptureStderr();
  log_info("peer lost", {{"peer", "d 1"}, {"after_ms", 12}});
  log_debug("not shown");
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find(" I baton-prefill p0: peer lost peer=\"d 1\" after_ms=12\n"),
            std::string::npos)
      << out;
  EXPECT_EQ(out.find("not shown"), std::string::npos);
}

TEST(LogTest, JsonLineEscapesValues) {
  init_log({.format = LogFormat::kJson, .program = "baton", .worker = ""});
  testing::internal::CaptureStderr();
  log_warn("a \"b\"", {{"path", "x\ny"}, {"n", 3}, {"ok", true}});
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find(R"("message":"a \"b\"","path":"x\u000ay","n":3,"ok":true})"),
            std::string::npos)
      << out;
  init_log({});
}

TEST(LogTest, NamesTheChoicesForAWrongLevel) {
  EXPECT_EQ(parse_log_level("loud").status().message(),
            "log level 'loud' is not one of debug, info, warn, error");
  EXPECT_EQ(*parse_log_level("warn"), LogLevel::kWarn);
  EXPECT_EQ(*parse_log_format("json"), LogFormat::kJson);
  EXPECT_FALSE(parse_log_format("xml").ok());
}

}  // namespace
}  // namespace baton
