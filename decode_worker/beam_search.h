#pragma once

// Beam search over one prompt, with the results of vLLM's: every step takes the 2 * width most
// likely tokens of each beam's row. Those that end the output make a hypothesis; of the others the
// `width` with the highest sum of log-probabilities are the beams of the next step. A hypothesis
// scores that sum / length^length_penalty, where the length counts the prompt, too, but not the
// token that ends it. In a tie the one that was found first comes first.
//
// Plain arithmetic, without a model: the same rows give the same result wherever they come from.
// Not thread-safe. Never blocks.

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace baton::decode_worker {

class BeamSearch {
 public:
  struct Options {
    int width = 1;
    double length_penalty = 1;
    int prompt_tokens = 1;      // at least 1
    int max_tokens = 1;         // of output, at least 1
    std::vector<TokenId> ends;  // tokens that end an output
    int logprobs = -1;          // how many top ones of each token are reported; -1 none at all
  };
  // A beam of the next step.
  struct Successor {
    int parent = 0;  // the beam of this step that it goes on from
    TokenId token = 0;
  };
  struct Hypothesis {
    std::vector<TokenId> output;  // with the token that ended it
    std::vector<wire::TokenLogprob> logprobs;
    wire::FinishReason finish = wire::FinishReason::kNone;
    double score = 0;
  };

  explicit BeamSearch(Options options);

  // What each beam of this step, in order, is most likely followed by: `top` of at least 2 * width
  // tokens (fewer are fewer candidates). In the first step there is one beam, the prompt. None of
  // the result: the search is over, because the outputs are as long as they may be, nothing is
  // left to go on, or nothing that goes on can still be among the best.
  std::vector<Successor> advance(const std::vector<wire::TokenLogprob>& rows);

  // The best hypotheses, at most `width`, best first; after the end. As many as that if every row
  // had 2 * width tokens.
  std::vector<Hypothesis> best() const;

 private:
  using Top = std::vector<std::pair<TokenId, float>>;
  // Outputs share their beginnings: each is the way from its last token to the first.
  struct Node {
    int64_t before = -1;  // -1: none
    TokenId token = 0;
    float logprob = 0;
    int64_t row = -1;  // in rows_; -1 when nothing is reported
  };
  struct Open {
    int64_t node = -1;
    double sum = 0;
  };
  struct Closed {
    int64_t node = -1;
    double score = 0;
    wire::FinishReason finish = wire::FinishReason::kNone;
  };
  struct Candidate {
    int parent = 0;
    TokenId token = 0;
    float logprob = 0;
    double sum = 0;
    size_t number = 0;  // equal sums stay in the order in which they were found
  };

  double score(double sum, int output_tokens) const;
  bool settled() const;
  bool counts(double score) const;
  bool ends(TokenId token) const;
  int64_t add_node(const Open& parent, TokenId token, float logprob, int64_t row);
  void close(Closed closed);
  Hypothesis hypothesis(const Closed& closed) const;

  Options options_;
  int tokens_ = 0;  // of output that every open beam has
  std::vector<Node> nodes_;
  std::vector<Top> rows_;
  std::vector<Open> open_;
  std::vector<Closed> closed_;  // best first, at most `width`
};

}  // namespace baton::decode_worker
