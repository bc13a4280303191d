#include "deploy/baton/serve_bench/progress.h"

#include <gtest/gtest.h>

namespace baton::serve_bench {
namespace {

TEST(ProgressTest, ShowsTheShareOfTimeOrOfRequests) {
  const RunProgress progress{
      .elapsed = 30s, .sent = 128, .done = 118, .failed = 2, .running = 8, .ttft_p50 = 132ms};
  EXPECT_EQ(progress_line(progress, {.window = 60s}),
            "[##########----------]  50 %  done 118  failed 2  running 8  TTFT p50 132 ms");
  EXPECT_EQ(progress_line(progress, {.requests = 120, .label = "8 clients"}),
            "8 clients  [####################] 100 %  done 118  failed 2  running 8  TTFT p50 132 "
            "ms");
  EXPECT_EQ(progress_line({.elapsed = 90s}, {.window = 60s}),
            "[####################] 100 %  done 0  failed 0  running 0")
      << "the last answers come after the window";
  EXPECT_EQ(progress_line({}, {}), "[--------------------]   0 %  done 0  failed 0  running 0");
}

}  // namespace
}  // namespace baton::serve_bench
