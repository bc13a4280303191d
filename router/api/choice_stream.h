#pragma once

// One choice on its way to the client: token ids in, text out. Applies what belongs to text: the
// incremental detokeniser (whole characters only) and stop strings. Token rules have been applied
// by the workers.

#include <optional>
#include <string>
#include <vector>

#include "common/tokenizer/incremental_detokenizer.h"
#include "common/wire/messages.h"
#include "router/api/stop_matcher.h"
#include "router/tool_calls/answer_reader.h"

namespace baton::router {

// What is new to tell the client about a choice.
struct ChoiceDelta {
  int choice = 0;
  bool first = false;  // the first of this choice
  std::string text;
  std::vector<TokenId> ids;
  std::vector<wire::TokenLogprob> logprobs;  // one per id when asked for
  wire::FinishReason finish = wire::FinishReason::kNone;
  std::optional<std::string> stop_text;  // the stop string that ended it
  // Split off the text by an AnswerReader.
  std::string reasoning;
  std::vector<CallPiece> calls;
  bool has_calls = false;  // the choice made calls: here or before
};

class ChoiceStream {
 public:
  struct Options {
    std::vector<std::string> stop;
    bool include_stop_text = false;
    bool skip_special_tokens = true;
    int min_tokens = 0;
    std::vector<TokenId> stop_token_ids = {};
    std::vector<TokenId> shown_ids = {};  // special tokens whose text is kept
  };
  ChoiceStream(const tokenizer::Tokenizer& tokenizer, int choice, const Options& options)
      : tokenizer_(&tokenizer),
        detokenizer_(tokenizer, {.skip_special = options.skip_special_tokens, .continues = true}),
        stops_(options.stop),
        options_(options),
        choice_(choice) {}

  // The next token; `finish` as the worker saw it. Precondition: not finished.
  ChoiceDelta push(TokenId id, const wire::TokenLogprob* logprob, wire::FinishReason finish);

  // The end without another token: the worker repeats what was seen and says that it was the last.
  // Precondition: not finished.
  ChoiceDelta end(wire::FinishReason finish);

  const std::vector<TokenId>& ids() const { return ids_; }
  bool finished() const { return finish_ != wire::FinishReason::kNone; }
  wire::FinishReason finish() const { return finish_; }
  int choice() const { return choice_; }

 private:
  const tokenizer::Tokenizer* tokenizer_;
  tokenizer::IncrementalDetokenizer detokenizer_;
  StopMatcher stops_;
  Options options_;
  int choice_;
  std::vector<TokenId> ids_;
  wire::FinishReason finish_ = wire::FinishReason::kNone;
};

}  // namespace baton::router
