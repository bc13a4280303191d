#include "common/engine/step.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton::engine {

int BatchPlan::total_tokens() const {
  size_t total = 0;
  for (const SequencePlan& sequence : sequences) {
    total += sequence.tokens.size();
  }
  return static_cast<int>(total);
}

std::span<const model::ForwardSequence> Step::begin(std::unique_ptr<BatchPlan> plan) {
  BATON_CHECK(plan != nullptr && plan_ == nullptr, "one step at a time");
  plan_ = std::move(plan);
  sequences_.clear();
  items_.clear();
  outputs_.clear();
  int row = 0;
  for (size_t s = 0; s < plan_->sequences.size(); ++s) {
    const SequencePlan& sequence = plan_->sequences[s];
    sequences_.push_back({.tokens = sequence.tokens,
                          .first_position = sequence.first_position,
                          .blocks = sequence.blocks,
                          .window_blocks = sequence.window_blocks,
                          .logits = sequence.logits});
    const int rows = sequence.logits == LogitsWanted::kNone ? 0
                     : sequence.logits == LogitsWanted::kLast
                         ? 1
                         : static_cast<int>(sequence.tokens.size());
    const auto samples = static_cast<int>(sequence.samples.size());
    const auto scores = static_cast<int>(sequence.score.size());
    BATON_CHECK(rows > 0 || samples == 0, "a sequence that samples wants logits");
    BATON_CHECK(scores <= rows, "a sequence that is scored wants logits of all rows");
    SequenceOutput output;
    output.id = sequence.id;
    output.samples.resize(sequence.samples.size());
    output.scores.resize(sequence.score.size());
    if (sequence.return_logits) {
      output.logits.resize(static_cast<size_t>(rows) * static_cast<size_t>(vocab_));
    }
    outputs_.push_back(std::move(output));
    for (int i = 0; i < rows; ++i, ++row) {
      const int count = i == rows - 1 ? samples : 0;
      Item item;
      item.row = row;
      item.sequence = static_cast<int>(s);
      item.sequence_row = i;
      item.copy_out = sequence.return_logits;
      item.score = i < scores;
      item.alone = count <= 1;
      item.sample = count > 0 ? 0 : -1;
      if (item.copy_out || item.score || count > 0) {
        items_.push_back(item);
      }
      item.copy_out = false;
      item.score = false;
      for (item.sample = 1; item.sample < count; ++item.sample) {
        items_.push_back(item);
      }
    }
  }
  return sequences_;
}

void Step::change_blocks(const device::TeamThread& thread, const kv_cache::KvPool& pool) const {
  // Layers are shared out, not blocks: the order within a layer matters, since a block may be
  // copied from and then be given to a new owner.
  for (int layer = thread.thread; layer < pool.layers(); layer += thread.threads) {
    const int group = pool.layout().group_of(layer);
    for (const BlockCopy& copy : plan_->copies) {
      if (copy.group == group) {
        pool.copy_block(layer, copy.from, copy.to);
      }
    }
    for (const BlockId id : group == 0 ? plan_->zero_values : plan_->window_zero_values) {
      pool.zero_values(layer, id);
    }
  }
}

void Step::take_logits(const device::TeamThread& thread, const model::LogitsChunk& chunk,
                       ThreadBuffers& buffers) {
  const auto first = std::ranges::lower_bound(items_, chunk.first, std::less<>(),
                                              [](const Item& i) { return i.row; });
  const int threads = thread.ranks * thread.threads;
  const int mine = thread.rank * thread.threads + thread.thread;
  int index = 0;
  for (auto item = first; item != items_.end() && item->row < chunk.first + chunk.rows; ++item) {
    if (index++ % threads == mine) {
      run(*item, chunk, buffers);
    }
  }
}

namespace {

// The rows of a padded head that are no tokens count for a prompt as little as for samples.
std::span<const float> scored_part(std::span<const float> row, const SequencePlan& sequence,
                                   TokenId token) {
  const int vocab = sequence.score_vocab;
  const bool cut = vocab > token && static_cast<size_t>(vocab) < row.size();
  return cut ? row.first(static_cast<size_t>(vocab)) : row;
}

}  // namespace

void Step::run(Item& item, const model::LogitsChunk& chunk, ThreadBuffers& buffers) {
  const auto vocab = static_cast<size_t>(vocab_);
  std::span<float> row(chunk.logits + static_cast<size_t>(item.row - chunk.first) *
                                          static_cast<size_t>(chunk.stride),
                       vocab);
  SequenceOutput& output = outputs_[static_cast<size_t>(item.sequence)];
  const SequencePlan& sequence = plan_->sequences[static_cast<size_t>(item.sequence)];
  const auto at = static_cast<size_t>(item.sequence_row);
  if (item.copy_out) {
    std::ranges::copy(row, output.logits.begin() + static_cast<ptrdiff_t>(vocab * at));
  }
  if (item.score) {
    Result<sampling::TokenLogprobs> scored =
        sampling::token_logprobs(scored_part(row, sequence, sequence.score[at]), sequence.score[at],
                                 sequence.score_top, buffers.sampling);
    if (scored.ok()) {
      output.scores[at] = std::move(scored).value();
    } else {
      item.error = scored.status();
    }
  }
  if (item.sample < 0) {
    return;
  }
  if (!item.alone) {
    buffers.row.assign(row.begin(), row.end());
    row = buffers.row;
  }
  const auto index = static_cast<size_t>(item.sample);
  const SampleRequest& request = sequence.samples[index];
  Result<sampling::Sampled> sampled = request.sampler->sample(row, buffers.sampling);
  if (sampled.ok()) {
    output.samples[index] = std::move(sampled).value();
  } else {
    item.error = sampled.status();
  }
}

StepOutput Step::finish() {
  for (Item& item : items_) {
    Status& error = outputs_[static_cast<size_t>(item.sequence)].error;
    if (error.ok() && !item.error.ok()) {
      error = std::move(item.error);
    }
  }
  StepOutput output;
  output.sequences = std::exchange(outputs_, {});
  output.plan = std::move(plan_);
  return output;
}

}  // namespace baton::engine
