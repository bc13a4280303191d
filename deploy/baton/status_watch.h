#pragma once

// `baton status --watch`: asks again and again until it is told to stop.

#include <functional>
#include <iosfwd>
#include <optional>

#include "common/base/clock.h"
#include "deploy/baton/status_data.h"
#include "deploy/baton/terminal_text.h"

namespace baton::cli {

struct WatchParts {
  std::function<Result<ClusterStatus>()> ask;
  std::function<bool(Duration)> wait;                 // true: it is time to stop
  std::function<std::optional<ScreenSize>()> screen;  // of the terminal; empty: a pipe or file
  std::ostream& out;
  std::ostream& err;
};

// One line of JSON each time, or the table: redrawn in place on a terminal, else one after the
// other without control characters. A router that does not answer later on is told and asked
// again; one that does not answer at first ends it. The exit status of the program.
int watch_status(Duration interval, bool json, const WatchParts& parts);

}  // namespace baton::cli
