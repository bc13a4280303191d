#pragma once

// `baton bench transfer`: the hand-over's speed between two processes beside memcpy. The measuring
// is kv_transfer's; this is its second process and its report.

#include <string>
#include <vector>

#include "kv_transfer/transfer_bench.h"

namespace baton::cli {

struct TransferBenchOptions {
  std::string transport = "ucx-posix";
  int pool_mib = 1024;
  int repeats = 5;
  bool json = false;
};

// The word after "bench" that makes this program the receiving process of a benchmark.
inline constexpr const char* kTransferBenchChild = "transfer-child";

// The summary is that of the largest pieces.
std::string transfer_json(const kv_transfer::TransferBenchReport& report);
std::string transfer_table(const kv_transfer::TransferBenchReport& report);

// The exit status of the program.
int run_transfer_bench(const TransferBenchOptions& options);

}  // namespace baton::cli
