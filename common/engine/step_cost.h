#pragma once

// What the arithmetic of a step needs at least, as docs/performance.md counts it: the numerators of
// every share of a roofline. Pure functions.

#include "common/engine/engine.h"

namespace baton::engine {

// Products and attention of `tokens` new tokens at positions first_position.. of one sequence, of
// which the last `logit_rows` get logits. An addition and a multiplication are two. Layers with a
// window attend to what is in it. Biases, norms and activations are not counted.
double flops(const model::ModelDescription& model, int tokens, int first_position, int logit_rows);

// Of these, attention: queries by keys and weights by values.
double attention_flops(const model::ModelDescription& model, int tokens, int first_position);

// Positions whose K and V are read for the last `tokens` of `context` tokens, sum of all layers.
double read_positions(const model::ModelDescription& model, int context, int tokens);

struct StepCost {
  double flops = 0;
  // All weights once, and the KV of every sequence up to its last new token, as far as a layer's
  // window reaches.
  double bytes = 0;
};
StepCost step_cost(const Engine& engine, const BatchPlan& plan);

// The least time that the step takes on a machine with these peaks; 0 when they are not known.
double roofline_seconds(const StepCost& cost, const model::MachineProbe& peak);

}  // namespace baton::engine
