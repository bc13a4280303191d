#include "common/sampling/restrictions.h"

#include <algorithm>
#include <limits>

namespace baton::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

}  // namespace

bool Restrictions::wanted(const SamplingParams& params) {
  return !params.allowed_token_ids.empty() || !params.bad_words.empty();
}

Restrictions::Restrictions(const SamplingParams& params, std::span<const TokenId> output,
                           int vocab_size)
    : allowed_(params.allowed_token_ids), bad_words_(params.bad_words) {
  const auto outside = [vocab_size](TokenId id) { return id < 0 || id >= vocab_size; };
  std::erase_if(allowed_, outside);
  std::sort(allowed_.begin(), allowed_.end());
  allowed_.erase(std::unique(allowed_.begin(), allowed_.end()), allowed_.end());
  std::erase_if(bad_words_, [&outside](const std::vector<TokenId>& word) {
    return word.empty() || outside(word.back());
  });
  for (const std::vector<TokenId>& word : bad_words_) {
    longest_ = std::max(longest_, word.size() - 1);
  }
  const size_t kept = std::min(longest_, output.size());
  tail_.assign(output.end() - static_cast<std::ptrdiff_t>(kept), output.end());
}

void Restrictions::take_output(TokenId id) {
  if (longest_ == 0) {
    return;
  }
  if (tail_.size() == longest_) {
    tail_.erase(tail_.begin());
  }
  tail_.push_back(id);
}

bool Restrictions::completed_by_next(const std::vector<TokenId>& word) const {
  const size_t before = word.size() - 1;
  return before <= tail_.size() && std::equal(word.begin(), word.end() - 1,
                                              tail_.end() - static_cast<std::ptrdiff_t>(before));
}

void Restrictions::apply(std::span<float> logits) const {
  if (!allowed_.empty()) {
    size_t begin = 0;
    for (const TokenId id : allowed_) {
      const auto at = static_cast<size_t>(id);
      std::fill(logits.begin() + static_cast<std::ptrdiff_t>(begin),
                logits.begin() + static_cast<std::ptrdiff_t>(at), kMasked);
      begin = at + 1;
    }
    std::fill(logits.begin() + static_cast<std::ptrdiff_t>(begin), logits.end(), kMasked);
  }
  for (const std::vector<TokenId>& word : bad_words_) {
    if (completed_by_next(word)) {
      logits[static_cast<size_t>(word.back())] = kMasked;
    }
  }
}

}  // namespace baton::sampling
