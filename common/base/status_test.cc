#include "common/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace baton {
namespace {

TEST(StatusTest, OkIsEmptyAndCheap) {
  const Status ok;
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.to_string(), "ok");
  EXPECT_EQ(sizeof(Status), sizeof(void*));
}

TEST(StatusTest, KeepsCodeWhenContextIsAdded) {
  const Status s = deadline_exceeded("no progress for 2 s").with_context("transfer 17 to d1");
  EXPECT_EQ(s.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(s.to_string(), "deadline_exceeded: transfer 17 to d1: no progress for 2 s");
  EXPECT_TRUE(Status().with_context("x").ok());
}

TEST(StatusTest, EveryCodeHasItsOwnLabelAndSurvivesTheWire) {
  std::set<std::string_view> labels;
  for (uint32_t value = 0; value <= static_cast<uint32_t>(StatusCode::kInternal); ++value) {
    const StatusCode code = status_code_from_wire(value);
    EXPECT_EQ(static_cast<uint32_t>(code), value);
    EXPECT_TRUE(labels.insert(status_code_info(code).label).second) << value;
  }
  EXPECT_EQ(status_code_from_wire(200), StatusCode::kInternal);
}

TEST(StatusTest, CopiesAreIndependent) {
  Status a = not_found("x");
  Status b = a;
  a = Status();
  EXPECT_EQ(b.message(), "x");
  EXPECT_TRUE(a.ok());
}

Result<int> half(int v) {
  if (v % 2 != 0) {
    return invalid_argument("odd");
  }
  return v / 2;
}

Result<int> quarter(int v) {
  BATON_ASSIGN_OR_RETURN(const int h, half(v));
  BATON_ASSIGN_OR_RETURN(const int q, half(h));
  return q;
}

TEST(ResultTest, PropagatesTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "odd");
}

TEST(ResultTest, CarriesMoveOnlyValues) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(3);
  std::unique_ptr<int> p = std::move(r).value();
  EXPECT_EQ(*p, 3);
}

TEST(ResultDeathTest, ReadingAnErrorAbortsWithItsText) {
  EXPECT_DEATH((void)*half(1), "invalid_argument: odd");
}

}  // namespace
}  // namespace baton
