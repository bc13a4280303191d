#include "common/config/effective.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace baton::config {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Config cluster(const std::vector<std::string>& prefill_cpus,
               const std::vector<std::string>& decode_cpus) {
  Config config;
  for (const std::string& cpus : prefill_cpus) {
    Worker& worker = config.prefill.emplace_back();
    worker.name = "p" + std::to_string(config.prefill.size() - 1);
    worker.cpus = cpus;
  }
  for (const std::string& cpus : decode_cpus) {
    Worker& worker = config.decode.emplace_back();
    worker.name = "d" + std::to_string(config.decode.size() - 1);
    worker.cpus = cpus;
  }
  return config;
}

TEST(EffectiveTest, CutsTheCpusIntoContiguousRanges) {
  const Config config = cluster({"auto", "auto"}, {"auto"});
  const Machine machine{{0, 1, 2, 3, 8, 9, 10, 11}, 0, 1ull << 30};
  const auto d0 = effective_cpus(config, config.decode[0], machine);
  const auto p0 = effective_cpus(config, config.prefill[0], machine);
  const auto p1 = effective_cpus(config, config.prefill[1], machine);
  ASSERT_TRUE(d0.ok() && p0.ok() && p1.ok());
  EXPECT_THAT(d0->cpus, ElementsAre(0, 1));
  EXPECT_THAT(p0->cpus, ElementsAre(2, 3, 8));
  EXPECT_THAT(p1->cpus, ElementsAre(9, 10, 11));
  EXPECT_FALSE(d0->shared || p0->shared || p1->shared);
}

TEST(EffectiveTest, GivesEachOfTwoWorkersOneOfTwoCpus) {
  const Config config = cluster({"auto"}, {"auto"});
  const Machine machine{{0, 1}, 0, 1ull << 30};
  EXPECT_THAT(effective_cpus(config, config.decode[0], machine)->cpus, ElementsAre(0));
  EXPECT_THAT(effective_cpus(config, config.prefill[0], machine)->cpus, ElementsAre(1));
}

TEST(EffectiveTest, WorkersTakeTurnsWhenCpusAreFew) {
  const Config config = cluster({"auto", "auto"}, {"auto", "auto"});
  const Machine machine{{4, 5}, 0, 1ull << 30};
  EXPECT_THAT(effective_cpus(config, config.decode[0], machine)->cpus, ElementsAre(4));
  EXPECT_THAT(effective_cpus(config, config.decode[1], machine)->cpus, ElementsAre(5));
  EXPECT_THAT(effective_cpus(config, config.prefill[0], machine)->cpus, ElementsAre(4));
  const auto p1 = effective_cpus(config, config.prefill[1], machine);
  EXPECT_THAT(p1->cpus, ElementsAre(5));
  EXPECT_TRUE(p1->shared);
  EXPECT_FALSE(effective_spinning(config.prefill[1], *p1));
}

TEST(EffectiveTest, KeepsToTheQuota) {
  const Config config = cluster({}, {"auto"});
  const Machine machine{{0, 1, 2, 3}, 1.5, 1ull << 30};
  EXPECT_THAT(effective_cpus(config, config.decode[0], machine)->cpus, ElementsAre(0, 1));
}

TEST(EffectiveTest, AWorkerWithAMachineOfItsOwnHasAllOfIt) {
  Config config = cluster({"auto"}, {"auto"});
  config.workers.share_machine = false;
  const Machine machine{{4, 5, 6, 7}, 4, 64ull << 30};
  const auto p0 = effective_cpus(config, config.prefill[0], machine);
  ASSERT_TRUE(p0.ok());
  EXPECT_THAT(p0->cpus, ElementsAre(4, 5, 6, 7));
  EXPECT_FALSE(p0->shared);
  EXPECT_EQ(effective_kv_cache_bytes(config, config.prefill[0], machine, 1), 4ull << 30);
}

TEST(EffectiveTest, AQuotaOfAMachineOfOthersLeavesThreadsUnpinned) {
  Config config = cluster({"auto"}, {"1,2"});
  config.workers.share_machine = false;
  const Machine machine{{0, 1, 2, 3}, 1.5, 1ull << 30};
  const auto p0 = effective_cpus(config, config.prefill[0], machine);
  ASSERT_TRUE(p0.ok());
  EXPECT_THAT(p0->cpus, ElementsAre(-1, -1));
  EXPECT_FALSE(effective_spinning(config.prefill[0], *p0));
  EXPECT_THAT(effective_cpus(config, config.decode[0], machine)->cpus, ElementsAre(1, 2));
}

TEST(EffectiveTest, LeavesNamedCpusToTheirWorkers) {
  const Config config = cluster({"0-1"}, {"auto", "auto"});
  const Machine machine{{0, 1, 2, 3}, 0, 1ull << 30};
  EXPECT_THAT(effective_cpus(config, config.prefill[0], machine)->cpus, ElementsAre(0, 1));
  EXPECT_THAT(effective_cpus(config, config.decode[0], machine)->cpus, ElementsAre(2));
  EXPECT_THAT(effective_cpus(config, config.decode[1], machine)->cpus, ElementsAre(3));
}

TEST(EffectiveTest, SharesWhenEveryCpuIsNamed) {
  const Config config = cluster({"0,1"}, {"auto"});
  const Machine machine{{0, 1}, 0, 1ull << 30};
  const auto d0 = effective_cpus(config, config.decode[0], machine);
  EXPECT_THAT(d0->cpus, ElementsAre(0, 1));
  EXPECT_TRUE(d0->shared);
}

class LendingTest : public ::testing::Test {
 protected:
  // "cpu:slots that must be idle" of each borrowed CPU.
  static std::string borrowed(Config config, const std::string& name, const Machine& machine,
                              const std::string& table = "/proc/7/fd/5") {
    config.workers.lend_cpus = table;
    const std::vector<Worker>& list = name[0] == 'p' ? config.prefill : config.decode;
    const auto worker = std::ranges::find(list, name, &Worker::name);
    const CpuLending lending = effective_lending(config, *worker, machine).value();
    std::string out = lending.table.empty() ? "no table" : std::to_string(lending.slot);
    for (const LentCpu& lent : lending.borrowed) {
      out += " " + std::to_string(lent.cpu) + ":";
      for (const int slot : lent.idle) {
        out += std::to_string(slot);
      }
    }
    return out;
  }
  const Machine machine_{{0, 1, 2, 3}, 0, 1ull << 30};
};

TEST_F(LendingTest, EachBorrowsWhatTheOtherHas) {
  const Config config = cluster({"auto"}, {"auto"});
  EXPECT_EQ(borrowed(config, "d0", machine_), "0 2:1 3:1");
  EXPECT_EQ(borrowed(config, "p0", machine_), "1 0:0 1:0");
  EXPECT_EQ(lending_slot(config, "p0"), 1);
  EXPECT_EQ(lending_slot(config, "router"), std::nullopt);
}

TEST_F(LendingTest, OfSeveralTheFirstThatComputesBorrows) {
  const Config config = cluster({"auto", "auto"}, {"auto", "auto"});
  EXPECT_EQ(borrowed(config, "d0", machine_), "0 1:1 2:2 3:3");
  EXPECT_EQ(borrowed(config, "d1", machine_), "1 0:0 2:20 3:30");
  EXPECT_EQ(borrowed(config, "p1", machine_), "3 0:012 1:102 2:201");
}

TEST_F(LendingTest, NobodyBorrowsWithoutATableOrOnMachinesOfTheirOwn) {
  Config config = cluster({"auto"}, {"auto"});
  EXPECT_EQ(borrowed(config, "d0", machine_, "auto"), "no table");
  EXPECT_EQ(borrowed(config, "d0", machine_, "off"), "no table");
  config.workers.share_machine = false;
  EXPECT_EQ(borrowed(config, "d0", machine_), "no table");
}

TEST_F(LendingTest, ListsAreForTheirWorkersAlone) {
  const Config config = cluster({"3", "auto"}, {"auto"});
  EXPECT_EQ(borrowed(config, "d0", machine_), "0 1:2 2:2");
  EXPECT_EQ(borrowed(config, "p0", machine_), "1");
}

TEST_F(LendingTest, WhoSharesYieldsOrHasRanksDoesNotBorrow) {
  const Machine two{{0, 1}, 0, 1ull << 30};
  EXPECT_EQ(borrowed(cluster({"auto", "auto"}, {"auto", "auto"}), "d0", two), "0");
  Config config = cluster({"auto"}, {"auto"});
  config.decode[0].waiting = Waiting::kYield;
  EXPECT_EQ(borrowed(config, "d0", two), "0");
  EXPECT_EQ(borrowed(config, "p0", two), "1 0:0");
  config = cluster({"auto"}, {"auto"});
  config.decode[0].tensor_parallel = 2;
  EXPECT_EQ(borrowed(config, "d0", machine_), "0");
  EXPECT_EQ(borrowed(config, "p0", machine_), "1 0:0 1:0");
}

TEST(EffectiveTest, RefusesACpuOutsideTheMaskByName) {
  const Config config = cluster({"2,7"}, {"auto"});
  const Machine machine{{0, 1, 2, 3, 6}, 0, 1ull << 30};
  EXPECT_EQ(effective_cpus(config, config.prefill[0], machine).status().message(),
            "cpus of p0: CPU 7 is not one that this process may use; those are 0-3,6");
}

TEST(EffectiveTest, FollowsAnExplicitWaiting) {
  Worker worker;
  WorkerCpus shared{{0}, true};
  WorkerCpus own{{0}, false};
  EXPECT_FALSE(effective_spinning(worker, shared));
  EXPECT_TRUE(effective_spinning(worker, own));
  worker.waiting = Waiting::kSpin;
  EXPECT_TRUE(effective_spinning(worker, shared));
  worker.waiting = Waiting::kYield;
  EXPECT_FALSE(effective_spinning(worker, own));
}

TEST(EffectiveTest, SizesTheKvCache) {
  Config config = cluster({"auto"}, {"auto"});
  const Machine machine{{0}, 0, 8ull << 30};
  Worker& worker = config.decode[0];
  EXPECT_EQ(effective_kv_cache_bytes(config, worker, machine, 1000), 256ull << 20);
  EXPECT_EQ(effective_kv_cache_bytes(config, worker, {{0}, 0, 100 << 20}, 1000), 64ull << 20);
  worker.kv_cache = {KvCacheSize::Unit::kBytes, 12345};
  EXPECT_EQ(effective_kv_cache_bytes(config, worker, machine, 1000), 12345u);
  worker.kv_cache = {KvCacheSize::Unit::kBlocks, 64};
  EXPECT_EQ(effective_kv_cache_bytes(config, worker, machine, 1000), 64'000u);
  worker.kv_cache = {KvCacheSize::Unit::kBlocks, UINT64_MAX};
  EXPECT_EQ(effective_kv_cache_bytes(config, worker, machine, 1000), UINT64_MAX);
}

TEST(EffectiveTest, SegmentsAreTheLeastCommonMultipleOfTheDegrees) {
  Config config = cluster({"auto"}, {"auto", "auto"});
  EXPECT_EQ(effective_reduction_segments(config), 1);
  config.prefill[0].tensor_parallel = 2;
  config.decode[1].tensor_parallel = 4;
  EXPECT_EQ(effective_reduction_segments(config), 4);
  config.reduction_segments = 8;
  EXPECT_EQ(effective_reduction_segments(config), 8);
}

TEST(EffectiveTest, ReadsCpuLists) {
  EXPECT_THAT(*parse_cpu_list("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(*parse_cpu_list("5,2,2-3"), ElementsAre(2, 3, 5));
  for (const char* bad : {"", "a", "1-", "-1", "3-1", "1,", ",1", "4096", "0-99999999999", "1 2"}) {
    EXPECT_FALSE(parse_cpu_list(bad).ok()) << bad;
  }
}

// ---- the machine

class MachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/baton_machine_" + std::to_string(getpid());
    std::filesystem::remove_all(root_);
    write("/proc/meminfo",
          "MemTotal:        8388608 kB\nMemFree: 1 kB\nMemAvailable: 6291456 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(MachineTest, ReadsThisMachine) {
  const Result<Machine> machine = read_machine();
  ASSERT_TRUE(machine.ok()) << machine.status().to_string();
  EXPECT_FALSE(machine->cpus.empty());
  EXPECT_GT(machine->memory_bytes, 64u << 20);
}

TEST_F(MachineTest, HasNoLimitsWithoutCgroups) {
  const Result<Machine> machine = read_machine(root_);
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->cpu_quota, 0);
  EXPECT_EQ(machine->memory_bytes, 8ull << 30);
  EXPECT_EQ(machine->memory_available_bytes, 6ull << 30);
}

TEST_F(MachineTest, TakesTheTightestLimitOfVersion2) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  write("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/a/memory.current", "536870912\n");
  write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 268435456\nactive_file 7\n");
  const Result<Machine> machine = read_machine(root_);
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->cpu_quota, 1.5);
  EXPECT_EQ(machine->memory_bytes, 1ull << 30);
  EXPECT_EQ(machine->memory_available_bytes, 768ull << 20) << "file cache can be taken back";
}

TEST_F(MachineTest, ReadsVersion1) {
  write("/proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n0::/\n");
  // A container sees its own group at the root of the mount.
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  write("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 1048576\n");
  const Result<Machine> machine = read_machine(root_);
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->cpu_quota, 2);
  EXPECT_EQ(machine->memory_bytes, 2ull << 30);
  EXPECT_EQ(machine->memory_available_bytes, 1025ull << 20);
}

TEST_F(MachineTest, UnlimitedVersion1IsNoLimit) {
  write("/proc/self/cgroup", "4:cpu:/\n3:memory:/\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const Result<Machine> machine = read_machine(root_);
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->cpu_quota, 0);
  EXPECT_EQ(machine->memory_bytes, 8ull << 30);
}

TEST(EffectiveTest, PackedWeightsLieBesideTheModelOrInTheUsersCache) {
  Config config;
  config.model.path = "models/a.gguf";
  config.model.packed_cache = "off";
  EXPECT_THAT(effective_packed_folders(config), IsEmpty());
  config.model.packed_cache = "/var/cache/baton";
  EXPECT_THAT(effective_packed_folders(config), ElementsAre("/var/cache/baton"));
  config.model.packed_cache = "auto";
  setenv("HOME", "/home/u", 1);
  unsetenv("XDG_CACHE_HOME");
  EXPECT_THAT(effective_packed_folders(config), ElementsAre("models", "/home/u/.cache/baton"));
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_THAT(effective_packed_folders(config), ElementsAre("models", "/cache/baton"));
  // Relative ones are to be ignored (XDG Base Directory Specification).
  setenv("XDG_CACHE_HOME", "cache", 1);
  config.model.path = "a.gguf";
  EXPECT_THAT(effective_packed_folders(config), ElementsAre(".", "/home/u/.cache/baton"));
  unsetenv("HOME");
  EXPECT_THAT(effective_packed_folders(config), ElementsAre("."));
}

}  // namespace
}  // namespace baton::config
