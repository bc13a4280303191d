#include "deploy/baton/status_table.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "deploy/baton/status_diagnosis.h"

namespace baton::cli {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two spaces between them.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const Row& row : rows) {
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

// "-" where nothing ran.
std::string cell(const char* format, const std::optional<double>& value, double scale = 1) {
  if (!value) {
    return "-";
  }
  char text[64];
  std::snprintf(text, sizeof(text), format, *value * scale);
  return text;
}

bool tells(const WorkerLoad& load) {
  return load.prefill_tokens_per_s || load.decode_tokens_per_s || load.batch_mean ||
         load.prefix_hit_ratio || load.step_ms_p50 || load.queued_tokens || load.preemptions;
}

std::string worker_table(const ClusterStatus& status) {
  if (status.workers.empty()) {
    return "no workers\n";
  }
  std::vector<Row> rows = {
      {"WORKER", "ROLE", "STATE", "RUNNING", "WAITING", "FREE BLOCKS", "TP", "GENERATION"}};
  for (const WorkerStatus& worker : status.workers) {
    rows.push_back(
        {worker.name, worker.role, worker.state, std::to_string(worker.running),
         std::to_string(worker.waiting),
         std::to_string(worker.blocks_free) + " of " + std::to_string(worker.blocks_total),
         std::to_string(worker.tensor_parallel), worker.incarnation});
  }
  return aligned(rows);
}

std::string load_table(const ClusterStatus& status) {
  std::vector<Row> rows = {{"WORKER", "PREFILL TOK/S", "ROOFLINE", "QUEUED TOK", "PREFIX HITS",
                            "DECODE TOK/S", "ROOFLINE", "BATCH", "STEP MS", "PREEMPTIONS"}};
  for (const WorkerStatus& worker : status.workers) {
    const WorkerLoad& load = worker.load;
    if (tells(load)) {
      rows.push_back(
          {worker.name, cell("%.0f", load.prefill_tokens_per_s),
           cell("%.0f %%", load.prefill_roofline_share, 100), cell("%.0f", load.queued_tokens),
           cell("%.0f %%", load.prefix_hit_ratio, 100), cell("%.0f", load.decode_tokens_per_s),
           cell("%.0f %%", load.decode_roofline_share, 100), cell("%.1f", load.batch_mean),
           cell("%.1f", load.step_ms_p50), cell("%.0f", load.preemptions)});
    }
  }
  return rows.size() > 1 ? "\n" + aligned(rows) : "";
}

std::string link_table(const ClusterStatus& status) {
  if (status.links.empty()) {
    return "";
  }
  std::vector<Row> rows = {{"LINK", "TRANSPORT"}};
  for (const LinkStatus& link : status.links) {
    rows.push_back({link.from + " -> " + link.to, link.transport});
  }
  return "\n" + aligned(rows);
}

}  // namespace

std::string status_table(const ClusterStatus& status) {
  std::string out = worker_table(status) + load_table(status) + link_table(status);
  const std::vector<std::string> diagnosis = diagnose(status);
  out += diagnosis.empty() ? "" : "\n";
  for (const std::string& line : diagnosis) {
    out += line + "\n";
  }
  return out;
}

}  // namespace baton::cli
