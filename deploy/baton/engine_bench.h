#pragma once

// `baton bench engine`: prefill and decode rates of one process beside what the machine could do at
// that moment (docs/performance.md).

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "deploy/baton/engine_flags.h"

namespace baton::cli {

struct EngineBenchOptions {
  EngineFlags engine;
  std::vector<int> prompts = {512};
  std::vector<int> decode_batches = {1, 8, 16, 32};
  std::vector<int> contexts = {256};  // of each of these batches
  int repeats = 5;                    // of a measurement, at least
  bool json = false;
};

// Work of a step by the formulas of docs/performance.md, not what a kernel happens to do.
// FLOPs of prefilling `tokens` from position 0, with the logits of the last one.
double prefill_flops(const model::ModelDescription& model, int tokens);
// Of these, attention.
double prefill_attention_flops(const model::ModelDescription& model, int tokens);
// Bytes that a decode step of `batch` sequences with `context` tokens each has to read: every
// weight once, every key and value once.
double decode_bytes(const engine::Engine& engine, int batch, int context);

// Of an odd or even number of values, at least one.
double median(std::vector<double> values);

struct PrefillRate {
  int prompt = 0;
  double tokens_per_s = 0;
  double flops_per_s = 0;
  double attention_flops_per_s = 0;  // while there is attention
  double attention_time_share = 0;
};
struct DecodeRate {
  int batch = 0;
  int context = 0;
  double tokens_per_s = 0;
  double bytes = 0;  // of a step
  double bytes_per_s = 0;
};
struct EngineBenchResult {
  std::vector<PrefillRate> prefill;
  std::vector<DecodeRate> decode;
  model::MachineProbe start;  // arithmetic before the prefills, reading before the decode steps
  model::MachineProbe end;
  std::string isa;
  std::string cpu;  // the processor's name
  int threads = 0;
  int ranks = 0;

  // The two probes differ by at most 15 %: the machine was the same all the time.
  bool steady() const;
  model::MachineProbe mean() const;
};
std::string bench_json(const EngineBenchResult& result);
std::string bench_table(const EngineBenchResult& result);

// The exit status of the program.
int run_engine_bench(const EngineBenchOptions& options);

}  // namespace baton::cli
