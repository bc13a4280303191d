#include "common/device/compute_team.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <limits>
#include <semaphore>

namespace baton::device {
namespace {

std::unique_ptr<ComputeTeam> make_team(int ranks, int threads, WaitPolicy wait) {
  TeamOptions options;
  options.cpus.assign(static_cast<size_t>(ranks),
                      std::vector<int>(static_cast<size_t>(threads), -1));
  options.wait = wait;
  return ComputeTeam::create(options).value();
}

class ComputeTeamTest : public testing::TestWithParam<WaitPolicy> {};
INSTANTIATE_TEST_SUITE_P(Policies, ComputeTeamTest,
                         testing::Values(WaitPolicy::kSpin, WaitPolicy::kYield));

TEST_P(ComputeTeamTest, EveryThreadRunsTheStepOnceWithItsOwnPlace) {
  const auto team = make_team(2, 3, GetParam());
  EXPECT_EQ(team->ranks(), 2);
  EXPECT_EQ(team->threads_per_rank(), 3);
  std::array<std::atomic<int>, 6> seen{};
  for (int step = 1; step <= 50; ++step) {
    team->run([&](TeamThread& t) {
      EXPECT_EQ(t.ranks, 2);
      EXPECT_EQ(t.threads, 3);
      seen[static_cast<size_t>(t.rank * 3 + t.thread)].fetch_add(1);
    });
    for (const auto& count : seen) {
      EXPECT_EQ(count.load(), step);
    }
  }
}

TEST_P(ComputeTeamTest, BarriersOrderPlainMemoryWithinRankAndTeam) {
  const auto team = make_team(2, 2, GetParam());
  std::array<std::array<int, 2>, 2> cells{};
  std::atomic<int> wrong{0};
  team->run([&](TeamThread& t) {
    for (int round = 1; round <= 200; ++round) {
      cells[static_cast<size_t>(t.rank)][static_cast<size_t>(t.thread)] = round;
      t.rank_barrier();
      wrong += cells[static_cast<size_t>(t.rank)][static_cast<size_t>(1 - t.thread)] != round;
      t.team_barrier();
      for (const auto& rank : cells) {
        wrong += rank[0] != round || rank[1] != round;
      }
      t.team_barrier();
    }
  });
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(ComputeTeamTest, WorkIsHandedOutOncePerRankAndAgainAfterReset) {
  const auto team = make_team(2, 2, GetParam());
  constexpr int kItems = 1000;
  std::vector<std::atomic<int>> done(2 * kItems);
  team->run([&](TeamThread& t) {
    for (int round = 0; round < 3; ++round) {
      for (int i; (i = t.next(1, kItems)) < kItems;) {
        done[static_cast<size_t>(t.rank * kItems + i)].fetch_add(1);
      }
      t.rank_barrier();
      if (t.thread == 0) {
        t.reset_counter(1);
      }
      t.rank_barrier();
    }
  });
  for (const auto& count : done) {
    ASSERT_EQ(count.load(), 3);
  }
}

TEST_P(ComputeTeamTest, DoneMayStartTheNextStep) {
  const auto team = make_team(1, 2, GetParam());
  constexpr int kSteps = 100;
  std::atomic<int> runs{0};
  std::binary_semaphore finished(0);
  int steps = 0;
  std::function<void()> done = [&] {
    if (++steps == kSteps) {
      finished.release();
      return;
    }
    team->start([&](TeamThread&) { runs.fetch_add(1); }, done);
  };
  team->start([&](TeamThread&) { runs.fetch_add(1); }, done);
  finished.acquire();
  EXPECT_EQ(runs.load(), 2 * kSteps);
}

TEST(ComputeTeamTest, ThreadsFlushDenormals) {
  const auto team = make_team(1, 2, WaitPolicy::kYield);
  std::atomic<int> flushed{0};
  team->run([&](TeamThread&) {
    volatile float tiny = std::numeric_limits<float>::min();
    volatile float half = 0.5f;
    volatile float product = tiny * half;
    flushed += product == 0.0f;
  });
  EXPECT_EQ(flushed.load(), 2);
}

TEST(ComputeTeamTest, GuardRestoresTheFloatingPointModeOfItsThread) {
  volatile float tiny = std::numeric_limits<float>::min();
  volatile float half = 0.5f;
  {
    const FlushDenormals guard;
    volatile float product = tiny * half;
    EXPECT_EQ(product, 0.0f);
  }
  volatile float product = tiny * half;
  EXPECT_GT(product, 0.0f);
}

TEST(ComputeTeamTest, ScratchIsAlignedIndependentAndKept) {
  const auto team = make_team(1, 2, WaitPolicy::kYield);
  std::array<std::array<std::byte*, 2>, 2> first{};
  team->run([&](TeamThread& t) {
    for (int slot = 0; slot < 2; ++slot) {
      std::byte* p = t.scratch(slot, 1000);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
      p[0] = static_cast<std::byte>(10 * t.thread + slot);
      first[static_cast<size_t>(t.thread)][static_cast<size_t>(slot)] = p;
    }
  });
  team->run([&](TeamThread& t) {
    for (int slot = 0; slot < 2; ++slot) {
      std::byte* p = t.scratch(slot, 900);
      EXPECT_EQ(p, first[static_cast<size_t>(t.thread)][static_cast<size_t>(slot)]);
      EXPECT_EQ(p[0], static_cast<std::byte>(10 * t.thread + slot));
    }
    EXPECT_NE(t.scratch(0, 1 << 20), nullptr);
  });
}

TEST(ComputeTeamTest, ThreadsAreNamedAndPinned) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) {
    ++cpu;
  }
  TeamOptions options;
  options.cpus = {{cpu}, {cpu}};
  options.wait = WaitPolicy::kYield;
  const auto team = ComputeTeam::create(options).value();
  team->run([&](TeamThread& t) {
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    EXPECT_EQ(std::string(name.data()), "compute-" + std::to_string(t.rank) + ".0");
    cpu_set_t mine;
    EXPECT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
    EXPECT_EQ(CPU_COUNT(&mine), 1);
    EXPECT_TRUE(CPU_ISSET(cpu, &mine));
  });
}

TEST(ComputeTeamTest, ProgressIsCounted) {
  const auto team = make_team(1, 1, WaitPolicy::kYield);
  team->run([&](TeamThread&) { team->note_progress(); });
  EXPECT_EQ(team->progress(), 1u);
}

TEST(ComputeTeamTest, RefusesWrongOptions) {
  TeamOptions options;
  options.cpus = {};
  EXPECT_EQ(ComputeTeam::create(options).status().code(), StatusCode::kInvalidArgument);
  options.cpus = {{-1, -1}, {-1}};
  EXPECT_EQ(ComputeTeam::create(options).status().code(), StatusCode::kInvalidArgument);
  options.cpus = {{-1}};
  options.thread_name = "a very long name";
  EXPECT_EQ(ComputeTeam::create(options).status().code(), StatusCode::kInvalidArgument);
}

TEST(ComputeTeamTest, RefusesACpuOutsideTheMaskByName) {
  TeamOptions options;
  options.cpus = {{CPU_SETSIZE - 1}};
  const Status status = ComputeTeam::create(options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "CPU 1023 is not among the CPUs that this process may use");
}

TEST(ComputeTeamTest, TeamThatNeverRanStops) { make_team(2, 2, WaitPolicy::kSpin).reset(); }

}  // namespace
}  // namespace baton::device
