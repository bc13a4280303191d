#include "deploy/baton/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace baton::cli {
namespace {

constexpr int kLimitMs = 10'000;

bool readable(int fd) {
  pollfd poll_fd = {fd, POLLIN, 0};
  return poll(&poll_fd, 1, kLimitMs) == 1;
}

ChildProcess start(const std::string& script) {
  return ChildProcess::start({"/bin/sh", "-c", script}).value();
}

TEST(ChildProcessTest, TellsHowTheChildEnded) {
  ChildProcess child = start("exit 7");
  ASSERT_TRUE(readable(child.exit_fd()));
  std::optional<ChildExit> exit = child.try_reap();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->to_text(), "exit status 7");
  EXPECT_EQ(child.pid(), 0);
  EXPECT_FALSE(child.try_reap().has_value());
  child.signal(SIGTERM);  // nobody is there any more

  child = start("kill -9 $$");
  ASSERT_TRUE(readable(child.exit_fd()));
  exit = child.try_reap();
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->to_text(), "signal 9 (Killed)");
}

TEST(ChildProcessTest, SaysWhyAProgramCannotBeRun) {
  const Result<ChildProcess> child = ChildProcess::start({"/nonexistent/program"});
  EXPECT_EQ(child.status().message(), "cannot run /nonexistent/program: No such file or directory");
  EXPECT_EQ(ChildProcess::start({"/"}).status().message(), "cannot run /: Permission denied");
}

TEST(ChildProcessTest, KillsTheChildWithItsObject) {
  pid_t pid = 0;
  {
    const ChildProcess child = start("while :; do sleep 1; done");
    pid = child.pid();
    EXPECT_EQ(kill(pid, 0), 0);
    EXPECT_EQ(getpgid(pid), pid);  // a terminal's Ctrl-C does not reach it
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(ChildProcessTest, DiesWithAParentThatIsKilled) {
  int pids[2];
  ASSERT_EQ(pipe(pids), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const ChildProcess child = start("while :; do sleep 1; done");
    const pid_t pid = child.pid();
    [[maybe_unused]] const ssize_t written = write(pids[1], &pid, sizeof(pid));
    pause();
    _exit(0);
  }
  pid_t child = 0;
  ASSERT_EQ(read(pids[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  const int child_fd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  ASSERT_GE(child_fd, 0);
  kill(parent, SIGKILL);
  EXPECT_TRUE(readable(child_fd));
  waitpid(parent, nullptr, 0);
  close(child_fd);
  close(pids[0]);
  close(pids[1]);
}

}  // namespace
}  // namespace baton::cli
