#include "kv_transfer/transfer_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::kv_transfer {
namespace {

TransferBenchOptions small() {
  TransferBenchOptions options;
  options.pool_bytes = 4u << 20;
  options.piece_bytes = {4096, 24576};
  options.repeats = 2;
  options.reserve_rounds = 5;
  options.child_command = {BATON_BINARY_DIR "/bin/kv_transfer_peer", "bench-child"};
  return options;
}

TEST(TransferBenchTest, MeasuresEveryPieceSize) {
  for (const char* transport : {"ucx-posix", "ucx-tcp"}) {
    TransferBenchOptions options = small();
    options.transport = transport;
    const Result<TransferBenchReport> report = run_transfer_bench(options);
    ASSERT_TRUE(report.ok()) << report.status().to_string();
    EXPECT_EQ(report->transport, transport);
    EXPECT_EQ(report->socket_gb_per_s > 0, report->transport == "ucx-tcp");
    ASSERT_EQ(report->rows.size(), 2u);
    for (const TransferBenchRow& row : report->rows) {
      EXPECT_GT(row.memcpy_gb_per_s, 0);
      EXPECT_GT(row.ratio(), 0);
      EXPECT_GT(row.digest_ratio(), 0);
      EXPECT_LE(row.slowest_gb_per_s, row.gb_per_s);
    }
    EXPECT_GT(report->reserve_to_grant_p99_ms, 0);
    EXPECT_GE(report->commit_to_ack_p99_ms, report->commit_to_ack_p50_ms);
  }
}

TEST(TransferBenchTest, RefusesWhatItCannotMeasure) {
  TransferBenchOptions options = small();
  options.piece_bytes = {5000};
  EXPECT_THAT(run_transfer_bench(options).status().message(),
              testing::HasSubstr("multiples of 4096"));
  options = small();
  options.child_command = {};
  EXPECT_FALSE(run_transfer_bench(options).ok());
  options.child_command = {"/bin/false"};
  EXPECT_THAT(run_transfer_bench(options).status().message(),
              testing::HasSubstr("second process did not start"));
  options = small();
  options.repeats = 0;
  EXPECT_FALSE(run_transfer_bench(options).ok());
}

}  // namespace
}  // namespace baton::kv_transfer
