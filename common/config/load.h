#pragma once

// Reading, checking and printing a cluster file. Every error is one line that names file, line and
// key, and what would be right.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/config.h"

namespace baton::config {

// Which process of the file is asking. `name` may be empty when its role has one entry; always for
// the router.
struct Self {
  Role role = Role::kRouter;
  std::string name;
};

struct LoadRequest {
  std::string path;                    // empty: the defaults
  std::vector<std::string> overrides;  // "router.drain=10s", "worker.kv_cache=64blocks",
                                       // "prefill.p0.cpus=0", "decode.*.block_tokens=16"
  std::optional<Self> self;            // what "worker." means
};

// Reads the file, applies the overrides in order, then checks ranges and how keys agree.
Result<Config> load_config(const LoadRequest& request);

// As load_config, from text; `source` stands for the file's name in messages.
Result<Config> parse_config(std::string_view yaml, std::string_view source,
                            const LoadRequest& request);

// The full configuration, every key with its value; load_config reads it back to the same.
std::string to_yaml(const Config& config);

// How a process calls itself once `overrides` are applied: --set worker.name=NAME renames it, so
// that one entry of a file can stand for many processes (the pods of a Deployment).
Self renamed(Self self, const std::vector<std::string>& overrides);

// The own entry of a worker. An empty name stands for the only entry of its role; otherwise the
// error lists the names that there are.
Result<const Worker*> own_entry(const Config& config, const Self& self);

}  // namespace baton::config
