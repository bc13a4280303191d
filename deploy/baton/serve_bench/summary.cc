#include "deploy/baton/serve_bench/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace baton::serve_bench {
namespace {

constexpr double kLateMs = 10;

double nearest_rank(const std::vector<double>& sorted, double p) {
  const double rank = std::ceil(p * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

Percentiles of_histogram(const LatencyHistogram& histogram) {
  return {.count = histogram.count(),
          .p50 = to_ms(histogram.percentile(0.5)),
          .p90 = to_ms(histogram.percentile(0.9)),
          .p99 = to_ms(histogram.percentile(0.99)),
          .mean = histogram.mean_ms(),
          .max = to_ms(histogram.max())};
}

// What is added up over the complete requests.
struct Totals {
  std::vector<double> ttft, tpot, e2e;
  int64_t events = 0;
  size_t prompts_counted = 0;
  size_t answers_counted = 0;

  void add(const RequestRecord& record, Summary& out) {
    ++out.completed;
    ttft.push_back(to_ms(record.ttft()));
    e2e.push_back(to_ms(record.ended - record.scheduled));
    if (const std::optional<Duration> mean = record.tpot()) {
      tpot.push_back(to_ms(*mean));
    }
    out.short_answers += record.tokens < record.wanted_tokens;
    out.output_tokens += record.tokens;
    events += record.events;
    answers_counted += record.counted_by_server;
    if (record.prompt_tokens >= 0) {
      ++prompts_counted;
      out.prompt_tokens += record.prompt_tokens;
    }
  }
};

}  // namespace

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::ranges::sort(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.count = values.size(),
          .p50 = nearest_rank(values, 0.5),
          .p90 = nearest_rank(values, 0.9),
          .p99 = nearest_rank(values, 0.99),
          .mean = sum / static_cast<double>(values.size()),
          .max = values.back()};
}

Summary summarize(const RunOutcome& run, const Slo& slo, Duration window) {
  Summary out;
  Totals totals;
  std::vector<double> lag;
  for (const RequestRecord& record : run.records) {
    lag.push_back(to_ms(record.sent - record.scheduled));
    out.attained += record.meets(slo);
    if (record.complete()) {
      totals.add(record, out);
    }
  }
  out.sent = run.sent;
  out.failed = run.records.size() - out.completed;
  out.unfinished = run.unfinished;
  out.failures = run.failures;
  out.ttft_ms = percentiles(std::move(totals.ttft));
  out.tpot_ms = percentiles(std::move(totals.tpot));
  out.e2e_ms = percentiles(std::move(totals.e2e));
  out.itl_ms = of_histogram(run.gaps);
  out.client_lag_ms = percentiles(std::move(lag));
  out.client_late = out.client_lag_ms.p99 > kLateMs;
  out.attainment =
      ratio(static_cast<double>(out.attained), static_cast<double>(run.records.size()));
  out.elapsed_s = to_seconds(run.end - run.start);
  // A run that was stopped has had less than its window.
  const bool whole = window > Duration::zero() && !run.interrupted && !run.hopeless;
  out.window_s = whole ? to_seconds(window) : out.elapsed_s;
  out.goodput_rps = ratio(static_cast<double>(out.attained), out.window_s);
  out.completed_rps = ratio(static_cast<double>(out.completed), out.elapsed_s);
  out.output_tokens_per_s = ratio(static_cast<double>(out.output_tokens), out.elapsed_s);
  out.prompt_tokens_mean =
      ratio(static_cast<double>(out.prompt_tokens), static_cast<double>(totals.prompts_counted));
  out.output_tokens_mean =
      ratio(static_cast<double>(out.output_tokens), static_cast<double>(out.completed));
  out.tokens_per_event =
      ratio(static_cast<double>(out.output_tokens), static_cast<double>(totals.events));
  out.counted_by_server = out.completed > 0 && totals.answers_counted == out.completed;
  return out;
}

std::string failures_text(const Summary& summary) {
  std::string out = summary.completed == 0 ? "all " : "";
  out += std::to_string(summary.failed) + " requests failed: ";
  bool first = true;
  for (const auto& [label, failures] : summary.failures) {
    out += first ? "" : ", ";
    out += std::to_string(failures.count) + " x " + label;
    out += failures.first_message.empty() ? "" : " (" + failures.first_message + ")";
    first = false;
  }
  return out;
}

}  // namespace baton::serve_bench
