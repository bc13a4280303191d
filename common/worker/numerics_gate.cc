#include "common/worker/numerics_gate.h"

#include <cmath>
#include <cstdio>
#include <string_view>

#include "common/base/log.h"
#include "common/tokenizer/load_tokenizer.h"

namespace baton::worker {
namespace {

// Prose, numbers, code and another language, so that common and rare tokens are among it.
constexpr std::string_view kText =
    "The harbour was quiet when the ferry came in, half an hour late, with its lights still on. "
    "Of the 412 passengers that the company had counted in Bergen, 37 had stayed below, and none "
    "of them could say why the engines had stopped at 3:15. \"Fog,\" said the captain; the report "
    "of 1987 says something else.\n\n"
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n\n"
    "Le lendemain, la mer était calme et le port ouvert. Water boils at 100 degrees Celsius "
    "because";

std::string in_nats(double divergence) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2e", divergence);
  return text;
}

}  // namespace

Status judge_divergence(double divergence, bool forced) {
  if (divergence <= kLargestDivergence || forced) {
    return Status();
  }
  return unsupported("numerics: fast moves this model's predictions too far: a divergence of " +
                     in_nats(divergence) + " nats, limit " + in_nats(kLargestDivergence) +
                     "; use numerics: invariant, or numerics_force: true to serve it all the same");
}

Status check_numerics(engine::Engine& engine, const std::string& model_path, bool forced) {
  if (!engine.is_fast()) {
    return Status();
  }
  BATON_ASSIGN_OR_RETURN(const tokenizer::Tokenizer tokenizer,
                         tokenizer::load_tokenizer(model_path));
  const double divergence = engine.divergence(tokenizer.encode(kText));
  log_info("fast numerics measured against invariant",
           {{"divergence_nats", in_nats(divergence)}, {"limit", in_nats(kLargestDivergence)}});
  return judge_divergence(divergence, forced);
}

}  // namespace baton::worker
