#pragma once

// `baton bench quality`: how far a model's arithmetic is from a recorded reference, fed with the
// reference's own tokens (teacher forcing) so that one difference does not make all later ones.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "deploy/baton/engine_flags.h"

namespace baton::cli {

// One step of a recorded answer.
struct ReferenceStep {
  TokenId token = 0;  // the most likely one
  double margin = 0;  // between the two largest logits
  std::vector<TokenId> top_ids;
  std::vector<double> top_logprobs;  // of top_ids
};
struct ReferencePrompt {
  std::vector<TokenId> prompt;
  std::vector<ReferenceStep> steps;
};

// {"items": [{"prompt_ids", "greedy_ids", "margin", "top_ids", "top_logprobs"}]}; other keys are
// notes. invalid_argument names the item and field.
Result<std::vector<ReferencePrompt>> parse_reference(std::string_view json, int vocab_size);

struct QualityResult {
  int tokens = 0;
  double top1_agreement = 0;
  // Mean over the steps of KL(reference || ours) over the recorded ids and, as one more class, all
  // others together.
  double kl_top64_mean = 0;
  // The reference's largest margin at a step where a greedy text would first part from it; 0 when
  // none does.
  double worst_margin = 0;
};

class QualityMeter {
 public:
  void begin_prompt() { parted_ = false; }
  // `logits`: ours, [vocab].
  void add(const ReferenceStep& step, std::span<const float> logits);
  QualityResult result() const;

 private:
  bool parted_ = false;
  int tokens_ = 0;
  int agreed_ = 0;
  double kl_sum_ = 0;
  double worst_margin_ = 0;
};

struct QualityOptions {
  EngineFlags engine;
  std::string reference;
  bool json = false;
};

// The exit status of the program.
int run_quality(const QualityOptions& options);

}  // namespace baton::cli
