#pragma once

// The secret that all processes of a cluster share: who has it is a member. docs/security.md has
// the scheme, docs/adr/0009-cluster-key.md the reasons.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace baton::wire {

using CurveKey = std::array<uint8_t, 32>;

// Both ends' CURVE keys, derived from the secret. Wiped when it goes away.
class ClusterKey {
 public:
  // 32 random bytes in base64, as `head -c 32 /dev/urandom | base64` prints them; white space
  // around them is ignored.
  static Result<ClusterKey> parse(std::string_view text);
  // The file may be read by its owner only; one of root's also by its group (a mounted Kubernetes
  // secret). Errors begin with the name of the configuration key and never show the contents.
  static Result<ClusterKey> read(const std::string& path);
  ~ClusterKey();
  ClusterKey(const ClusterKey&) = default;
  ClusterKey& operator=(const ClusterKey&) = default;

  struct Pair {
    CurveKey public_key{};
    CurveKey secret_key{};
  };
  const Pair& listener() const { return listener_; }
  const Pair& member() const { return member_; }  // of a process that connects

 private:
  ClusterKey() = default;
  Pair listener_;
  Pair member_;
};

// No key for an empty path.
Result<std::optional<ClusterKey>> read_cluster_key(const std::string& path);

}  // namespace baton::wire
