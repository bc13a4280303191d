#pragma once

// How the load reaches a server, and time with it: HTTP in the program, a simulated server with
// simulated time in tests.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace baton::serve_bench {

// How a request ended.
enum class Outcome : uint8_t {
  kComplete,
  kConnection,       // refused, reset, cut by the transport
  kTimeout,          // --request-timeout
  kHttpStatus,       // an answer other than 200
  kErrorEvent,       // an error inside the stream
  kCutStream,        // ended without a finish reason and without [DONE]
  kBadAnswer,        // 200, but no event stream of completions
  kEmpty,            // complete, but without a token
  kConnectionLimit,  // --max-connections were in use
  kStopped,          // ended by us
};
// "timeout"; kHttpStatus with its number: "http_503".
std::string outcome_label(Outcome outcome, int http_status);

struct AnswerEnd {
  Outcome outcome = Outcome::kComplete;
  int http_status = 0;
  std::string message{};       // of a failure
  int64_t prompt_tokens = -1;  // as the server counted; -1 = it did not
  int64_t completion_tokens = -1;
  TimePoint at{};
};

class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  virtual void on_tokens(TimePoint at) = 0;       // an event that brought one or more
  virtual void on_end(const AnswerEnd& end) = 0;  // the last call, exactly once
};

struct CompletionCall {
  std::string_view path;
  std::string body;
  Duration timeout{};
};

class CompletionPort {
 public:
  virtual ~CompletionPort() = default;
  virtual TimePoint now() const = 0;
  // Calls of the observer come inside run_until() and cancel_all(), and on_end() also inside
  // start(). They may start more.
  virtual void start(CompletionCall call, AnswerObserver& observer) = 0;
  // Every answer in progress ends as kStopped.
  virtual void cancel_all() = 0;
  // Works until then, or until interrupt(), which calls use.
  virtual void run_until(TimePoint until) = 0;
  virtual void interrupt() = 0;
};

}  // namespace baton::serve_bench
