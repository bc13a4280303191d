#pragma once

// Who has which block of a simulated worker, and the rule that nobody ever has two owners.

#include <optional>
#include <vector>

#include "common/base/ids.h"

namespace baton::kv_transfer::simulation {

class BlockOwners {
 public:
  enum class Kind : uint8_t { kFree, kTicket, kSequence };
  struct Owner {
    Kind kind = Kind::kFree;
    uint64_t id = 0;  // reservation or request
    friend bool operator==(const Owner&, const Owner&) = default;
  };
  explicit BlockOwners(int blocks) : owners_(static_cast<size_t>(blocks)) {}

  // Blocks that are free, given to `owner`; nothing when there are too few.
  std::optional<std::vector<BlockId>> take(int count, Owner owner) {
    std::vector<BlockId> taken;
    for (size_t id = 0; id < owners_.size() && static_cast<int>(taken.size()) < count; ++id) {
      if (owners_[id].kind == Kind::kFree) {
        taken.push_back(static_cast<BlockId>(id));
      }
    }
    if (static_cast<int>(taken.size()) < count) {
      return std::nullopt;
    }
    for (const BlockId id : taken) {
      owners_[id] = owner;
    }
    return taken;
  }
  // False when a block had another owner than `from`.
  bool pass(const std::vector<BlockId>& ids, Owner from, Owner to) {
    bool ours = true;
    for (const BlockId id : ids) {
      ours = ours && owners_[id] == from;
      owners_[id] = to;
    }
    return ours;
  }
  Owner of(BlockId id) const { return owners_[id]; }
  int free() const {
    int count = 0;
    for (const Owner& owner : owners_) {
      count += owner.kind == Kind::kFree ? 1 : 0;
    }
    return count;
  }

 private:
  std::vector<Owner> owners_;
};

}  // namespace baton::kv_transfer::simulation
