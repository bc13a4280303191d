#pragma once

// Steps of loading that come after the file was read. Internal to common/config.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/config.h"
#include "common/config/load.h"

namespace baton::config {

// Where values came from, for messages: "prefill[0].cpus" to "deploy/local.yaml:12" or "--set".
using Origins = std::map<std::string, std::string>;

// The known key closest to a path like "router.liste", "prefill[].nam" or "ruoter".
std::string nearest_key(std::string_view path);
// Whether `name` is a section or list: "router", "prefill".
bool is_section(std::string_view name);

Status apply_overrides(Config& config, const LoadRequest& request, Origins& origins);

// How keys agree with each other. `source` stands in where a value is a default.
Status validate(const Config& config, const std::optional<Self>& self, const Origins& origins,
                std::string_view source);

}  // namespace baton::config
