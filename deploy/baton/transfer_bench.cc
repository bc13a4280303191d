#include "deploy/baton/transfer_bench.h"

#include <cstdio>

#include "common/config/program_options.h"
#include "common/http/error.h"
#include "deploy/baton/cluster_plan.h"

namespace baton::cli {
namespace {

using kv_transfer::TransferBenchReport;
using kv_transfer::TransferBenchRow;

template <typename... Values>
void append(std::string& out, const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof(text), format, values...);
  out += text;
}

Result<TransferBenchReport> run(const TransferBenchOptions& options) {
  BATON_ASSIGN_OR_RETURN(const std::string folder, own_folder());
  kv_transfer::TransferBenchOptions bench;
  bench.transport = options.transport;
  bench.pool_bytes = static_cast<size_t>(options.pool_mib) << 20;
  bench.repeats = options.repeats;
  bench.child_command = {folder + "/baton", "bench", kTransferBenchChild};
  return kv_transfer::run_transfer_bench(bench);
}

}  // namespace

std::string transfer_json(const TransferBenchReport& report) {
  const TransferBenchRow last = report.rows.empty() ? TransferBenchRow() : report.rows.back();
  std::string out = "{\"transport\":";
  http::append_json_string(out, report.transport);
  append(out,
         ",\"gb_per_s\":%.3f,\"memcpy_gb_per_s\":%.3f,\"ratio\":%.3f,\"digest_gb_per_s\":%.3f,"
         "\"digest_ratio\":%.3f",
         last.gb_per_s, last.memcpy_gb_per_s, last.ratio(), last.digest_gb_per_s,
         last.digest_ratio());
  if (report.socket_gb_per_s > 0) {
    append(out, ",\"socket_gb_per_s\":%.3f", report.socket_gb_per_s);
  }
  append(out, ",\"reserve_grant_us\":{\"p50\":%.1f,\"p99\":%.1f}",
         report.reserve_to_grant_p50_ms * 1e3, report.reserve_to_grant_p99_ms * 1e3);
  append(out, ",\"commit_ack_us\":{\"p50\":%.1f,\"p99\":%.1f},\"idle_cpu\":%.4f,\"pieces\":[",
         report.commit_to_ack_p50_ms * 1e3, report.commit_to_ack_p99_ms * 1e3,
         report.idle_cpu_share);
  for (const TransferBenchRow& row : report.rows) {
    out += out.ends_with('[') ? "" : ",";
    append(out,
           "{\"bytes\":%zu,\"gb_per_s\":%.3f,\"slowest_gb_per_s\":%.3f,\"memcpy_gb_per_s\":%.3f,"
           "\"ratio\":%.3f,\"digest_gb_per_s\":%.3f,\"digest_ratio\":%.3f}",
           row.piece_bytes, row.gb_per_s, row.slowest_gb_per_s, row.memcpy_gb_per_s, row.ratio(),
           row.digest_gb_per_s, row.digest_ratio());
  }
  return out + "]}";
}

std::string transfer_table(const TransferBenchReport& report) {
  std::string out = report.transport + ", GB/s to the receiver's acknowledgement, medians\n";
  append(out, "%10s %10s %10s %10s %12s %10s\n", "piece", "memcpy", "transfer", "ratio",
         "with digest", "ratio");
  for (const TransferBenchRow& row : report.rows) {
    append(out, "%6zu KiB %10.2f %10.2f %10.2f %12.2f %10.2f\n", row.piece_bytes / 1024,
           row.memcpy_gb_per_s, row.gb_per_s, row.ratio(), row.digest_gb_per_s, row.digest_ratio());
  }
  if (report.socket_gb_per_s > 0) {
    append(out, "a plain socket over loopback: %.2f GB/s\n", report.socket_gb_per_s);
  }
  append(out,
         "RESERVE to GRANT: p50 %.0f us, p99 %.0f us; COMMIT to ACK: p50 %.0f us, p99 %.0f us\n",
         report.reserve_to_grant_p50_ms * 1e3, report.reserve_to_grant_p99_ms * 1e3,
         report.commit_to_ack_p50_ms * 1e3, report.commit_to_ack_p99_ms * 1e3);
  append(out, "idle with a link up: %.2f %% of a core\n", report.idle_cpu_share * 100);
  return out;
}

int run_transfer_bench(const TransferBenchOptions& options) {
  const Result<TransferBenchReport> report = run(options);
  if (!report.ok()) {
    std::fprintf(stderr, "baton: %s\n", report.status().message().c_str());
    return config::kExitCannotStart;
  }
  std::printf("%s", options.json ? (transfer_json(*report) + "\n").c_str()
                                 : transfer_table(*report).c_str());
  return config::kExitStopped;
}

}  // namespace baton::cli
