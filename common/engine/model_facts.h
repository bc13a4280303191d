#pragma once

// What a model file or folder is, known from its headers before anything is packed.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/engine.h"

namespace baton::engine {

struct TensorTypeFacts {
  std::string name;  // "Q4_K"
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

struct ModelFacts {
  std::string path;
  std::string architecture;  // as the file says; empty when it does not
  std::string name;
  std::vector<TensorTypeFacts> types;  // most bytes first
  uint64_t tensors = 0;
  uint64_t parameters = 0;
  uint64_t bytes = 0;  // of all tensors
  // Every reason why no engine would take the model, one line each.
  std::vector<std::string> refused;
  model::ModelDescription description;  // means something where nothing is refused
};

// Opens the file and reads its headers, some milliseconds. Errors as ModelFile::open: what cannot
// be opened has no facts.
Result<ModelFacts> model_facts(const std::string& path);

// Of one sequence, all ranks together.
struct KvPerToken {
  uint64_t full = 0;     // bytes in layers that see everything
  uint64_t windows = 0;  // bytes in layers with a window, which need not keep more than it
  int window_layers = 0;
  int window = 0;  // tokens, the widest; 0: no layer has one
};
KvPerToken kv_per_token(const model::ModelDescription& model);

// Peaks of the machine for a model whose weights take `weight_bytes`, measured in about twice
// `time` on all threads of the team. Errors of ComputeTeam::create.
Result<model::MachineProbe> probe_peaks(const device::TeamOptions& team, device::Isa isa,
                                        uint64_t weight_bytes, Duration time);

}  // namespace baton::engine
