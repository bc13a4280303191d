#include "deploy/baton/terminal_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace baton::cli {
namespace {

bool blocked(int number) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, number) == 1;
}

TEST(TerminalSignalsTest, TakesEverySignalOneByOne) {
  TerminalSignals signals;
  EXPECT_EQ(signals.take(), 0);
  for (const int number : {SIGINT, SIGINT, SIGTERM, SIGINT}) {
    raise(number);
    EXPECT_EQ(signals.wait(5s), WokenBy::kSignal);
    EXPECT_EQ(signals.take(), number);
    EXPECT_EQ(signals.take(), 0);
  }
}

TEST(TerminalSignalsTest, WaitsForInputOrTheLimitToo) {
  TerminalSignals signals;
  EXPECT_EQ(signals.wait(1ms), WokenBy::kTime);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(signals.wait(10s, ends[0]), WokenBy::kInput);
  raise(SIGINT);
  EXPECT_EQ(signals.wait(10s, ends[0]), WokenBy::kSignal);
  close(ends[0]);
  close(ends[1]);
}

TEST(TerminalSignalsTest, LeavesNothingBehind) {
  {
    TerminalSignals signals;
    EXPECT_TRUE(blocked(SIGINT));
    raise(SIGINT);
  }
  EXPECT_FALSE(blocked(SIGINT)) << "and the signal that nobody took did not end the process";
  EXPECT_FALSE(blocked(SIGTERM));
}

}  // namespace
}  // namespace baton::cli
