#include "deploy/baton/fault_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "common/http/error.h"

namespace baton::cli {
namespace {

template <typename... Values>
void append(std::string& out, const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof(text), format, values...);
  out += text;
}

void add_faults(FaultReport& report, const FaultRun& run) {
  for (const Fault& fault : run.faults) {
    FaultRow& row = report.rows[{fault.transport, fault.kind}];
    if (fault.ended) {
      row.ended.add(fault.at, *fault.ended);
    }
    if (fault.seen_by_router) {
      row.router.add(fault.at, *fault.seen_by_router);
    } else {
      ++row.router.missed;
    }
    for (const WallTime seen : fault.seen_by_peers) {
      row.peers.add(fault.at, seen);
    }
    row.peers.missed += std::max(0, fault.peers - static_cast<int>(fault.seen_by_peers.size()));
    if (fault.back) {
      row.back.add(fault.at, *fault.back);
    } else {
      ++row.back.missed;
    }
  }
}

// The last fault before `at`.
const Fault* cause_of(const FaultRun& run, WallTime at) {
  const Fault* cause = nullptr;
  for (const Fault& fault : run.faults) {
    // Lines are stamped to the millisecond before.
    if (fault.at <= at + std::chrono::milliseconds(1)) {
      cause = &fault;
    }
  }
  return cause;
}

// A token that the router had sent before the move may reach the client after it.
constexpr std::chrono::milliseconds kOnTheWay{200};

// The outage is the longest wait that ends after the fault and begins before the move.
void add_move(FaultRow& row, const Fault& fault, const FaultStream& stream, WallTime moved) {
  const std::vector<WallTime>& times = stream.token_times;
  if (times.empty()) {
    ++row.recovery.missed;
    return;
  }
  if (times.front() >= moved) {
    row.recovery.add(fault.at, times.front());
    return;
  }
  double longest = -1;
  WallTime next{};
  for (size_t i = 1; i < times.size(); ++i) {
    const double gap = std::chrono::duration<double, std::milli>(times[i] - times[i - 1]).count();
    if (times[i] >= fault.at && times[i - 1] <= moved + kOnTheWay && gap > longest) {
      longest = gap;
      next = times[i];
    }
  }
  if (longest < 0) {
    row.recovery.missed += stream.complete ? 0 : 1;  // else all its tokens were out already
    return;
  }
  row.recovery.add(fault.at, next);
  row.gap.ms.push_back(longest);
}

void add_stream(FaultReport& report, const FaultRun& run, const FaultStream& stream) {
  report.completed += stream.complete;
  report.lost += !stream.complete;
  report.wrong += stream.wrong;
  if (!stream.complete && report.first_error.empty()) {
    report.first_error = stream.error;
  }
  bool moved = false;
  for (const Move& move : run.moves) {
    const Fault* fault = move.stream == stream.id ? cause_of(run, move.at) : nullptr;
    if (fault != nullptr) {
      add_move(report.rows[{fault->transport, fault->kind}], *fault, stream, move.at);
      moved = true;
    }
  }
  report.moved += moved;
  for (size_t i = 1; !moved && i < stream.token_times.size(); ++i) {
    report.undisturbed.add(stream.token_times[i - 1], stream.token_times[i]);
  }
}

struct Measure {
  const char* name;  // in JSON
  const char* words;
  Times FaultRow::* times;
};
constexpr std::array kMeasures = {
    Measure{"process_end_ms", "process ended", &FaultRow::ended},
    Measure{"detected_by_router_ms", "seen by the router", &FaultRow::router},
    Measure{"detected_by_peers_ms", "seen by its peers", &FaultRow::peers},
    Measure{"recovery_ms", "next token of moved streams", &FaultRow::recovery},
    Measure{"gap_ms", "gap between their tokens", &FaultRow::gap},
    Measure{"back_ms", "worker ready again", &FaultRow::back}};

std::string times_json(const Times& times) {
  std::string out;
  append(out, "{\"count\":%zu,\"missed\":%d,\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f}",
         times.ms.size(), times.missed, times.percentile(0.5), times.percentile(0.99),
         times.percentile(1));
  return out;
}

}  // namespace

void Times::add(WallTime from, WallTime to) {
  // Below zero only by the rounding of a log line.
  ms.push_back(std::max(0.0, std::chrono::duration<double, std::milli>(to - from).count()));
}

double Times::percentile(double p) const {
  if (ms.empty()) {
    return 0;
  }
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const double rank = std::ceil(p * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

bool FaultReport::good() const {
  return lost == 0 && wrong == 0 && std::all_of(rows.begin(), rows.end(), [](const auto& entry) {
           return entry.second.router.missed == 0 && entry.second.peers.missed == 0 &&
                  entry.second.back.missed == 0;
         });
}

void add_run(FaultReport& report, const FaultRun& run) {
  add_faults(report, run);
  for (const FaultStream& stream : run.streams) {
    add_stream(report, run, stream);
  }
}

std::string faults_json(const FaultReport& report) {
  std::string out;
  append(out, "{\"seed\":%llu,\"faults\":[", static_cast<unsigned long long>(report.seed));
  for (const auto& [key, row] : report.rows) {
    out += out.ends_with('[') ? "{\"transport\":" : ",{\"transport\":";
    http::append_json_string(out, key.first);
    out += ",\"kind\":";
    http::append_json_string(out, key.second);
    for (const Measure& measure : kMeasures) {
      out += std::string(",\"") + measure.name + "\":" + times_json(row.*measure.times);
    }
    out += '}';
  }
  append(out, "],\"streams\":{\"completed\":%lld,\"moved\":%lld,\"lost\":%lld,\"wrong\":%lld}",
         static_cast<long long>(report.completed), static_cast<long long>(report.moved),
         static_cast<long long>(report.lost), static_cast<long long>(report.wrong));
  out += ",\"undisturbed_gap_ms\":" + times_json(report.undisturbed) + ",\"first_error\":";
  http::append_json_string(out, report.first_error);
  return out + "}";
}

std::string faults_table(const FaultReport& report) {
  std::string out = "ms from the signal\n";
  append(out, "%-10s %-5s %-28s %6s %7s %9s %9s %9s\n", "transport", "fault", "", "count", "missed",
         "p50", "p99", "max");
  for (const auto& [key, row] : report.rows) {
    for (const Measure& measure : kMeasures) {
      const Times& times = row.*measure.times;
      append(out, "%-10s %-5s %-28s %6zu %7d %9.1f %9.1f %9.1f\n", key.first.c_str(),
             key.second.c_str(), measure.words, times.ms.size(), times.missed,
             times.percentile(0.5), times.percentile(0.99), times.percentile(1));
    }
  }
  append(out, "streams: %lld complete, %lld of them moved, %lld lost, %lld with wrong tokens\n",
         static_cast<long long>(report.completed), static_cast<long long>(report.moved),
         static_cast<long long>(report.lost), static_cast<long long>(report.wrong));
  append(out, "gap between tokens of undisturbed streams: p50 %.1f ms, p99 %.1f ms; seed %llu\n",
         report.undisturbed.percentile(0.5), report.undisturbed.percentile(0.99),
         static_cast<unsigned long long>(report.seed));
  if (!report.first_error.empty()) {
    out += "first error: " + report.first_error + "\n";
  }
  return out;
}

}  // namespace baton::cli
