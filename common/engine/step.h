#pragma once

// Inside of engine.h: one step between its plan and its output. Laid out by the owner, then used by
// all compute threads, each on work of its own.

#include <memory>
#include <vector>

#include "common/device/compute_team.h"
#include "common/engine/engine.h"
#include "common/kv_cache/kv_pool.h"
#include "common/model/forward.h"
#include "common/sampling/scratch.h"

namespace baton::engine {

// What a compute thread keeps between steps.
struct ThreadBuffers {
  sampling::Scratch sampling;
  std::vector<float> row;  // [vocab], a copy where several choices sample from one row
};

class Step final {
 public:
  explicit Step(int vocab) : vocab_(vocab) {}

  // Takes the plan. What it returns is valid until finish().
  std::span<const model::ForwardSequence> begin(std::unique_ptr<BatchPlan> plan);

  // On every thread of a rank: copies and zeroed values in that rank's pool. A barrier follows.
  void change_blocks(const device::TeamThread& thread, const kv_cache::KvPool& pool) const;
  // On every thread of all ranks: hands out logits and samples.
  void take_logits(const device::TeamThread& thread, const model::LogitsChunk& chunk,
                   ThreadBuffers& buffers);

  // On one thread, when all are through.
  StepOutput finish();

 private:
  // A row of logits that is copied out, scored, sampled from, or several of these.
  struct Item {
    int row = 0;  // among all rows with logits
    int sequence = 0;
    int sequence_row = 0;  // among the sequence's rows with logits
    int sample = -1;       // index in `samples` of the sequence; -1: copied out only
    bool copy_out = false;
    bool score = false;
    bool alone = false;  // nobody else reads the row
    Status error;
  };
  void run(Item& item, const model::LogitsChunk& chunk, ThreadBuffers& buffers);

  int vocab_;
  std::unique_ptr<BatchPlan> plan_;
  std::vector<model::ForwardSequence> sequences_;
  std::vector<Item> items_;  // ascending by row
  std::vector<SequenceOutput> outputs_;
};

}  // namespace baton::engine
