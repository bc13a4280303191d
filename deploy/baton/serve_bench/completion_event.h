#pragma once

// One event of a streamed completion, as any OpenAI-compatible server may write it.

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::serve_bench {

struct CompletionEvent {
  bool valid = false;     // a JSON object
  bool error = false;     // `message` says which
  bool token = false;     // brings one token or more of the answer
  bool finished = false;  // has a finish reason
  std::string message;
  int64_t prompt_tokens = -1;  // of `usage`; -1 = not there
  int64_t completion_tokens = -1;
};

// An event brings tokens when its first choice has text (or reasoning text, or token ids), or goes
// on without text because what the token says is not complete yet. The opening event of a chat,
// which only names the role, brings none.
CompletionEvent parse_completion_event(std::string_view data);

// The message of an error body in any of the usual shapes; else its beginning, on one line.
std::string error_text(std::string_view body);

}  // namespace baton::serve_bench
