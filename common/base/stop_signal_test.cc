#include "common/base/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace baton {
namespace {

bool blocked(int signal_number) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal_number) == 1;
}

TEST(StopSignalTest, TheFirstSignalIsReadAndTheSecondWouldEndTheProcess) {
  const int fd = block_stop_signals();
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(blocked(SIGINT));
  EXPECT_TRUE(blocked(SIGTERM));
  EXPECT_FALSE(take_stop_signal(fd));
  EXPECT_TRUE(blocked(SIGTERM));
  raise(SIGTERM);
  EXPECT_TRUE(take_stop_signal(fd));
  EXPECT_FALSE(blocked(SIGINT));
  EXPECT_FALSE(blocked(SIGTERM));
  close(fd);
}

TEST(StopSignalTest, NoDescriptorMeansNoSignal) { EXPECT_FALSE(take_stop_signal(-1)); }

}  // namespace
}  // namespace baton
