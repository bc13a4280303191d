#include "common/worker/step_window.h"

#include <algorithm>
#include <vector>

namespace baton::worker {
namespace {

std::optional<double> ratio(double a, double b) {
  return b > 0 ? std::optional(a / b) : std::nullopt;
}

}  // namespace

void StepWindow::add(const StepRecord& step) {
  steps_.push_back(step);
  if (steps_.size() > kMostSteps) {
    steps_.pop_front();
  }
}

wire::RecentLoad StepWindow::summary(TimePoint now, const WorkerCounts& counts) {
  while (!steps_.empty() && now - steps_.front().ended > kLength) {
    steps_.pop_front();
  }
  // One is kept that is older than the window: the difference then spans all of it.
  while (counts_.size() > 1 && now - counts_[1].at > kLength) {
    counts_.pop_front();
  }
  counts_.push_back({now, counts});
  wire::RecentLoad load;
  if (steps_.empty()) {
    return load;
  }
  double prompt_tokens = 0, prompt_seconds = 0, prompt_roofline = 0;
  double decode_tokens = 0, stream_seconds = 0, decode_seconds = 0, decode_roofline = 0;
  double sequences = 0;
  std::vector<double> seconds;
  for (const StepRecord& step : steps_) {
    seconds.push_back(step.seconds);
    sequences += step.sequences;
    prompt_tokens += step.prompt_tokens;
    decode_tokens += step.decode_tokens;
    stream_seconds += step.decode_tokens > 0 ? step.seconds : 0;
    const bool prompts = step.prompt_tokens > 0;
    (prompts ? prompt_seconds : decode_seconds) += step.seconds;
    (prompts ? prompt_roofline : decode_roofline) += step.roofline_seconds;
  }
  const bool peaks_known = prompt_roofline + decode_roofline > 0;
  load.prefill_tokens_per_s = ratio(prompt_tokens, prompt_seconds);
  load.decode_tokens_per_s = ratio(decode_tokens, stream_seconds);
  if (peaks_known) {
    load.prefill_roofline_share = ratio(prompt_roofline, prompt_seconds);
    load.decode_roofline_share = ratio(decode_roofline, decode_seconds);
  }
  load.batch_mean = sequences / static_cast<double>(steps_.size());
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  load.step_ms_p50 = *middle * 1e3;
  const WorkerCounts& before = counts_.front().counts;
  load.preemptions = counts.preemptions - before.preemptions;
  load.prefix_hit_ratio =
      ratio(counts.cache_hits - before.cache_hits, counts.cache_queries - before.cache_queries);
  return load;
}

}  // namespace baton::worker
