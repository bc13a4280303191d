#include "decode_worker/beam_search.h"

#include <algorithm>
#include <cmath>

namespace baton::decode_worker {

BeamSearch::BeamSearch(Options options) : options_(std::move(options)), open_{Open{}} {
  std::sort(options_.ends.begin(), options_.ends.end());
}

bool BeamSearch::ends(TokenId token) const {
  return std::binary_search(options_.ends.begin(), options_.ends.end(), token);
}

double BeamSearch::score(double sum, int output_tokens) const {
  return sum / std::pow(options_.prompt_tokens + output_tokens, options_.length_penalty);
}

int64_t BeamSearch::add_node(const Open& parent, TokenId token, float logprob, int64_t row) {
  nodes_.push_back({parent.node, token, logprob, row});
  return static_cast<int64_t>(nodes_.size()) - 1;
}

// What cannot be among the best any more is dropped at once, so that memory grows with the beams
// alone.
bool BeamSearch::counts(double score) const {
  return closed_.size() < static_cast<size_t>(options_.width) || score > closed_.back().score;
}

void BeamSearch::close(Closed closed) {
  const auto after = std::upper_bound(
      closed_.begin(), closed_.end(), closed,
      [](const Closed& added, const Closed& known) { return added.score > known.score; });
  closed_.insert(after, closed);
  if (closed_.size() > static_cast<size_t>(options_.width)) {
    closed_.pop_back();
  }
}

std::vector<BeamSearch::Successor> BeamSearch::advance(
    const std::vector<wire::TokenLogprob>& rows) {
  const auto taken = static_cast<size_t>(2 * options_.width);
  const auto first_row = static_cast<int64_t>(rows_.size());
  const auto row_of = [&](size_t beam) {
    return options_.logprobs < 0 ? -1 : first_row + static_cast<int64_t>(beam);
  };
  std::vector<Candidate> candidates;
  for (size_t beam = 0; beam < std::min(rows.size(), open_.size()); ++beam) {
    const Top& top = rows[beam].top;
    if (options_.logprobs >= 0) {
      const size_t kept = std::min(top.size(), static_cast<size_t>(options_.logprobs));
      rows_.emplace_back(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    for (size_t i = 0; i < std::min(top.size(), taken); ++i) {
      const auto [token, logprob] = top[i];
      const double sum = open_[beam].sum + static_cast<double>(logprob);
      if (ends(token) && counts(score(sum, tokens_))) {
        close({add_node(open_[beam], token, logprob, row_of(beam)), score(sum, tokens_),
               wire::FinishReason::kStop});
      } else if (!ends(token)) {
        candidates.push_back({static_cast<int>(beam), token, logprob, sum, candidates.size()});
      }
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.sum != b.sum ? a.sum > b.sum : a.number < b.number;
  });
  candidates.resize(std::min(candidates.size(), static_cast<size_t>(options_.width)));
  ++tokens_;
  std::vector<Open> next;
  std::vector<Successor> successors;
  for (const Candidate& candidate : candidates) {
    const auto parent = static_cast<size_t>(candidate.parent);
    next.push_back({add_node(open_[parent], candidate.token, candidate.logprob, row_of(parent)),
                    candidate.sum});
    successors.push_back({candidate.parent, candidate.token});
  }
  open_ = std::move(next);
  if (tokens_ >= options_.max_tokens) {
    for (const Open& beam : open_) {
      close({beam.node, score(beam.sum, tokens_), wire::FinishReason::kLength});
    }
    open_.clear();
  } else if (settled()) {
    open_.clear();
  }
  if (open_.empty()) {
    successors.clear();
  }
  return successors;
}

// Sums only fall. With a penalty above 0 a beam scores best at the greatest length, else at the
// smallest that it can still end with.
bool BeamSearch::settled() const {
  if (open_.empty() || closed_.size() < static_cast<size_t>(options_.width)) {
    return open_.empty();
  }
  const int tokens = options_.length_penalty > 0 ? options_.max_tokens : tokens_;
  return score(open_[0].sum, tokens) <= closed_.back().score;
}

BeamSearch::Hypothesis BeamSearch::hypothesis(const Closed& closed) const {
  Hypothesis out;
  out.finish = closed.finish;
  out.score = closed.score;
  for (int64_t at = closed.node; at >= 0; at = nodes_[static_cast<size_t>(at)].before) {
    const Node& node = nodes_[static_cast<size_t>(at)];
    out.output.push_back(node.token);
    if (node.row >= 0) {
      out.logprobs.push_back({node.logprob, rows_[static_cast<size_t>(node.row)], 0});
    }
  }
  std::reverse(out.output.begin(), out.output.end());
  std::reverse(out.logprobs.begin(), out.logprobs.end());
  return out;
}

std::vector<BeamSearch::Hypothesis> BeamSearch::best() const {
  std::vector<Hypothesis> out;
  for (const Closed& closed : closed_) {
    out.push_back(hypothesis(closed));
  }
  return out;
}

}  // namespace baton::decode_worker
