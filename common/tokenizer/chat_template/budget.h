#pragma once

// The bounds that a render may not cross, so that a hostile template costs a known amount of memory
// and time. Everything that copies bytes, makes elements or walks a value spends from one budget.

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"

namespace baton::chat_template {

struct Limits {
  size_t template_bytes = size_t{1} << 20;
  size_t output_bytes = size_t{64} << 20;
  // One unit is about a byte copied; a node evaluated costs kNodeUnits.
  uint64_t units = uint64_t{512} << 20;
  // Nested evaluations, macro calls included.
  int depth = 400;
};

inline constexpr uint64_t kNodeUnits = 32;
inline constexpr uint64_t kElementUnits = 64;
// Containers inside containers; keeps every recursive walk and every destructor shallow.
inline constexpr int kMaxValueDepth = 64;
// Blocks inside blocks and operands inside operands, at parse time.
inline constexpr int kMaxSyntaxDepth = 120;

// Not thread-safe; one per render.
class Budget {
 public:
  explicit Budget(uint64_t units) : left_(units) {}

  // resource_exhausted once more was asked for than there was.
  Status spend(uint64_t units) {
    if (units > left_) {
      left_ = 0;
      return resource_exhausted("chat template: the render needs more work than is allowed");
    }
    left_ -= units;
    return {};
  }

 private:
  uint64_t left_;
};

}  // namespace baton::chat_template
