#include "deploy/baton/fault_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "deploy/baton/json_fields.h"
#include "deploy/baton/temp_folder.h"

namespace baton::cli {
namespace {

std::string line(const std::string& time, const std::string& rest) {
  return R"({"time":")" + time + R"(","level":"info","program":"baton-decode",)" + rest + "}";
}

LogLine link(const std::string& worker, const std::string& peer, const std::string& message) {
  return *parse_log_line(
      line("2026-03-04T05:06:07.008",
           R"("worker":")" + worker + R"(","message":")" + message + R"(","peer":")" + peer + '"'));
}

TEST(FaultLogTest, ReadsTimeProgramAndFields) {
  const auto first = parse_log_line(
      line("2026-03-04T05:06:07.008", R"("worker":"","message":"worker gone","worker":"d0")"));
  const auto second = parse_log_line(line("2026-03-04T05:06:08.250", R"("message":"x")"));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->program, "baton-decode");
  EXPECT_EQ(first->message, "worker gone");
  EXPECT_EQ(text_of(first->fields, "worker"), "d0") << "the field, not who logs";
  EXPECT_EQ(second->at - first->at, std::chrono::milliseconds(1242));
}

TEST(FaultLogTest, PassesOverOtherLines) {
  for (const char* text :
       {"", "ready in 1.0 s", "{", "{}", R"({"time":"yesterday"})",
        R"({"time":"2026-03-04T05:06:07"})", R"({"time":"2026-03-04T05:06:07.0x8"})"}) {
    EXPECT_FALSE(parse_log_line(text)) << text;
  }
}

TEST(FaultLogTest, FollowsAFileThatGrows) {
  const TempFolder folder;
  const std::string path = folder.write("log", "ready\n");
  LogTail tail(path);
  EXPECT_TRUE(tail.read().empty());
  const std::string whole = line("2026-03-04T05:06:07.008", R"("message":"link up")");
  std::ofstream file(path, std::ios::app);
  file << whole.substr(0, 30) << std::flush;
  EXPECT_TRUE(tail.read().empty()) << "not complete";
  file << whole.substr(30) << "\n" << whole << "\n" << std::flush;
  EXPECT_EQ(tail.read().size(), 2u);
  EXPECT_TRUE(tail.read().empty());
  EXPECT_EQ(tail.last_lines(), "ready\n" + whole + "\n" + whole);
}

TEST(FaultLogTest, KnowsWhichLinksAreUp) {
  LinkView links;
  links.take(link("d0", "p0", "link up"));
  links.take(link("d1", "p0", "link up"));
  links.take(link("p0", "d0", "link up"));
  EXPECT_EQ(links.peers_of("p0"), (std::set<std::string>{"d0", "d1"}));
  links.take(link("d1", "p0", "link closed"));
  EXPECT_EQ(links.peers_of("p0"), std::set<std::string>{"d0"});
  links.forget("p0");
  EXPECT_TRUE(links.peers_of("d0").empty());
  EXPECT_EQ(links.peers_of("p0"), std::set<std::string>{"d0"}) << "the other end has not seen it";
}

}  // namespace
}  // namespace baton::cli
