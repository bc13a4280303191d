#pragma once

// `baton model`: what a model file or folder is, what it needs and how fast this machine could
// serve it at most.

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/engine/memory_need.h"
#include "common/engine/model_facts.h"

namespace baton::cli {

struct ModelOptions {
  std::string path;
  std::string kv_cache = "1GiB";  // of each pool
  bool json = false;
};

struct VocabularyFacts {
  std::string kind;  // "byte-level BPE"
  uint64_t tokens = 0;
  bool chat_template = false;
};

// The least times that this machine allows.
struct ModelRates {
  model::MachineProbe probe;
  std::string isa;
  int threads = 0;
  int prompt = 0;              // tokens of the prefill
  double prefill_per_s = 0;    // tokens of it
  int context = 0;             // of each decoding sequence
  double decode_per_s = 0;     // one sequence
  double decode_16_per_s = 0;  // sixteen together
};

struct ModelReport {
  engine::ModelFacts facts;  // `refused` has the vocabulary's reason, too
  std::optional<VocabularyFacts> vocabulary;
  engine::MemoryNeed prefill;
  engine::MemoryNeed decode;
  std::optional<ModelRates> rates;  // where nothing is refused
};

// Rates of a model on a machine with these peaks; weights as the pools keep them.
ModelRates rates_of(const model::ModelDescription& model, const engine::MemoryNeed& prefill,
                    const engine::MemoryNeed& decode, const model::MachineProbe& probe);

std::string model_json(const ModelReport& report);
std::string model_text(const ModelReport& report);

// The exit status of the program: 1 where the model cannot be opened or would be refused.
int run_model(const ModelOptions& options);

}  // namespace baton::cli
