#pragma once

// The flags that commands with an engine of their own share, and what they mean.

#include <string>

#include "common/base/status.h"
#include "common/engine/engine.h"

namespace baton::cli {

struct EngineFlags {
  std::string model;
  std::string isa = "auto";
  std::string numerics = "invariant";
  int threads = 0;  // all ranks together; 0 = one for each CPU that this process may use
  int tensor_parallel = 1;
  int segments = 0;  // 0 = as many as ranks, which is what a cluster file of that degree gets
  int chunk = 512;   // tokens of a prompt in one step
};

// How much an engine has to hold at once, and how its threads run.
struct EngineNeeds {
  int positions = 0;  // of one sequence
  int sequences = 1;
  int batch_tokens = 0;          // of one step
  bool pinned_spinning = false;  // for measurements: threads pinned, waiting without yielding
};

// invalid_argument when the flags contradict each other or this machine; errors of Engine::create.
Result<std::unique_ptr<engine::Engine>> make_engine(const EngineFlags& flags,
                                                    const EngineNeeds& needs,
                                                    engine::EngineOptions::Pool pool);

// Threads of the ranks that the flags stand for; pinned and spinning, or free and yielding.
Result<device::TeamOptions> team_of(const EngineFlags& flags, bool pinned_spinning);

// The number of compute threads that the flags stand for; at least one.
Result<int> thread_count(const EngineFlags& flags);

}  // namespace baton::cli
