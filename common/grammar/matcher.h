#pragma once

// Where one choice of one request stands in its grammar. Derived from the tokens so far, so a
// preempted or moved request builds it anew and goes on the same.

#include <memory>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/grammar/recognizer.h"

namespace baton::grammar {

// Not thread-safe; matchers that share a recognizer may be used by different threads.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Recognizer> recognizer);

  // The next token of the text. invalid_argument when the grammar does not allow it there: mask()
  // says so from then on.
  Status accept(TokenId id);
  // Sets the logits ([vocab], f32) of tokens that may not come next to -infinity. `end_ids` may
  // come where the text may end. Errors: that of accept(); resource_exhausted as the recognizer
  // says; unsupported when no token of the vocabulary goes on.
  Status mask(std::span<float> logits, std::span<const TokenId> end_ids);
  // The text is whole and nothing can follow.
  bool must_end() const { return status_.ok() && place_.must_end; }
  bool may_end() const { return status_.ok() && place_.may_end; }

 private:
  Status restore();

  std::shared_ptr<Recognizer> recognizer_;
  Recognizer::Place place_;
  std::vector<TokenId> tokens_;
  Status status_;
};

}  // namespace baton::grammar
