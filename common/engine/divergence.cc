#include "common/engine/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace baton::engine {
namespace {

constexpr int kStepTokens = 8;

// The tokens of a step, and the logits of each.
struct Rows {
  std::span<const TokenId> tokens;
  int first_position = 0;
  size_t vocab = 0;
};

std::vector<float> logits_of(device::ComputeTeam& team, model::Forward& forward, const Rows& rows,
                             std::span<const BlockId> blocks) {
  const model::ForwardSequence sequence = {.tokens = rows.tokens,
                                           .first_position = rows.first_position,
                                           .blocks = blocks,
                                           .window_blocks = blocks,
                                           .logits = model::LogitsWanted::kAll};
  forward.prepare({&sequence, 1});
  std::vector<float> logits(rows.tokens.size() * rows.vocab);
  model::ForwardHooks hooks;
  hooks.logits = [&](device::TeamThread& thread, const model::LogitsChunk& chunk) {
    for (int row = 0; row < chunk.rows && thread.rank == 0 && thread.thread == 0; ++row) {
      const float* from = chunk.logits + static_cast<ptrdiff_t>(row) * chunk.stride;
      std::copy_n(from, rows.vocab,
                  logits.begin() + static_cast<ptrdiff_t>(rows.vocab) * (chunk.first + row));
    }
  };
  team.run([&](device::TeamThread& thread) { forward.run(thread, hooks); });
  return logits;
}

double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(logit - largest);
  }
  return largest + std::log(sum);
}

double divergence_of(std::span<const float> reference, std::span<const float> tested) {
  const double reference_total = log_sum_exp(reference);
  const double tested_total = log_sum_exp(tested);
  double sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = reference[i] - reference_total;
    sum += std::exp(log_p) * (log_p - (tested[i] - tested_total));
  }
  return std::isfinite(sum) ? std::max(sum, 0.0) : std::numeric_limits<double>::infinity();
}

}  // namespace

double mean_divergence(device::ComputeTeam& team, const kv_cache::KvPool& pool,
                       const model::ModelDescription& description, model::Forward& reference,
                       model::Forward& tested, std::span<const TokenId> tokens) {
  const std::vector<int>& sizes = pool.group_blocks();
  std::vector<BlockId> blocks(static_cast<size_t>(*std::ranges::min_element(sizes)));
  std::iota(blocks.begin(), blocks.end(), BlockId{0});
  const size_t room = blocks.size() * static_cast<size_t>(pool.layout().block_tokens);
  tokens =
      tokens.first(std::min({tokens.size(), room, static_cast<size_t>(description.max_context)}));
  // Each pass has a cache of its own: all positions of one come before those of the other.
  std::vector<std::vector<float>> expected;
  double sum = 0;
  for (model::Forward* const forward : {&reference, &tested}) {
    for (size_t at = 0; at < tokens.size(); at += kStepTokens) {
      const Rows rows = {
          .tokens = tokens.subspan(at, std::min<size_t>(kStepTokens, tokens.size() - at)),
          .first_position = static_cast<int>(at),
          .vocab = static_cast<size_t>(description.vocab)};
      std::vector<float> logits = logits_of(team, *forward, rows, blocks);
      if (forward == &reference) {
        expected.push_back(std::move(logits));
        continue;
      }
      for (size_t row = 0; row < rows.tokens.size(); ++row) {
        const std::span<const float> wanted(expected[at / kStepTokens]);
        sum += divergence_of(wanted.subspan(row * rows.vocab, rows.vocab),
                             std::span(logits).subspan(row * rows.vocab, rows.vocab));
      }
    }
  }
  return sum / static_cast<double>(tokens.size());
}

}  // namespace baton::engine
