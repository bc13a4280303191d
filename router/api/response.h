#pragma once

// The JSON of answers: one object for a plain request, SSE events for a stream, in the shapes of
// the OpenAI API. Built as text: model output may be any bytes, and every byte string becomes valid
// JSON.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/tokenizer.h"
#include "router/api/choice_stream.h"
#include "router/api/prompt_echo.h"
#include "router/api/request.h"

namespace baton::router {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

class ResponseFormat {
 public:
  // `request` and `tokenizer` outlive the format.
  ResponseFormat(const ApiRequest& request, const tokenizer::Tokenizer& tokenizer, std::string id,
                 int64_t created, std::string model)
      : request_(request),
        tokenizer_(tokenizer),
        writer_(request, tokenizer),
        id_(std::move(id)),
        created_(created),
        model_(std::move(model)),
        event_head_(event_head()) {}

  const std::string& id() const { return id_; }

  // "data: {...}\n\n" for the delta of a choice; two events when it also ends. `index` counts over
  // all prompts. `usage` may be null. `prompt` is set for the first delta of a choice.
  std::string delta_events(const ChoiceDelta& delta, int index, const Usage* usage,
                           const PromptView* prompt);
  std::string usage_event(const Usage& usage, std::string_view trace_json) const;
  static std::string_view done_event() { return "data: [DONE]\n\n"; }
  static std::string error_event(std::string_view error_json);

  // A choice's deltas joined, for an answer that is not streamed.
  struct WholeChoice {
    std::string text;
    std::vector<TokenId> ids;
    std::vector<wire::TokenLogprob> logprobs;
    wire::FinishReason finish = wire::FinishReason::kNone;
    std::optional<std::string> stop_text;
    std::string reasoning;
    std::vector<CallPiece> calls;  // each whole
    PromptView prompt;
  };
  std::string whole(const std::vector<WholeChoice>& choices, const Usage& usage,
                    std::string_view trace_json) const;

 private:
  void begin(std::string& out, std::string_view object) const;
  std::string event_head() const;
  void append_finish(std::string& out, wire::FinishReason finish, bool has_calls,
                     const std::optional<std::string>& stop_text, bool last) const;
  void append_delta(std::string& out, const ChoiceDelta& delta) const;
  void append_message(std::string& out, const WholeChoice& choice, int index) const;
  void append_calls(std::string& out, const std::vector<CallPiece>& calls, int choice,
                    bool streamed) const;
  void append_chat_logprobs(std::string& out, const std::vector<TokenId>& ids,
                            const std::vector<wire::TokenLogprob>& logprobs) const;
  // Characters of the choice's text after what is added.
  size_t append_logprobs(std::string& out, const std::vector<TokenId>& ids,
                         const std::vector<wire::TokenLogprob>& logprobs, size_t text_offset,
                         const PromptView* echoed) const;
  void append_chat_logprob(std::string& out, TokenId id, const wire::TokenLogprob& logprob) const;
  void append_prompt(std::string& out, const PromptView& prompt) const;
  void append_token_ids(std::string& out, const std::vector<TokenId>& ids,
                        const PromptView* prompt) const;
  std::string event(const ChoiceDelta& delta, int index, const Usage* usage,
                    const PromptView* prompt, bool last);

  const ApiRequest& request_;
  const tokenizer::Tokenizer& tokenizer_;
  TokenWriter writer_;
  std::string id_;
  int64_t created_;
  std::string model_;
  const std::string event_head_;      // of every event of the stream
  std::vector<size_t> text_offsets_;  // of each choice, characters sent (completions' logprobs)
};

void append_usage(std::string& out, const Usage& usage);
void append_ids(std::string& out, const std::vector<TokenId>& ids);
void append_bytes(std::string& out, std::string_view bytes);  // a list of numbers

}  // namespace baton::router
