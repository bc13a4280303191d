#include "common/base/host_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace baton {
namespace {

TEST(HostIdentityTest, KnowsThisProcess) {
  const HostIdentity self = this_process();
  EXPECT_EQ(self.pid, static_cast<uint32_t>(getpid()));
  EXPECT_TRUE(self.shares_pids(this_process()));
  EXPECT_TRUE(self.shares_memory(this_process()));
  EXPECT_TRUE(self.shares_network(this_process()));
}

TEST(HostIdentityTest, AnotherNamespaceIsNotShared) {
  const HostIdentity self = this_process();
  HostIdentity other = self;
  other.pid_namespace = "pid:[1]";
  EXPECT_FALSE(self.shares_pids(other));
  EXPECT_FALSE(self.shares_memory(other)) << "UCX finds shared memory by pid";
  EXPECT_TRUE(self.shares_network(other));
  other = self;
  other.shared_memory = "26:1:0";
  EXPECT_TRUE(self.shares_pids(other));
  EXPECT_FALSE(self.shares_memory(other));
  other = self;
  other.network_namespace = "net:[1]";
  EXPECT_TRUE(self.shares_memory(other));
  EXPECT_FALSE(self.shares_network(other));
  other = self;
  other.boot_id = "elsewhere";
  EXPECT_FALSE(self.shares_pids(other));
  EXPECT_FALSE(self.shares_memory(other));
  EXPECT_FALSE(self.shares_network(other));
}

TEST(HostIdentityTest, WhatIsUnknownIsNotShared) {
  const HostIdentity unknown;
  EXPECT_FALSE(unknown.shares_pids(unknown));
  EXPECT_FALSE(unknown.shares_memory(unknown));
  EXPECT_FALSE(unknown.shares_network(unknown));
}

TEST(ProcessWatchTest, SeesAProcessEnd) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  ASSERT_GT(child, 0);
  const Result<ProcessWatch> watch = ProcessWatch::open(static_cast<uint32_t>(child));
  ASSERT_TRUE(watch.ok()) << watch.status().to_string();
  EXPECT_FALSE(watch->ended());
  EXPECT_GE(watch->poll_fd(), 0);
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(watch->ended()) << "a zombie counts as ended";
  waitpid(child, nullptr, 0);
}

TEST(ProcessWatchTest, NoProcessNoWatch) {
  EXPECT_EQ(ProcessWatch::open(0x7FFFFFFE).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ProcessWatch().ended());
}

}  // namespace
}  // namespace baton
