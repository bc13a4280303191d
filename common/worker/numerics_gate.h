#pragma once

// Whether `numerics: fast` may serve a model: how far it moves the predictions on a built-in text,
// measured at start (docs/numerics.md "Modes").

#include <string>

#include "common/base/status.h"
#include "common/engine/engine.h"

namespace baton::worker {

// Mean Kullback-Leibler divergence in nats, above which the mode is refused.
inline constexpr double kLargestDivergence = 5e-3;

// Measures on the compute threads (some tenths of a second with a small model) and logs the result.
// Nothing to do for a canonical engine; errors of load_tokenizer() else. `unsupported` above the
// limit, unless forced. Call it before the engine's first step.
Status check_numerics(engine::Engine& engine, const std::string& model_path, bool forced);

// The verdict alone. Divergence may be infinite.
Status judge_divergence(double divergence, bool forced);

}  // namespace baton::worker
