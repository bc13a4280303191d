#pragma once

// What `baton bench transfer` runs: two processes on this machine, an agent in each, one pool's
// worth of KV pushed at a time, timed from RESERVE to the receiver's acknowledgement and compared
// with a memcpy of the same pieces in the same run.

#include <string>
#include <vector>

#include "common/base/status.h"

namespace baton::kv_transfer {

struct TransferBenchOptions {
  std::string transport = "ucx-posix";
  size_t pool_bytes = 1u << 30;                                  // cold: far larger than any cache
  std::vector<size_t> piece_bytes = {4096, 8192, 24576, 32768};  // multiples of 4096
  int repeats = 5;
  int reserve_rounds = 500;
  // The program and arguments whose main() calls run_transfer_bench_child() with what follows them.
  std::vector<std::string> child_command;
};

struct TransferBenchRow {
  size_t piece_bytes = 0;
  double memcpy_gb_per_s = 0;   // medians
  double gb_per_s = 0;          // digests off
  double digest_gb_per_s = 0;   // digests on
  double slowest_gb_per_s = 0;  // digests off
  double ratio() const { return gb_per_s / memcpy_gb_per_s; }
  double digest_ratio() const { return digest_gb_per_s / memcpy_gb_per_s; }
};

struct TransferBenchReport {
  std::string transport;
  // What a plain TCP connection over loopback carries between two threads, a median of the same
  // run; 0 of transports without TCP.
  double socket_gb_per_s = 0;
  std::vector<TransferBenchRow> rows;
  double reserve_to_grant_p50_ms = 0;
  double reserve_to_grant_p99_ms = 0;
  double commit_to_ack_p50_ms = 0;
  double commit_to_ack_p99_ms = 0;
  double idle_cpu_share = 0;  // of one core, this process with a link up
};

// Takes memory for two pools here and one in the child. Blocking for some tens of seconds; every
// wait has a limit. Errors name the step.
Result<TransferBenchReport> run_transfer_bench(const TransferBenchOptions& options);

// The receiving process: `arguments` are what run_transfer_bench() put after child_command. Returns
// when its standard input closes. The exit status of the process.
int run_transfer_bench_child(const std::vector<std::string>& arguments);

}  // namespace baton::kv_transfer
