#include "common/base/fault_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace baton {
namespace {

using testing::HasSubstr;

std::unique_ptr<FaultPlan> plan(std::string_view spec, std::string_view process = "p0") {
  SeededRandom random(1);
  return FaultPlan::create(spec, process, random).value();
}

std::vector<FaultKind> first(FaultPlan& of, FaultPoint point, int count) {
  std::vector<FaultKind> kinds;
  for (int i = 0; i < count; ++i) {
    kinds.push_back(of.at(point).kind);
  }
  return kinds;
}

TEST(FaultPlanTest, ASeedRepeatsItsChoicesAtEveryPoint) {
  const auto one = plan("7:3");
  const auto same = plan("7:3");
  // However the points take turns.
  const std::vector<FaultKind> data = first(*one, FaultPoint::kData, 5'000);
  const std::vector<FaultKind> link = first(*one, FaultPoint::kPeerLink, 5'000);
  EXPECT_EQ(first(*same, FaultPoint::kPeerLink, 5'000), link);
  EXPECT_EQ(first(*same, FaultPoint::kData, 5'000), data);
  for (const auto& [spec, process] : {std::pair{"8:3", "p0"}, {"7:4", "p0"}, {"7:3", "d0"}}) {
    EXPECT_NE(first(*plan(spec, process), FaultPoint::kPeerLink, 5'000), link) << spec << process;
  }
}

TEST(FaultPlanTest, SaysWhatRepeatsALife) {
  const auto life = plan("7");
  EXPECT_THAT(life->replay(), testing::MatchesRegex("7:[0-9]+"));
  const auto again = plan(life->replay());
  EXPECT_EQ(again->replay(), life->replay());
  EXPECT_EQ(first(*again, FaultPoint::kPeerLink, 3'000),
            first(*life, FaultPoint::kPeerLink, 3'000));
}

TEST(FaultPlanTest, EveryPointHasItsFaultsAndMostlyNone) {
  const auto of = plan("5:1");
  std::map<std::pair<FaultPoint, FaultKind>, int> seen;
  for (int i = 0; i < 60'000; ++i) {
    for (int point = 0; point < kFaultPointCount; ++point) {
      const auto at = static_cast<FaultPoint>(point);
      const FaultChoice choice = of->at(at);
      ++seen[{at, choice.kind}];
      const bool waits = choice.kind == FaultKind::kDelay || choice.kind == FaultKind::kReorder;
      EXPECT_EQ(choice.delay > 0ns, waits);
    }
  }
  EXPECT_EQ(seen.size(), 5u + 20u) << "no fault at each of five points, and 20 kinds of one";
  for (int point = 0; point < kFaultPointCount; ++point) {
    EXPECT_GT((seen[{static_cast<FaultPoint>(point), FaultKind::kNone}]), 50'000);
  }
  EXPECT_EQ(seen.count({FaultPoint::kRouterLink, FaultKind::kDrop}), 0u);
}

TEST(FaultPlanTest, RefusesWhatIsNoSeed) {
  SeededRandom random(1);
  for (const char* spec : {"", "x", "7:", ":3", "7:3:4", "-1", "1e3", "99999999999999999999"}) {
    const auto made = FaultPlan::create(spec, "p0", random);
    ASSERT_FALSE(made.ok()) << spec;
    EXPECT_THAT(made.status().message(), HasSubstr("is not SEED or SEED:LIFE"));
  }
}

}  // namespace
}  // namespace baton
