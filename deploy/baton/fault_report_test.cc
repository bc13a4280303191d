#include "deploy/baton/fault_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/baton/json_fields.h"

namespace baton::cli {
namespace {

WallTime at(int ms) { return WallTime(std::chrono::seconds(100)) + std::chrono::milliseconds(ms); }

// A decode worker is killed at 1,000 ms; its stream "a" goes on at 1,150 ms, "b" is elsewhere.
FaultRun killed() {
  FaultRun run;
  run.faults.push_back({.transport = "ucx-posix",
                        .kind = "kill",
                        .worker = "d0",
                        .at = at(1000),
                        .ended = at(1003),
                        .seen_by_router = at(1010),
                        .peers = 2,
                        .seen_by_peers = {at(1004), at(1006)},
                        .back = at(2500)});
  run.moves.push_back({"a", at(1011)});
  run.streams.push_back({.id = "a",
                         .token_times = {at(900), at(960), at(990), at(1012), at(1150), at(1170)},
                         .complete = true});
  run.streams.push_back({.id = "b", .token_times = {at(1000), at(1030)}, .complete = true});
  return run;
}

FaultReport report_of(const FaultRun& run) {
  FaultReport report;
  add_run(report, run);
  return report;
}

TEST(FaultReportTest, MeasuresFromTheSignal) {
  const FaultReport report = report_of(killed());
  const FaultRow& row = report.rows.at({"ucx-posix", "kill"});
  EXPECT_THAT(row.ended.ms, testing::ElementsAre(3));
  EXPECT_THAT(row.router.ms, testing::ElementsAre(10));
  EXPECT_THAT(row.peers.ms, testing::ElementsAre(4, 6));
  EXPECT_THAT(row.recovery.ms, testing::ElementsAre(150));
  EXPECT_THAT(row.gap.ms, testing::ElementsAre(138))
      << "one token was still on its way when the stream was moved";
  EXPECT_THAT(row.back.ms, testing::ElementsAre(1500));
  EXPECT_THAT(report.undisturbed.ms, testing::ElementsAre(30));
  EXPECT_EQ(report.completed, 2);
  EXPECT_EQ(report.moved, 1);
  EXPECT_TRUE(report.good());
}

TEST(FaultReportTest, AStreamWithoutATokenYetRecoversWithItsFirst) {
  FaultRun run = killed();
  run.streams[0].token_times = {at(1300), at(1900)};
  const FaultReport report = report_of(run);
  const FaultRow& row = report.rows.at({"ucx-posix", "kill"});
  EXPECT_THAT(row.recovery.ms, testing::ElementsAre(300));
  EXPECT_TRUE(row.gap.ms.empty());
}

TEST(FaultReportTest, AMoveBelongsToTheLastFaultBefore) {
  FaultRun run = killed();
  run.faults.push_back({.transport = "ucx-posix",
                        .kind = "stop",
                        .worker = "p0",
                        .at = at(1011) + std::chrono::microseconds(400),
                        .seen_by_router = at(2000),
                        .back = at(2600)});
  const FaultReport report = report_of(run);
  EXPECT_EQ(report.rows.at({"ucx-posix", "stop"}).gap.ms.size(), 1u)
      << "log lines are stamped to the millisecond before";
  EXPECT_TRUE(report.rows.at({"ucx-posix", "kill"}).gap.ms.empty());
}

TEST(FaultReportTest, CountsWhatIsNotGood) {
  FaultRun run = killed();
  run.faults[0].seen_by_router.reset();
  EXPECT_FALSE(report_of(run).good());
  run = killed();
  run.faults[0].seen_by_peers.pop_back();
  EXPECT_EQ(report_of(run).rows.at({"ucx-posix", "kill"}).peers.missed, 1);
  EXPECT_FALSE(report_of(run).good());
  run = killed();
  run.streams[1].wrong = true;
  EXPECT_FALSE(report_of(run).good());
  run = killed();
  run.streams[0].complete = false;
  run.streams[0].error = "status 503";
  run.streams[0].token_times.resize(3);
  const FaultReport lost = report_of(run);
  EXPECT_EQ(lost.lost, 1);
  EXPECT_EQ(lost.first_error, "status 503");
  EXPECT_EQ(lost.rows.at({"ucx-posix", "kill"}).recovery.missed, 1);
  EXPECT_FALSE(lost.good());
}

TEST(FaultReportTest, PercentilesAreNearestRanks) {
  Times times;
  EXPECT_EQ(times.percentile(0.5), 0);
  for (int i = 100; i > 0; --i) {
    times.ms.push_back(i);
  }
  EXPECT_EQ(times.percentile(0.5), 50);
  EXPECT_EQ(times.percentile(0.99), 99);
  EXPECT_EQ(times.percentile(1), 100);
}

TEST(FaultReportTest, PrintsOneObjectOrATable) {
  const FaultReport report = report_of(killed());
  const Result<boost::json::object> json = parse_object(faults_json(report));
  ASSERT_TRUE(json.ok()) << faults_json(report);
  const boost::json::object& row = array_of(*json, "faults")->at(0).get_object();
  EXPECT_EQ(text_of(row, "kind"), "kill");
  EXPECT_EQ(number_of(*object_of(row, "detected_by_router_ms"), "p99"), 10);
  EXPECT_EQ(number_of(*object_of(row, "gap_ms"), "p50"), 138);
  EXPECT_EQ(integer_of(*object_of(*json, "streams"), "moved"), 1);
  EXPECT_THAT(faults_table(report),
              testing::HasSubstr("seen by the router                1       0      10.0"));
}

}  // namespace
}  // namespace baton::cli
