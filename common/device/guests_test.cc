// Threads on borrowed CPUs, through the team that they belong to.

#include "common/device/guests.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <fstream>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "common/device/compute_team.h"

namespace baton::device {
namespace {

constexpr int kOwn = 0;     // slot of the team
constexpr int kLender = 1;  // slot of the CPU's owner
constexpr Duration kLimit = 20s;

std::vector<int> usable_cpus() {
  cpu_set_t allowed;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

TimePoint now() { return std::chrono::steady_clock::now(); }

void burn(Duration time) {
  for (const TimePoint until = now() + time; now() < until;) {
  }
}

// CPU time of the thread of this process that has the name.
Duration cpu_time_of(const std::string& name) {
  Duration sum{0};
  DIR* folder = opendir("/proc/self/task");
  while (const dirent* entry = readdir(folder)) {
    const std::string path = std::string("/proc/self/task/") + entry->d_name;
    std::string comm;
    std::getline(std::ifstream(path + "/comm"), comm);
    int64_t ns = 0;
    if (comm == name && std::ifstream(path + "/schedstat") >> ns) {
      sum += Duration(ns);
    }
  }
  closedir(folder);
  return sum;
}

class GuestsTest : public ::testing::Test {
 protected:
  static constexpr int kRegions = 12;
  static constexpr int kItems = 16;

  GuestsTest() {
    TeamOptions options;
    options.cpus = {{cpus_.front()}};
    options.steps = &table_;
    options.slot = kOwn;
    options.borrowed = {{.cpu = cpus_.back(), .idle = {kLender}}};
    team_ = ComputeTeam::create(options).value();
    team_->set_guest_step([this](TeamThread& guest) { step(guest); });
  }

  // Every thread's part of a step: in each region items are shared out, and the own thread alone
  // looks at the result afterwards.
  void step(TeamThread& t) {
    for (int region = 0; region < kRegions; ++region) {
      if (t.thread == 0) {
        t.reset_counter((region + 4) % TeamThread::kCounters);
      }
      if (t.present()) {
        for (int i; (i = t.next(region % TeamThread::kCounters, kItems)) < kItems;) {
          sums_[static_cast<size_t>(i)] += seed_ + region;  // plain memory
          burn(item_time_);
          (t.guest ? guest_items_ : own_items_).fetch_add(1, std::memory_order_relaxed);
        }
      }
      t.rank_barrier();
    }
  }

  void run_step() {
    ++seed_;
    team_->start_with_guests([this](TeamThread& t) { step(t); }, [this] { done_.release(); });
    done_.acquire();
    for (int region = 0; region < kRegions; ++region) {
      expected_ += seed_ + region;
    }
    for (const int64_t sum : sums_) {
      ASSERT_EQ(sum, expected_);  // each item once, whoever did it
    }
  }

  const std::vector<int> cpus_ = usable_cpus();
  StepTable table_ = StepTable::create().value();
  std::array<int64_t, kItems> sums_{};
  int64_t expected_ = 0;
  int64_t seed_ = 0;
  Duration item_time_ = 5us;
  std::atomic<int64_t> guest_items_{0}, own_items_{0};
  std::binary_semaphore done_{0};
  std::unique_ptr<ComputeTeam> team_;  // last: its threads use the others
};

TEST_F(GuestsTest, TakesPartWhileTheOwnerIsIdle) {
  EXPECT_EQ(team_->guests(), 1);
  const TimePoint until = now() + kLimit;
  double seconds = 0;
  while ((guest_items_ < 100 || seconds == 0) && now() < until) {
    run_step();
    seconds += team_->borrowed_seconds();
  }
  EXPECT_GE(guest_items_.load(), 100);
  EXPECT_GT(own_items_.load(), 0);
  EXPECT_GT(seconds, 0);
  EXPECT_FALSE(table_.running(kOwn));
  team_->run([](TeamThread& t) { EXPECT_FALSE(t.guest); });  // an ordinary step is without guests
  EXPECT_EQ(team_->borrowed_seconds(), 0);
}

TEST_F(GuestsTest, SleepsWhileTheOwnerIsBusy) {
  table_.begin(kLender);
  run_step();  // the thread is there now
  const Duration before = cpu_time_of("compute-g0");
  const TimePoint begin = now();
  while (now() - begin < 300ms) {
    run_step();
    EXPECT_EQ(team_->borrowed_seconds(), 0);
  }
  EXPECT_EQ(guest_items_.load(), 0);
  EXPECT_LT(cpu_time_of("compute-g0") - before, (now() - begin) / 10);
}

TEST_F(GuestsTest, ComesBackWhenTheOwnerIsGone) {
  table_.begin(kLender);
  run_step();
  EXPECT_EQ(guest_items_.load(), 0);
  table_.release(kLender);  // killed, and noticed
  const TimePoint until = now() + kLimit;
  while (guest_items_ == 0 && now() < until) {
    run_step();
  }
  EXPECT_GT(guest_items_.load(), 0);
}

TEST_F(GuestsTest, LeavesInTheMiddleOfAStep) {
  item_time_ = 200us;  // 40 ms a step
  const TimePoint until = now() + kLimit;
  int64_t after = -1;
  while (after < 0 && now() < until) {
    std::atomic<bool> over{false};
    std::jthread owner([&] {
      const int64_t before = guest_items_.load();
      while (guest_items_.load() == before && !over) {
        std::this_thread::yield();
      }
      if (!over) {
        table_.begin(kLender);
        burn(1ms);  // the item that was under way
        after = guest_items_.load();
      }
    });
    run_step();
    over = true;
    owner.join();
  }
  ASSERT_GE(after, 0);
  EXPECT_LE(guest_items_.load(), after + 1);
  EXPECT_LT(guest_items_.load(), kRegions * kItems);
}

TEST_F(GuestsTest, ResultsAreTheSameHoweverTheOwnerComesAndGoes) {
  std::atomic<bool> stop{false};
  std::jthread owner([&] {
    std::mt19937 random(3);
    while (!stop) {
      table_.begin(kLender);
      burn(std::chrono::microseconds(random() % 300));
      table_.release(kLender);
      burn(std::chrono::microseconds(random() % 700));
    }
  });
  item_time_ = 2us;
  for (int i = 0; i < 1500; ++i) {
    run_step();
  }
  stop = true;
}

// A foreign program takes the CPU from a guest in the middle of an item: the team's own CPU, which
// would only wait, finishes it.
TEST_F(GuestsTest, AnItemWhoseCpuIsTakenIsFinishedOnTheTeamsOwn) {
  const TimePoint until = now() + kLimit;
  int rescued_on = -1;
  while (rescued_on < 0 && now() < until) {
    std::atomic<bool> item_begun{false}, item_over{false};
    std::jthread foreign([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpus_.back(), &one);
      sched_setaffinity(0, sizeof(one), &one);
      while (!item_begun && now() < until) {
        std::this_thread::sleep_for(100us);
      }
      while (!item_over && now() < until) {
      }
    });
    const auto long_item = [&](TeamThread& t) {
      if (t.guest && t.present()) {
        item_begun = true;
        const Duration from = cpu_time_of("compute-g0");
        while (cpu_time_of("compute-g0") - from < 20ms) {
        }
        rescued_on = sched_getcpu();
      }
      t.rank_barrier();
    };
    // The guest has the only item; the own thread waits for it at the barrier.
    TeamOptions options;
    options.cpus = {{cpus_.front()}};
    options.steps = &table_;
    options.borrowed = {{.cpu = cpus_.back(), .idle = {kLender}}};
    const auto team = ComputeTeam::create(options).value();
    team->set_guest_step(long_item);
    team->start_with_guests(
        [&](TeamThread& t) {
          burn(2ms);  // so that the guest comes in time
          t.rank_barrier();
        },
        [this] { done_.release(); });
    done_.acquire();
    item_begun = item_over = true;
  }
  EXPECT_EQ(rescued_on, cpus_.front());
}

TEST(GuestOptionsTest, RefusesWhatCannotBorrow) {
  StepTable table = StepTable::create().value();
  const int cpu = usable_cpus().front();
  const auto code = [](const TeamOptions& options) {
    return ComputeTeam::create(options).status().code();
  };
  TeamOptions good;
  good.cpus = {{cpu}};
  good.steps = &table;
  good.borrowed = {{.cpu = cpu, .idle = {1}}};
  EXPECT_EQ(code(good), StatusCode::kOk);
  TeamOptions bad = good;
  bad.steps = nullptr;
  EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.slot = StepTable::kMaxSlots;
  EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.borrowed[0].idle = {};
  EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.borrowed[0].idle = {-1};
  EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.borrowed[0].cpu = CPU_SETSIZE - 1;
  EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.cpus = {{cpu}, {cpu}};
  EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.cpus = {{-1}};
  EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
  bad = good;
  bad.wait = WaitPolicy::kYield;
  EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::device
