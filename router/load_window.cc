#include "router/load_window.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace baton::router {
namespace {

using Field = std::optional<double> EndedRequest::*;

// The nearest-rank quantile of sorted values.
std::optional<double> quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) {
    return std::nullopt;
  }
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

void write_quantiles(JsonText& json, std::string_view name,
                     const std::deque<EndedRequest>& requests, Field field, bool with_p99) {
  std::vector<double> values;
  for (const EndedRequest& request : requests) {
    if (request.*field) {
      values.push_back(*(request.*field));
    }
  }
  std::sort(values.begin(), values.end());
  json.name(name).open_object();
  json.number("p50", quantile(values, 0.5)).number("p90", quantile(values, 0.9));
  if (with_p99) {
    json.number("p99", quantile(values, 0.99));
  }
  json.close_object();
}

}  // namespace

void LoadWindow::add(const EndedRequest& request) {
  requests_.push_back(request);
  if (requests_.size() > kMostRequests) {
    started_ = requests_.front().ended;
    requests_.pop_front();
  }
}

void LoadWindow::write(JsonText& json, TimePoint now, int64_t waiting, int64_t running) {
  while (!requests_.empty() && now - requests_.front().ended > kLength) {
    requests_.pop_front();
  }
  const double seconds = to_seconds(std::clamp(now - started_, Duration(1ms), Duration(kLength)));
  int remote = 0;
  int local = 0;
  int moved = 0;
  int failed = 0;
  for (const EndedRequest& request : requests_) {
    remote += request.remote;
    local += request.local;
    moved += request.moved;
    failed += request.failed ? 1 : 0;
  }
  json.open_object().number("window_s", seconds);
  json.count("requests", static_cast<int64_t>(requests_.size()));
  json.number("rps", static_cast<double>(requests_.size()) / seconds);
  write_quantiles(json, "ttft_ms", requests_, &EndedRequest::ttft_ms, true);
  write_quantiles(json, "tpot_ms", requests_, &EndedRequest::tpot_ms, true);
  write_quantiles(json, "queue_ms", requests_, &EndedRequest::queue_ms, false);
  write_quantiles(json, "prefill_ms", requests_, &EndedRequest::prefill_ms, false);
  write_quantiles(json, "transfer_visible_ms", requests_, &EndedRequest::transfer_visible_ms,
                  false);
  write_quantiles(json, "second_token_gap_ms", requests_, &EndedRequest::second_token_gap_ms,
                  false);
  json.count("waiting", waiting).count("running", running);
  json.name("decisions").open_object().count("remote", remote).count("local", local);
  json.close_object().count("moved", moved).count("failed", failed).close_object();
}

}  // namespace baton::router
