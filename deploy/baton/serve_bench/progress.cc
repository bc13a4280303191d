#include "deploy/baton/serve_bench/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace baton::serve_bench {
namespace {

constexpr int kCells = 20;

}  // namespace

std::string progress_line(const RunProgress& progress, const ProgressGoal& goal) {
  double share = 0;
  if (goal.window > Duration::zero()) {
    share = to_seconds(progress.elapsed) / to_seconds(goal.window);
  }
  if (goal.requests > 0) {
    share = std::max(share, static_cast<double>(progress.done + progress.failed) /
                                static_cast<double>(goal.requests));
  }
  share = std::clamp(share, 0.0, 1.0);
  const auto cells = static_cast<size_t>(share * kCells);
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers), "] %3.0f %%  done %zu  failed %zu  running %zu",
                share * 100, progress.done, progress.failed, progress.running);
  std::string line = goal.label.empty() ? "" : goal.label + "  ";
  line += "[" + std::string(cells, '#') + std::string(kCells - cells, '-') + numbers;
  if (progress.ttft_p50 > Duration::zero()) {
    std::snprintf(numbers, sizeof(numbers), "  TTFT p50 %.0f ms", to_ms(progress.ttft_p50));
    line += numbers;
  }
  return line;
}

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) == 1) {}
ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::show(const std::string& line) {
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    std::fflush(stderr);
    shown_ = true;
  }
}

void ProgressBar::clear() {
  if (shown_) {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
    shown_ = false;
  }
}

}  // namespace baton::serve_bench
