#include "common/grammar/matcher.h"

#include <algorithm>
#include <bit>
#include <limits>
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

Status Matcher::mask(std::span<float> logits, std::span<const TokenId> end_ids) {
  BATON_RETURN_IF_ERROR(status_);
  auto found = recognizer_->mask(place_);
  for (int tries = 0; !found && tries < 3; ++tries) {
    BATON_RETURN_IF_ERROR(restore());
    found = recognizer_->mask(place_, false);
  }
  if (!found) {
    return resource_exhausted("the grammar's memory is taken by other requests");
  }
  BATON_RETURN_IF_ERROR(found->status());
  const TokenMask& mask = ***found;
  const bool ends = may_end();
  if (!mask.any && !ends) {
    return unsupported("no token of the vocabulary goes on as the grammar asks");
  }
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<std::pair<TokenId, float>> kept;
  for (const TokenId id : end_ids) {
    if (ends && id >= 0 && static_cast<size_t>(id) < logits.size()) {
      kept.emplace_back(id, logits[static_cast<size_t>(id)]);
    }
  }
  for (size_t i = 0; i < logits.size(); i += 64) {
    const uint64_t word = i / 64 < mask.words.size() ? mask.words[i / 64] : 0;
    const size_t end = std::min(i + 64, logits.size());
    if (word == 0) {
      std::fill(logits.begin() + static_cast<ptrdiff_t>(i),
                logits.begin() + static_cast<ptrdiff_t>(end), kNever);
      continue;
    }
    for (uint64_t left = ~word; left != 0; left &= left - 1) {
      const size_t at = i + static_cast<size_t>(std::countr_zero(left));
      if (at < end) {
        logits[at] = kNever;
      }
    }
  }
  for (const auto& [id, logit] : kept) {
    logits[static_cast<size_t>(id)] = logit;
  }
  return Status();
}

}  // namespace baton::grammar
