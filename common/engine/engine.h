#pragma once

// One forward step over a ragged batch: BatchPlan in, StepOutput out. No queues, no network, no
// policy. Each sequence of a step brings n >= 1 new tokens and a block table; prefill, a chunk,
// decode (n = 1) and draft verification are the same call.
//
// Owned by a worker loop. submit() hands the plan to the compute threads and returns; the plan is
// not touched by anyone until `done`, which runs on a compute thread and only enqueues. One step at
// a time.
//
// Promise: the logits of a position are a function of (tokens 0..position, weights, numerics id,
// segments), bit for bit, whatever the batch, chunking, instruction set, threads, ranks. With the
// fast arithmetic there is none.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/device/compute_team.h"
#include "common/device/isa.h"
#include "common/kv_cache/kv_pool.h"
#include "common/model/description.h"
#include "common/model/forward.h"
#include "common/model/machine_probe.h"
#include "common/model/segments.h"
#include "common/sampling/sampler.h"

namespace baton::engine {

using model::Arithmetic;
using model::LogitsWanted;

// One choice of a sequence's last row: n choices of one prompt sample from the same logits.
struct SampleRequest {
  // Records the token it samples; not touched by its owner while the step runs.
  sampling::SequenceSampler* sampler = nullptr;
};

struct SequencePlan {
  SequenceId id;
  std::vector<TokenId> tokens;  // new tokens, at positions first_position..
  int first_position = 0;
  // Block tables from position 0 of the cache's groups: of its first one, and of its second, which
  // is one of windows, if it has two. They cover all new tokens; a window group's needs no block
  // that the first new token does not see (kNoBlock).
  std::vector<BlockId> blocks;
  std::vector<BlockId> window_blocks;
  LogitsWanted logits = LogitsWanted::kNone;
  bool return_logits = false;  // copy the f32 rows into the output
  // Of the first rows, the token after each, whose log-probability is wanted together with the
  // `score_top` most likely; needs kAll.
  std::vector<TokenId> score;
  int score_top = 0;
  int score_vocab = 0;                 // leading ids that are tokens; 0 all of the model's
  std::vector<SampleRequest> samples;  // each samples from the last row; needs kLast or kAll
};

struct BlockCopy {
  BlockId from = kNoBlock;
  BlockId to = kNoBlock;
  int group = 0;
};

struct BatchPlan {
  std::vector<BlockCopy> copies;            // done first (copy on write), on all layers and ranks
  std::vector<BlockId> zero_values;         // then: V of blocks with a new owner
  std::vector<BlockId> window_zero_values;  // the same of the second group
  std::vector<SequencePlan> sequences;

  int total_tokens() const;
};

struct SequenceOutput {
  SequenceId id;
  std::vector<sampling::Sampled> samples;       // one per SampleRequest; mean nothing on an error
  Status error;                                 // a NaN logit ends this sequence only
  std::vector<sampling::TokenLogprobs> scores;  // one per token of `score`
  std::vector<float> logits;                    // [rows with logits, vocab] if return_logits
};

struct StepOutput {
  std::vector<SequenceOutput> sequences;  // in the order of the plan
  std::unique_ptr<BatchPlan> plan;        // handed back
  double seconds = 0;                     // of the step on the compute threads
  double first_layer_seconds = 0;
  double attention_seconds = 0;  // of these, between keys and values and the output product
  double borrowed_seconds = 0;   // of other workers' CPUs, together
};

struct EngineOptions {
  std::string model_path;
  enum class Pool { kPrefill, kDecode } pool = Pool::kDecode;  // which weight format is kept
  // Where packed weights are kept for the next start, best first; empty: nowhere.
  std::vector<std::string> packed_folders;
  device::Isa isa = device::Isa::kScalar;
  Arithmetic arithmetic = Arithmetic::kCanonical;
  device::TeamOptions team;  // ranks = tensor parallel degree
  int segments = 1;          // S; the degree divides it
  int block_tokens = 32;
  // Of the KV pool, on every rank: blocks of its first group; 0 = as many as kv_bytes hold.
  int blocks = 0;
  int window_blocks = 0;  // of its second group; 0 = in proportion (cache_shape.h)
  uint64_t kv_bytes = 0;  // of the KV pool, all ranks together
  // Whether the pool's memory is touched before create() returns, or by a thread of its own
  // afterwards, which serves sooner (kv_cache/prefault.h).
  kv_cache::Touch touch = kv_cache::Touch::kNow;
  // kShared where there is a file for it, else kPrivate.
  kv_cache::Backing backing = kv_cache::Backing::kPrivate;
  int max_context = 0;  // tokens; 0 = the file's own, which it must not exceed
  int max_batch_tokens = 8192;
};

// Called on a compute thread when K and V of the step are stored for a layer on a rank, before
// attention of that layer reads them. Only enqueues.
using KvWritten = std::function<void(int rank, int layer)>;

class Engine {
 public:
  // Reads and packs the model, allocates the pool, starts the compute threads. Blocking (seconds).
  // Errors name what is wrong: of the file (not_found, invalid_argument, unsupported), of an option
  // (invalid_argument), of memory (resource_exhausted). Call it before other threads start: AMX is
  // asked for once a process.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  ~Engine();  // precondition: no step is running

  // max_context is that of the options if they set one.
  const model::ModelDescription& description() const;
  const model::SegmentPlan& segments() const;
  U128 model_hash() const;
  // "inv-1:split512:S" with S the number of segments; "fast-1:split512:S" of the fast arithmetic.
  std::string numerics_id() const;
  bool is_fast() const;  // of the fast arithmetic
  int ranks() const;
  const kv_cache::KvPool& pool(int rank) const;
  size_t weight_bytes(int rank) const;             // resident, of that rank
  size_t replicated_weight_bytes(int rank) const;  // of these, what every rank holds
  int threads() const;                             // of its own, all ranks together
  uint64_t progress() const;                       // moves with every layer of a running step

  void set_kv_written(KvWritten callback);  // before the first step

  // Of every position of `tokens`: how far this engine's prediction is from the canonical
  // arithmetic's, the mean Kullback-Leibler divergence in nats; 0 of a canonical engine, infinite
  // if a logit is no number. Blocking, on the compute threads; before the first step, and it calls
  // no callback. As many tokens count as fit the pool, at least one.
  double divergence(std::span<const TokenId> tokens);

  // Errors of the plan itself (no token or more than max_batch_tokens, token out of the vocabulary,
  // block table too short) abort: plans are ours. Precondition: no step is running; `done` may
  // submit the next.
  void submit(std::unique_ptr<BatchPlan> plan, std::function<void(StepOutput)> done);
  // submit() and wait; for `baton generate`, benchmarks and tests.
  StepOutput run(std::unique_ptr<BatchPlan> plan);

  // What all compute threads together can reach at this moment on these weights: the yardstick of
  // benchmarks. Takes about twice `time`. Precondition: no step is running.
  model::MachineProbe probe(Duration time = 20ms);

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace baton::engine
