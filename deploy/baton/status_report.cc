#include "deploy/baton/status_report.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "common/config/program_options.h"

namespace baton::cli {
namespace {

constexpr Duration kTimeout = 5s;

// Columns as wide as their widest cell, two spaces between them.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) {
        line.append(widths[i] - row[i].size() + 2, ' ');
      }
    }
    out += line + "\n";
  }
  return out;
}

Result<ClusterStatus> ask(const StatusOptions& options) {
  std::string key;
  if (!options.api_key_file.empty()) {
    BATON_ASSIGN_OR_RETURN(key, first_api_key(options.api_key_file));
  }
  return RouterClient(options.url, key, kTimeout).status();
}

}  // namespace

std::string status_table(const ClusterStatus& status) {
  std::vector<std::vector<std::string>> rows = {
      {"WORKER", "ROLE", "STATE", "RUNNING", "WAITING", "FREE BLOCKS", "TP", "GENERATION"}};
  for (const WorkerStatus& worker : status.workers) {
    rows.push_back(
        {worker.name, worker.role, worker.state, std::to_string(worker.running),
         std::to_string(worker.waiting),
         std::to_string(worker.blocks_free) + " of " + std::to_string(worker.blocks_total),
         std::to_string(worker.tensor_parallel), worker.incarnation});
  }
  std::string out = status.workers.empty() ? "no workers\n" : aligned(rows);
  if (!status.links.empty()) {
    std::vector<std::vector<std::string>> links = {{"LINK", "TRANSPORT"}};
    for (const LinkStatus& link : status.links) {
      links.push_back({link.from + " -> " + link.to, link.transport});
    }
    out += "\n" + aligned(links);
  }
  return out;
}

int run_status(const StatusOptions& options) {
  const Result<ClusterStatus> status = ask(options);
  if (!status.ok()) {
    std::fprintf(stderr, "baton: %s\n", status.status().message().c_str());
    return config::kExitCannotStart;
  }
  std::printf("%s", options.json ? (status->json + "\n").c_str() : status_table(*status).c_str());
  return config::kExitStopped;
}

}  // namespace baton::cli
