#include "common/engine/step_cost.h"

#include <algorithm>

namespace baton::engine {

double flops(const model::ModelDescription& model, int tokens, int first_position, int logit_rows) {
  const double hidden = model.hidden;
  const double query = double(model.heads) * model.head_dim;
  const double kv = double(model.kv_heads) * model.head_dim;
  const double layer = hidden * (query + 2 * kv) + query * hidden + 3 * hidden * model.ffn;
  const double head = hidden * model.vocab;
  const double mean_context = first_position + tokens / 2.0;
  return 2 * (layer * model.layers * tokens + head * logit_rows) +
         4 * double(model.layers) * query * mean_context * tokens;
}

StepCost step_cost(const Engine& engine, const BatchPlan& plan) {
  StepCost cost;
  double positions = 0;
  for (const SequencePlan& sequence : plan.sequences) {
    const auto tokens = static_cast<int>(sequence.tokens.size());
    const int rows = sequence.logits == LogitsWanted::kNone   ? 0
                     : sequence.logits == LogitsWanted::kLast ? 1
                                                              : tokens;
    cost.flops += flops(engine.description(), tokens, sequence.first_position, rows);
    positions += sequence.first_position + tokens;
  }
  for (int rank = 0; rank < engine.ranks(); ++rank) {
    const kv_cache::KvPool& pool = engine.pool(rank);
    const double per_token =
        static_cast<double>(pool.block_bytes()) * pool.layers() / pool.layout().block_tokens;
    cost.bytes += static_cast<double>(engine.weight_bytes(rank)) + per_token * positions;
  }
  return cost;
}

double roofline_seconds(const StepCost& cost, const model::MachineProbe& peak) {
  if (peak.flops <= 0 || peak.read_bytes_per_s <= 0) {
    return 0;
  }
  return std::max(cost.flops / peak.flops, cost.bytes / peak.read_bytes_per_s);
}

}  // namespace baton::engine
