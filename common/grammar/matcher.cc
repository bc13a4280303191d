#include "common/grammar/matcher.h"

#include <optional>
#include <utility>

namespace baton::grammar {

Matcher::Matcher(std::shared_ptr<Recognizer> recognizer)
    : recognizer_(std::move(recognizer)), place_(recognizer_->start()) {}

// The recognizer has forgotten the place: reads the text again. Others may make it forget while
// this happens, but only when they have filled it, so a second time is as good as never.
Status Matcher::restore() {
  for (int tries = 0; tries < 3; ++tries) {
    place_ = recognizer_->start();
    bool forgotten = false;
    for (const TokenId id : tokens_) {
      const auto next = recognizer_->advance(place_, recognizer_->vocabulary().bytes_of(id));
      forgotten = !next.has_value();
      if (forgotten) {
        break;
      }
      BATON_RETURN_IF_ERROR(next->status());
      place_ = **next;
    }
    if (!forgotten) {
      return Status();
    }
  }
  return resource_exhausted("the grammar's memory is taken by other requests");
}

Status Matcher::accept(TokenId id) {
  BATON_RETURN_IF_ERROR(status_);
  const std::string_view bytes = recognizer_->vocabulary().bytes_of(id);
  if (bytes.empty()) {
    status_ = invalid_argument("token " + std::to_string(id) + " cannot be part of a text");
    return status_;
  }
  auto next = recognizer_->advance(place_, bytes);
  tokens_.push_back(id);
  if (!next) {
    status_ = restore();
  } else if (next->ok()) {
    place_ = **next;
  } else {
    status_ = next->status();
  }
  return status_;
}

Result<std::shared_ptr<const TokenMask>> Matcher::allowed() {
  BATON_RETURN_IF_ERROR(status_);
  auto found = recognizer_->mask(place_);
  for (int tries = 0; !found && tries < 3; ++tries) {
    BATON_RETURN_IF_ERROR(restore());
    found = recognizer_->mask(place_, false);
  }
  if (!found) {
    return resource_exhausted("the grammar's memory is taken by other requests");
  }
  if (found->ok() && !(**found)->any && !may_end()) {
    return unsupported("no token of the vocabulary goes on as the grammar asks");
  }
  return *std::move(found);
}

}  // namespace baton::grammar
