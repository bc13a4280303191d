#include "common/engine/step_cost.h"

#include <algorithm>

namespace baton::engine {
namespace {

// Keys that the queries at positions [first, first + tokens) see, all together; a query counts
// half of the key of its own position.
double attended(double first, double tokens, int window) {
  const double end = first + tokens;
  const double edge = window > 0 ? window : end;  // from here on a query sees `window` keys
  const auto growing = [](double from, double to) { return (to - from) * (from + to) / 2; };
  if (end <= edge) {
    return growing(first, end);
  }
  return first >= edge ? tokens * edge : growing(first, edge) + (end - edge) * edge;
}

}  // namespace

double flops(const model::ModelDescription& model, int tokens, int first_position, int logit_rows) {
  const double hidden = model.hidden;
  const double query = double(model.heads) * model.head_dim;
  const double kv = double(model.kv_heads) * model.head_dim;
  const double layer = hidden * (query + 2 * kv) + query * hidden + 3 * hidden * model.ffn;
  const double head = hidden * model.vocab;
  return 2 * (layer * model.layers * tokens + head * logit_rows) +
         attention_flops(model, tokens, first_position);
}

double attention_flops(const model::ModelDescription& model, int tokens, int first_position) {
  double keys = 0;
  for (int i = 0; i < model.layers; ++i) {
    keys += attended(first_position, tokens, model.window(i));
  }
  return 4 * double(model.heads) * model.head_dim * keys;
}

double read_positions(const model::ModelDescription& model, int context, int tokens) {
  double positions = 0;
  for (int layer = 0; layer < model.layers; ++layer) {
    const int window = model.window(layer);
    positions += window > 0 ? std::min(context, window - 1 + tokens) : context;
  }
  return positions;
}

StepCost step_cost(const Engine& engine, const BatchPlan& plan) {
  StepCost cost;
  double positions = 0;  // of all layers together
  for (const SequencePlan& sequence : plan.sequences) {
    const auto tokens = static_cast<int>(sequence.tokens.size());
    const int rows = sequence.logits == LogitsWanted::kNone   ? 0
                     : sequence.logits == LogitsWanted::kLast ? 1
                                                              : tokens;
    cost.flops += flops(engine.description(), tokens, sequence.first_position, rows);
    positions += read_positions(engine.description(), sequence.first_position + tokens, tokens);
  }
  for (int rank = 0; rank < engine.ranks(); ++rank) {
    const kv_cache::KvPool& pool = engine.pool(rank);
    const double per_token = static_cast<double>(pool.block_bytes()) / pool.layout().block_tokens;
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
