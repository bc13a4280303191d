#pragma once

// How much memory an engine will take, known from the model file's header before anything is
// packed or allocated: what cannot fit is refused with the sum.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/engine/engine.h"
#include "common/model/weights.h"

namespace baton::engine {

// The form in which an engine keeps its weights: that of its pool, but where the fast arithmetic
// computes quickest from the file's blocks, these for a prefill pool, too.
model::WeightPool weight_pool(const EngineOptions& options);

// Bytes, all ranks together.
struct MemoryNeed {
  uint64_t weights = 0;   // packed as the pool keeps them; without those of a packed file
  uint64_t kv_cache = 0;  // the pool of blocks
  uint64_t rest = 0;      // activations, tables, transport buffers, the program itself

  uint64_t total() const { return weights + kv_cache + rest; }
};

// Weights that lie in a packed file of options.packed_folders are not counted: mapped, they are
// file cache. Opens the model file and reads its header, some milliseconds. Errors are those of
// opening and describing the model, and of options that it cannot be served with.
Result<MemoryNeed> memory_need(const EngineOptions& options);

struct ProgramNeed {
  std::string name;  // "p0"
  MemoryNeed need;
};
// resource_exhausted with the whole sum when all programs together need more than is available;
// `who` begins the sentence.
Status check_memory(std::string_view who, std::span<const ProgramNeed> programs,
                    uint64_t available_bytes);

}  // namespace baton::engine
