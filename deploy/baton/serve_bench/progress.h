#pragma once

// One line on a terminal that is drawn again and again; nothing elsewhere.

#include <string>

#include "common/base/clock.h"
#include "deploy/baton/serve_bench/load_run.h"

namespace baton::serve_bench {

// What the bar measures: the time of the arrivals, or the number of requests (the other is zero).
struct ProgressGoal {
  Duration window{};
  size_t requests = 0;
  std::string label{};  // "4.00 requests/s", or empty
};

// "[##########----------]  50 %  done 120  failed 0  running 8  TTFT p50 132 ms".
std::string progress_line(const RunProgress& progress, const ProgressGoal& goal);

// Writes to stderr if that is a terminal.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();  // clear()
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void show(const std::string& line);
  void clear();
  bool on_terminal() const { return terminal_; }

 private:
  const bool terminal_;
  bool shown_ = false;
};

}  // namespace baton::serve_bench
