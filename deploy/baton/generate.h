#pragma once

// `baton generate`: one request in one process, without a network. What it says is what a cluster
// has to say to the same request.

#include <cstdint>
#include <string>

#include "deploy/baton/engine_flags.h"

namespace baton::cli {

struct GenerateOptions {
  EngineFlags engine;
  std::string prompt;
  std::string prompt_ids_file;  // instead of prompt
  std::string force_ids_file;   // teacher forcing: fed in place of what was sampled
  std::string logits_file;      // raw f32 [outputs, vocab]: row i is what output i was taken from
  int max_tokens = 64;
  bool ignore_eos = false;
  float temperature = 0;
  float top_p = 1;
  int top_k = 0;
  uint64_t seed = 0;
  bool json = false;
};

// The exit status of the program.
int run_generate(const GenerateOptions& options);

}  // namespace baton::cli
