#pragma once

// Splits the text of one answer, as it arrives, into reasoning, content and calls. Nothing that may
// be the beginning of a marker is given out before it is known to be none, and text that only looks
// like a call is content in the end: everything that the model wrote comes out, but for markers and
// the space around them. The pieces joined do not depend on how the text was cut.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "router/tool_calls/answer_form.h"
#include "router/tool_calls/call_reader.h"
#include "router/tool_calls/tools.h"

namespace baton::router {

struct CallPiece {
  int index = 0;     // of the call in its answer
  std::string name;  // set in the first piece of a call, empty after it
  std::string arguments;
};

struct AnswerPiece {
  std::string reasoning;
  std::string content;
  std::vector<CallPiece> calls;
  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

class AnswerReader {
 public:
  // Both outlive the reader.
  AnswerReader(const AnswerForm& form, const ToolRequest& tools);

  AnswerPiece feed(std::string_view text);
  // The end. `cut`: at the limit of tokens, so that a marker or call may be left half-written.
  AnswerPiece finish(bool cut);
  int calls() const { return calls_; }

 private:
  enum class At : uint8_t {
    kStart,  // reasoning may begin here
    kReasoning,
    kContent,
    kCallBegin,  // after the marker
    kCallName,   // Mistral's newer form: the name before its arguments
    kCall,       // inside an object
    kCallEnd,    // after an object
    kIgnored,    // after a call that broke in its arguments
  };

  bool step(AnswerPiece& out);  // false: more text is needed
  bool start();
  bool reasoning(AnswerPiece& out);
  bool content(AnswerPiece& out);
  bool call_begin(AnswerPiece& out);
  bool call_name(AnswerPiece& out);
  bool call(AnswerPiece& out);
  bool name_call(AnswerPiece& out);
  void give_arguments(AnswerPiece& out);
  bool call_end();
  bool ignored();
  void begin_call(CallReader reader);
  void not_a_call(AnswerPiece& out);
  void drop_space();
  bool named_call() const { return at_ == At::kCall && named_; }
  // What of held_ can be no part of `marker` nor space before it.
  size_t settled(std::string_view marker) const;

  const AnswerForm& form_;
  const ToolRequest& tools_;
  At at_;
  std::string held_;  // not looked at, or not decided yet
  std::string raw_;   // of the call that is being read, while it may still be none
  CallReader reader_;
  bool skip_space_ = false;  // before what comes next
  bool in_list_ = false;     // Mistral's list of calls
  bool tentative_ = false;   // an object without a marker before it
  bool named_ = false;       // the call has been given out
  bool shown_ = true;        // the call is given out at all (parallel)
  bool any_content_ = false;
  int calls_ = 0;
};

}  // namespace baton::router
