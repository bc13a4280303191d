#pragma once

// The file that tells scripts where a cluster is: {"url": "...", "processes": [{"role", "name",
// "pid", "metrics_url"}]}.

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/baton/supervisor.h"

namespace baton::cli {

std::string ready_json(const std::string& url, const std::vector<RunningProgram>& programs);

// Puts `text` in place of what `path` holds; a reader sees the old or the new text, whole.
Status write_atomically(const std::string& path, const std::string& text);

}  // namespace baton::cli
