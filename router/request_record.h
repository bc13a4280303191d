#pragma once

// What is remembered of a request: when it got how far, where it was placed and why, what was
// predicted and what was measured. No text and no tokens. Of it the request log has one line
// (request_log.h), `baton explain` the whole (request_history.h), `baton status` percentiles
// (load_window.h). Plain data of the router loop.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/load_window.h"
#include "router/placement.h"

namespace baton::router {

// One placement of one prompt of a request.
struct AttemptRecord {
  size_t prompt = 0;
  uint32_t attempt = 0;
  TimePoint placed{};
  std::string_view decision, reason;
  std::string moved_because;  // why the one before it ended; empty for the first
  PredictedTimes predicted;
  std::vector<CandidateTimes> considered;
  std::string prefill_worker;  // empty when local
  std::string decode_worker;   // of the leg in use
  struct Leg {
    TimePoint at{};
    std::string decode_worker, reason;
  };
  std::vector<Leg> legs;  // after the first
  TimePoint first_token{};
  TimePoint handed_over{};  // the first word of the decode worker
  TimePoint ended{};
  bool measured = false;  // `timings` are there
  wire::RunTimings timings;
};

struct RequestRecord {
  std::string request_id;  // x-request-id
  std::string answer_id;   // "chatcmpl-..."
  int64_t created = 0;     // unix time
  bool chat = false;
  bool stream = false;
  bool at_once = false;  // all output comes at the end: its tokens have no latencies of their own
  int64_t prompts = 1;
  int64_t choices = 1;
  int64_t prompt_tokens = 0;
  int64_t max_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t longest_choice = 0;  // tokens

  TimePoint arrived{}, tokenised{};
  TimePoint first_token{}, second_token{}, last_token{};  // second: of one choice
  double second_token_gap_ms = 0;
  TimePoint ended{};
  std::string finish_reason;  // "stop", "length", "mixed", "error", "abort"; empty while it runs
  std::string error;          // label of the status that ended it
  std::string error_message;

  std::vector<AttemptRecord> attempts;
  int main = -1;  // the attempt whose worker sent the first token
  int moves = 0;  // placements beyond the first of each prompt
  int attempts_forgotten = 0;

  static constexpr size_t kMostAttempts = 12;

  bool over() const { return ended != TimePoint{}; }
  // The attempt that the request's own parts are taken from: the main one, or the last.
  const AttemptRecord* main_attempt() const;
  // What passed before the main attempt's worker began to compute, as vLLM counts it: its queue,
  // and the attempts that were lost before.
  double queue_ms() const;
  double tpot_ms() const;  // 0 without a second token
  // Once it is over: no more than kMostAttempts are kept, the main one among them.
  void trim();
};

EndedRequest ended_request(const RequestRecord& record);

// One line for the request log, without a line feed.
std::string log_line(const RequestRecord& record);

// All of it, as /baton/requests/ID answers (docs/operations.md). Times are milliseconds since the
// arrival.
std::string explanation(const RequestRecord& record, TimePoint now);

}  // namespace baton::router
