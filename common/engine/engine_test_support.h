#pragma once

// Drives an engine as a worker's loop would, step by step with a real block pool, but greedy and
// with hooks to be unkind: blocks out of order, memory filled with NaN, cache dropped in
// mid-stream.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/engine/engine.h"
#include "common/kv_cache/block_pools.h"

namespace baton::engine {

struct EngineSetup {
  std::string model = "tests/data/models/tiny_q4_1.gguf";
  device::Isa isa = device::Isa::kScalar;
  int ranks = 1;
  int threads = 1;  // of each rank
  int segments = 1;
  EngineOptions::Pool pool = EngineOptions::Pool::kDecode;
  int block_tokens = 32;
  int blocks = 96;
  int max_batch_tokens = 1024;
  int max_context = 0;
  Arithmetic arithmetic = Arithmetic::kCanonical;
};
EngineOptions options_of(const EngineSetup& setup);
// Aborts the test program when the engine cannot be made.
std::unique_ptr<Engine> make_engine(const EngineSetup& setup);

extern const char* const kRealModel;

// One of each architecture and scaling of RoPE, in tests/data/models.
inline constexpr const char* kArchitectureModels[] = {
    "tiny_llama3", "tiny_llama3_keys", "tiny_llama_linear", "tiny_llama_yarn",    "tiny_mistral",
    "tiny_qwen2",  "tiny_qwen3",       "tiny_gemma3",       "tiny_gemma3_untied",
};

std::vector<TokenId> random_tokens(uint64_t seed, int count, int vocab);

struct Request {
  std::vector<TokenId> prompt;
  int outputs = 1;
  int chunk = 1024;    // most new tokens a step
  int drop_every = 0;  // forget the KV after every so many outputs and compute it again
  int arrives = 0;     // step in which it joins
};

// Of each output: its token (greedy) and the logits that it was taken from.
struct Trace {
  std::vector<TokenId> tokens;
  std::vector<std::vector<float>> logits;
  int computed_tokens = 0;      // fed to the engine, all steps together
  double borrowed_seconds = 0;  // of the steps that it took part in
};

class Driver {
 public:
  // Fills the KV memory with 0xFFFF (NaN) and hands blocks out in random order. What has left a
  // window is given back and, without a prefix cache, filled so again.
  explicit Driver(Engine& engine, uint64_t seed = 1, bool prefix_cache = false);

  Trace run(const Request& request);
  // All at once, joined step by step.
  std::vector<Trace> run(const std::vector<Request>& requests);

  const kv_cache::BlockPools& pools() const { return pools_; }
  int most_window_blocks = 0;  // that a sequence has held after a step

 private:
  struct Running {
    const Request* request = nullptr;
    Trace* trace = nullptr;
    SequenceId id;
    std::vector<TokenId> tokens;  // prompt and outputs
    int computed = 0;
    kv_cache::Leases blocks;
    bool done = false;
  };
  void plan(Running& running, int room, BatchPlan& batch);
  void take(Running& running, int count, SequenceOutput& output);
  void wipe(int group, std::span<const BlockId> ids);
  void free_blocks(Running& running);

  Engine& engine_;
  bool prefix_cache_;
  kv_cache::BlockPools pools_;
};

TokenId arg_max(const std::vector<float>& logits);
// Equal in every bit, but for the sign of zero.
::testing::AssertionResult same_bits(const Trace& a, const Trace& b);

}  // namespace baton::engine
