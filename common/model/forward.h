#pragma once

// The layers: one forward pass over a ragged batch, built from a model's description, its packed
// weights and the kernels, as one SPMD function that every thread of every rank runs.
//
//   embed > { norm > qkv > rope, store K V > attention > output product > norm > gate, up >
//   down product } per layer > norm > head
//
// Ranks are threads of one process, so the residual stream and the norm output are shared and their
// rows are split over all threads of all ranks; q, k, v, the attention output and the feed-forward
// activations are a rank's own. Row-split products leave one partial result per reduction segment,
// which the next norm adds up in ascending order, whatever rank made them: every degree gives the
// same bits (docs/numerics.md). Five barriers a layer, two of them between ranks; two more between
// ranks for more than 16 rows, where norms are shared out.
//
// Threads: prepare() on the owner's thread while no pass runs; run() on all team threads at once.
// Between them nothing changes. Allocates only when a batch is larger than all before it.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/device/compute_team.h"
#include "common/device/isa.h"
#include "common/kernels/math/arithmetic.h"
#include "common/kv_cache/kv_pool.h"
#include "common/model/weights.h"

namespace baton::model {

using kernels::Arithmetic;

// Which rows of a sequence get logits.
enum class LogitsWanted : uint8_t {
  kNone,  // a chunk that does not end its prompt
  kLast,  // the last new token
  kAll,   // every new token (echo, prompt log-probabilities, quality runs)
};

// n >= 1 new tokens of a sequence. The spans live until the pass has run.
struct ForwardSequence {
  std::span<const TokenId> tokens;  // at positions first_position..
  int first_position = 0;
  // Block tables from position 0 of the cache's first group and, if it has two, of its second; they
  // cover all new tokens and, of a window group, what the first of them sees.
  std::span<const BlockId> blocks;
  std::span<const BlockId> window_blocks;
  LogitsWanted logits = LogitsWanted::kNone;

  std::span<const BlockId> table(int group) const { return group == 0 ? blocks : window_blocks; }
};

// Some of the rows that get logits, in the order of the batch.
struct LogitsChunk {
  int first = 0;  // index of the first among all rows with logits
  int rows = 0;
  float* logits = nullptr;  // [rows, stride]; the first vocab columns count; may be overwritten
  int stride = 0;
};

struct ForwardHooks {
  // On one thread of the rank, when K and V of the batch are stored for a layer on a rank, before
  // attention reads them. Must not block.
  std::function<void(int rank, int layer)> kv_written;
  // On the same thread, when attention of the layer is done on that rank.
  std::function<void(int rank, int layer)> attended;
  // On one thread, when a layer is done.
  std::function<void(int layer)> layer_done;
  // On all threads of all ranks at once, which share out the rows among themselves.
  std::function<void(device::TeamThread&, const LogitsChunk&)> logits;
};

struct ForwardState;

class Forward final {
 public:
  struct Options {
    device::Isa isa = device::Isa::kScalar;
    Arithmetic arithmetic = Arithmetic::kCanonical;  // of the products
    int max_batch_tokens = 0;
    // Of a rank; for how many it pays to cut work. No result depends on it.
    int threads = 1;
  };
  // `pools` has one entry per rank. All are borrowed and outlive this.
  Forward(const Weights& weights, std::span<const kv_cache::KvPool> pools, const Options& options);
  ~Forward();

  // Lays out the next pass. Preconditions (checked): 1..max_batch_tokens tokens, all in the
  // vocabulary, positions below max_context, blocks of the pool that cover them.
  void prepare(std::span<const ForwardSequence> sequences);
  int rows() const;

  // The pass itself; every thread of the team calls it once with the same hooks.
  void run(device::TeamThread& thread, const ForwardHooks& hooks) const;

  // Of the activations that are allocated now.
  size_t activation_bytes() const;

 private:
  std::unique_ptr<ForwardState> state_;
};

}  // namespace baton::model
