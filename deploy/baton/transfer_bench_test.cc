#include "deploy/baton/transfer_bench.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

kv_transfer::TransferBenchReport report() {
  kv_transfer::TransferBenchReport report;
  report.transport = "ucx-posix";
  report.rows = {{4096, 5, 3, 2, 2.5}, {32768, 6, 5.4, 4.2, 5}};
  report.reserve_to_grant_p50_ms = 0.05;
  report.reserve_to_grant_p99_ms = 0.2;
  report.commit_to_ack_p50_ms = 0.1;
  report.commit_to_ack_p99_ms = 0.3;
  report.idle_cpu_share = 0.0123;
  return report;
}

TEST(TransferBenchTest, SummarisesTheLargestPieces) {
  EXPECT_EQ(transfer_json(report()),
            "{\"transport\":\"ucx-posix\",\"gb_per_s\":5.400,\"memcpy_gb_per_s\":6.000,"
            "\"ratio\":0.900,\"digest_gb_per_s\":4.200,\"digest_ratio\":0.700,"
            "\"reserve_grant_us\":{\"p50\":50.0,\"p99\":200.0},\"commit_ack_us\":{\"p50\":100.0,"
            "\"p99\":300.0},\"idle_cpu\":0.0123,\"pieces\":[{\"bytes\":4096,\"gb_per_s\":3.000,"
            "\"slowest_gb_per_s\":2.500,\"memcpy_gb_per_s\":5.000,\"ratio\":0.600,"
            "\"digest_gb_per_s\":2.000,\"digest_ratio\":0.400},{\"bytes\":32768,"
            "\"gb_per_s\":5.400,\"slowest_gb_per_s\":5.000,\"memcpy_gb_per_s\":6.000,"
            "\"ratio\":0.900,\"digest_gb_per_s\":4.200,\"digest_ratio\":0.700}]}");
}

TEST(TransferBenchTest, PrintsARowForEachPieceSize) {
  const std::string table = transfer_table(report());
  EXPECT_NE(table.find("\n     4 KiB       5.00       3.00       0.60         2.00       0.40\n"),
            std::string::npos)
      << table;
  EXPECT_EQ(table.find("socket"), std::string::npos) << table;
  kv_transfer::TransferBenchReport of_tcp = report();
  of_tcp.socket_gb_per_s = 3.757;
  EXPECT_NE(transfer_table(of_tcp).find("\na plain socket over loopback: 3.76 GB/s\n"),
            std::string::npos);
  EXPECT_NE(transfer_json(of_tcp).find(",\"socket_gb_per_s\":3.757,"), std::string::npos);
  EXPECT_NE(table.find("idle with a link up: 1.23 % of a core\n"), std::string::npos) << table;
}

}  // namespace
}  // namespace baton::cli
