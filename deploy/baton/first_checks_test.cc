#include "deploy/baton/first_checks.h"

#include <gmock/gmock.h>

namespace baton::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kMiB = 1 << 20;

config::Config cluster(const std::string& model) {
  config::Config config;
  config.model.path = model;
  config.prefill.resize(1);
  config.prefill[0].name = "p0";
  config.decode.resize(1);
  config.decode[0].name = "d0";
  return config;
}

config::Machine machine(uint64_t available) {
  return {.cpus = {0}, .memory_bytes = 4096 * kMiB, .memory_available_bytes = available};
}

TEST(FirstChecksTest, AreContentWithRoomEnough) {
  const auto config = cluster("tests/data/models/tiny_q4_1.gguf");
  EXPECT_TRUE(check_cluster_fits(config, machine(2048 * kMiB), 64 * kMiB).ok());
  EXPECT_GT(shm_free_bytes(), 0u);
}

TEST(FirstChecksTest, PrintTheSumWhenTheMemoryIsTooSmall) {
  const auto config = cluster("tests/data/models/tiny_q4_1.gguf");
  const Status status = check_cluster_fits(config, machine(300 * kMiB), 64 * kMiB);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), StartsWith("the cluster needs "));
  EXPECT_THAT(status.message(), HasSubstr(" MiB of memory, 300 MiB are available (p0 weights "));
  EXPECT_THAT(status.message(), HasSubstr("; d0 weights 1 + KV pool 128 + rest "));
  EXPECT_THAT(status.message(), HasSubstr("; router 48); "));
}

TEST(FirstChecksTest, CountWeightsOnceForWorkersThatMapOneFile) {
  auto config = cluster("tests/data/models/tiny_q4_1.gguf");
  config.prefill.resize(3);
  config.prefill[1].name = "p1";
  config.prefill[2].name = "p2";
  config.prefill[2].tensor_parallel = 2;
  const auto message = [&] {
    return check_cluster_fits(config, machine(300 * kMiB), 1024 * kMiB).message();
  };
  EXPECT_THAT(message(), HasSubstr("(p0 weights "));
  EXPECT_THAT(message(), HasSubstr("; p1 KV pool "));
  EXPECT_THAT(message(), HasSubstr("; p2 weights "));
  EXPECT_THAT(message(), HasSubstr("; d0 weights "));
  config.model.packed_cache = "off";
  EXPECT_THAT(message(), HasSubstr("; p1 weights "));
}

TEST(FirstChecksTest, AskForSharedMemoryOnlyWhereItIsUsed) {
  auto config = cluster("tests/data/models/tiny_q4_1.gguf");
  const Status status = check_cluster_fits(config, machine(2048 * kMiB), 39 * kMiB);
  EXPECT_THAT(status.message(), StartsWith("/dev/shm has 39 MiB free, 2 workers need 40; "));
  config.transfer.transports = {"ucx-tcp"};
  EXPECT_TRUE(check_cluster_fits(config, machine(2048 * kMiB), 0).ok());
  config.transfer.transports = {"ucx-posix"};
  config.prefill.clear();
  EXPECT_TRUE(check_cluster_fits(config, machine(2048 * kMiB), 0).ok());
}

TEST(FirstChecksTest, SayWhatIsWrongWithTheModel) {
  const Status status = check_cluster_fits(cluster("tests"), machine(2048 * kMiB), 64 * kMiB);
  EXPECT_THAT(status.message(), HasSubstr("tests: is a directory"));
}

}  // namespace
}  // namespace baton::cli
