#include "common/device/step_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <random>
#include <vector>

namespace baton::device {
namespace {

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

class StepTableTest : public ::testing::Test {
 protected:
  StepTable table_ = StepTable::create().value();
  FakeClock clock_;
};

TEST_F(StepTableTest, AWorkerIsIdleSomeTimeAfterItsStep) {
  EXPECT_TRUE(table_.idle(1, 3ms, clock_.now()));
  table_.begin(1);
  EXPECT_TRUE(table_.running(1));
  EXPECT_TRUE(table_.any_running());
  EXPECT_FALSE(table_.idle(1, 3ms, clock_.now()));
  table_.begin(1);
  table_.end(1, clock_.now());
  EXPECT_FALSE(table_.running(1));
  EXPECT_FALSE(table_.any_running());
  clock_.advance(2ms);
  EXPECT_FALSE(table_.idle(1, 3ms, clock_.now()));
  clock_.advance(1ms);
  EXPECT_TRUE(table_.idle(1, 3ms, clock_.now()));
  EXPECT_TRUE(table_.idle(0, 3ms, clock_.now()));
}

TEST_F(StepTableTest, AnotherProcessSeesTheSteps) {
  table_.begin(2);
  const pid_t child = fork();
  if (child == 0) {
    Result<StepTable> theirs = StepTable::open(path_of(table_.fd()));
    if (!theirs.ok() || !theirs->running(2) || theirs->running(0)) {
      _exit(1);
    }
    theirs->begin(0);
    _exit(0);  // killed in its step, as it were
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(table_.running(0));
  table_.release(0);
  EXPECT_FALSE(table_.running(0));
  EXPECT_TRUE(table_.idle(0, 1h, clock_.now()));
}

TEST_F(StepTableTest, TellsTheLongestThatWaitsElsewhere) {
  EXPECT_EQ(table_.longest_waiting(0), 0ms);
  table_.set_waiting(1, 300ms);
  table_.set_waiting(StepTable::kMaxSlots - 1, 200ms);
  EXPECT_EQ(table_.longest_waiting(0), 300ms);
  EXPECT_EQ(table_.longest_waiting(1), 200ms);
  table_.release(1);
  EXPECT_EQ(table_.longest_waiting(0), 200ms);
}

TEST_F(StepTableTest, AnOwnerThatGivesWayIsIdleAtOnce) {
  table_.begin(1);
  table_.end(1, clock_.now());
  EXPECT_FALSE(table_.idle(1, 3ms, clock_.now()));
  table_.release(1);
  EXPECT_TRUE(table_.idle(1, 3ms, clock_.now()));
}

TEST_F(StepTableTest, WhoRestsMayStillHaveWhatWaits) {
  table_.set_waiting(1, 300ms);
  table_.begin(1);
  table_.rest(1);
  EXPECT_TRUE(table_.idle(1, 1h, clock_.now()));
  EXPECT_EQ(table_.longest_waiting(0), 300ms);
}

TEST_F(StepTableTest, ARestWakesBorrowersOfOtherProcesses) {
  table_.begin(1);
  const uint32_t seen = table_.rests(1);
  const pid_t child = fork();
  if (child == 0) {
    const StepTable theirs = StepTable::open(path_of(table_.fd())).value();
    theirs.wait_for_rest(1, seen, 1h);
    _exit(theirs.rests(1) == seen + 1 && theirs.idle(1, 1h, TimePoint()) ? 0 : 1);
  }
  table_.rest(1);
  int status = -1;
  waitpid(child, &status, 0);  // ends, whichever came first
  EXPECT_EQ(status, 0);
}

TEST_F(StepTableTest, ABorrowerWaitsNoLongerThanItsLimit) {
  table_.begin(1);
  table_.wait_for_rest(1, table_.rests(1), 1ms);
  EXPECT_TRUE(table_.running(1));
}

TEST_F(StepTableTest, NobodyCanShortenIt) {
  EXPECT_NE(ftruncate(table_.fd(), 0), 0);
  EXPECT_NE(ftruncate(table_.fd(), 1 << 20), 0);
}

TEST_F(StepTableTest, GarbageMakesAWorkerBusyOrIdleAndNothingElse) {
  void* memory = mmap(nullptr, 4160, PROT_READ | PROT_WRITE, MAP_SHARED, table_.fd(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    for (int i = 8; i < 4160 / 8; ++i) {
      static_cast<uint64_t*>(memory)[i] = random();
    }
    for (int slot = 0; slot < StepTable::kMaxSlots; ++slot) {
      EXPECT_FALSE(table_.running(slot) && table_.idle(slot, 3ms, clock_.now()));
    }
  }
  static_cast<int64_t*>(memory)[8] = 0;  // the first slot has ended a step
  for (const int64_t ended :
       {std::numeric_limits<int64_t>::min(), int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    static_cast<int64_t*>(memory)[9] = ended;
    EXPECT_EQ(table_.idle(0, 3ms, clock_.now()), ended < 0) << ended;
  }
  munmap(memory, 4160);
}

TEST(StepTableOpenTest, RefusesWhatIsNoTable) {
  EXPECT_EQ(StepTable::open("/no/such/file").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(StepTable::open("/dev/null").status().code(), StatusCode::kInvalidArgument);
  // The right size, even the right content, but somebody could shorten it.
  const int fd = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(fd, 0);
  const StepTable table = StepTable::create().value();
  std::vector<char> content(4160);
  ASSERT_EQ(pread(table.fd(), content.data(), content.size(), 0), 4160);
  ASSERT_EQ(pwrite(fd, content.data(), content.size(), 0), 4160);
  EXPECT_EQ(StepTable::open(path_of(fd)).status().code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(StepTable::open(path_of(fd)).ok());
  ASSERT_EQ(pwrite(fd, "NOTATAB", 7, 0), 7);
  EXPECT_EQ(StepTable::open(path_of(fd)).status().message(),
            path_of(fd) + " is not a table of running steps");
  close(fd);
}

TEST(StepTableOpenTest, MovesLeaveNothingBehind) {
  StepTable a = StepTable::create().value();
  a.begin(1);
  StepTable b = std::move(a);
  EXPECT_TRUE(b.running(1));
  b = StepTable::create().value();
  EXPECT_FALSE(b.running(0));
}

}  // namespace
}  // namespace baton::device
