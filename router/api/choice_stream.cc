#include "router/api/choice_stream.h"

#include <algorithm>

namespace baton::router {

ChoiceDelta ChoiceStream::push(TokenId id, const wire::TokenLogprob* logprob,
                               wire::FinishReason finish) {
  ChoiceDelta delta;
  delta.choice = choice_;
  delta.first = ids_.empty();
  delta.ids = {id};
  if (logprob != nullptr) {
    delta.logprobs = {*logprob};
  }
  ids_.push_back(id);
  // A worker stops at a token: the model's end, which is no text of the answer whatever
  // skip_special_tokens says, one of stop_token_ids, which is shown like a stop string, or the last
  // of a text after which its grammar allows no more.
  const std::vector<TokenId>& stop_ids = options_.stop_token_ids;
  const bool stopped = std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end();
  const bool hidden = finish == wire::FinishReason::kStop &&
                      (tokenizer_->is_end(id) || (stopped && !options_.include_stop_text));
  const std::vector<TokenId>& shown_ids = options_.shown_ids;
  const bool shown = std::find(shown_ids.begin(), shown_ids.end(), id) != shown_ids.end();
  std::string text = hidden ? std::string() : detokenizer_.feed(id, shown);
  if (finish != wire::FinishReason::kNone) {
    text += detokenizer_.finish();
  }
  const bool stops_count = static_cast<int>(ids_.size()) >= options_.min_tokens;
  StopMatcher::Out out = stops_.feed(text, stops_count);
  delta.text = std::move(out.text);
  if (out.matched >= 0) {
    const std::string& stop = options_.stop[static_cast<size_t>(out.matched)];
    delta.stop_text = stop;
    if (options_.include_stop_text) {
      delta.text += stop;
    }
    finish = wire::FinishReason::kStop;
  } else if (finish != wire::FinishReason::kNone) {
    delta.text += stops_.finish();
  }
  finish_ = finish;
  delta.finish = finish;
  return delta;
}

ChoiceDelta ChoiceStream::end(wire::FinishReason finish) {
  ChoiceDelta delta;
  delta.choice = choice_;
  delta.first = ids_.empty();
  const bool stops_count = static_cast<int>(ids_.size()) >= options_.min_tokens;
  StopMatcher::Out out = stops_.feed(detokenizer_.finish(), stops_count);
  delta.text = std::move(out.text) + stops_.finish();
  finish_ = finish;
  delta.finish = finish;
  return delta;
}

}  // namespace baton::router
