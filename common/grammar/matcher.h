#pragma once

// Where one choice of one request stands in its grammar. Derived from the tokens so far, so a
// preempted or moved request builds it anew and goes on the same.

#include <memory>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/grammar/recognizer.h"

namespace baton::grammar {

// Not thread-safe; matchers that share a recognizer may be used by different threads.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Recognizer> recognizer);

  // The next token of the text. invalid_argument when the grammar does not allow it there:
  // allowed() says so from then on.
  Status accept(TokenId id);
  // The tokens that may come next; where may_end(), an end token may, too. Errors: that of
  // accept(); resource_exhausted as the recognizer says; unsupported when no token of the
  // vocabulary goes on.
  Result<std::shared_ptr<const TokenMask>> allowed();
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
