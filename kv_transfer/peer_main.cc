// A worker's agent without a worker, for tests that kill it.
//
//   kv_transfer_peer decode TRANSPORT           prints its address, grants whatever is asked
//   kv_transfer_peer prefill TRANSPORT ADDRESS  pushes one large sequence, again and again
//   kv_transfer_peer half TRANSPORT ADDRESS     the same, but the first has no end
//   kv_transfer_peer bench-child ...            the second process of a benchmark
//   kv_transfer_peer bench TRANSPORT MIB        the benchmark itself

#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>

#include "kv_transfer/peer_shape.h"
#include "kv_transfer/transfer_bench.h"

namespace baton::kv_transfer {
namespace {

int run_decode(const std::string& transport) {
  const PeerPools pools(transport);
  EventLog events;
  const SteadyClock clock;
  SeededRandom random(2);
  metrics::Registry registry({metrics::kByDecode, "m", "d0", 1000});
  auto agent = TransferAgent::create(peer_options(pools.pools, wire::Role::kDecode, transport),
                                     clock, random, registry, events.sink());
  if (!agent.ok()) {
    std::fprintf(stderr, "%s\n", agent.status().to_string().c_str());
    return 1;
  }
  std::printf("%s\n", (*agent)->listen_address().c_str());
  std::fflush(stdout);
  for (;;) {
    if (const auto reserve = events.take<ReserveArrived>({}, 1s)) {
      (*agent)->grant(reserve->reservation, pools.table(), 0);
    }
  }
}

int run_prefill(const std::string& transport, const std::string& address, bool whole) {
  const PeerPools pools(transport);
  EventLog events;
  const SteadyClock clock;
  SeededRandom random(3);
  metrics::Registry registry({metrics::kByPrefill, "m", "p0", 1000});
  auto agent = TransferAgent::create(peer_options(pools.pools, wire::Role::kPrefill, transport),
                                     clock, random, registry, events.sink());
  if (!agent.ok()) {
    std::fprintf(stderr, "%s\n", agent.status().to_string().c_str());
    return 1;
  }
  for (;;) {
    const TransferId id = (*agent)->open(peer_transfer(pools, address));
    for (int layer = 0; !whole && layer < pools.pools.shape().layers / 2; ++layer) {
      (*agent)->layer_written(id, 0, layer, pools.tokens());
    }
    if (std::exchange(whole, true)) {
      (*agent)->commit(id, {{}}, {});
    }
    while (!events.take<TransferAcked>({}, 10ms) && !events.take<TransferFailed>({}, 0s)) {
    }
  }
}

int run_bench(const std::string& transport, const std::string& mib) {
  TransferBenchOptions options;
  options.transport = transport;
  options.pool_bytes = std::stoul(mib) << 20;
  options.child_command = {"/proc/self/exe", "bench-child"};
  const Result<TransferBenchReport> report = run_transfer_bench(options);
  if (!report.ok()) {
    std::fprintf(stderr, "%s\n", report.status().to_string().c_str());
    return 1;
  }
  std::printf("%8s %8s %8s %6s %8s %6s %8s\n", "piece", "memcpy", "GB/s", "ratio", "digest",
              "ratio", "slowest");
  for (const TransferBenchRow& row : report->rows) {
    std::printf("%8zu %8.2f %8.2f %6.2f %8.2f %6.2f %8.2f\n", row.piece_bytes, row.memcpy_gb_per_s,
                row.gb_per_s, row.ratio(), row.digest_gb_per_s, row.digest_ratio(),
                row.slowest_gb_per_s);
  }
  std::printf(
      "reserve to grant p50 %.3f p99 %.3f ms, commit to ack p50 %.3f p99 %.3f ms, idle %.4f\n",
      report->reserve_to_grant_p50_ms, report->reserve_to_grant_p99_ms,
      report->commit_to_ack_p50_ms, report->commit_to_ack_p99_ms, report->idle_cpu_share);
  return 0;
}

int run(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "decode" && argc == 3) {
    return run_decode(argv[2]);
  }
  if ((role == "prefill" || role == "half") && argc == 4) {
    return run_prefill(argv[2], argv[3], role == "prefill");
  }
  if (role == "bench" && argc == 4) {
    return run_bench(argv[2], argv[3]);
  }
  if (role == "bench-child") {
    return run_transfer_bench_child({argv + 2, argv + argc});
  }
  std::fprintf(stderr,
               "usage: kv_transfer_peer decode TRANSPORT | prefill|half TRANSPORT ADDRESS\n");
  return 2;
}

}  // namespace
}  // namespace baton::kv_transfer

int main(int argc, char** argv) { return baton::kv_transfer::run(argc, argv); }
