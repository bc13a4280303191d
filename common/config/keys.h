#pragma once

// The one table of keys, as data: drives reading, printing and docs/operations.md.

#include <string>
#include <vector>

namespace baton::config {

struct KeyInfo {
  std::string path;           // "router.listen", "prefill[].name", "isa"
  std::string type;           // "duration", "auto | never | always", "integer 1..4096"
  std::string default_value;  // as YAML
  std::string doc;            // one line
};

// In the order in which they are printed.
std::vector<KeyInfo> all_keys();

}  // namespace baton::config
