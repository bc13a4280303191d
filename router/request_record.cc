#include "router/request_record.h"

#include <algorithm>

namespace baton::router {

const AttemptRecord* RequestRecord::main_attempt() const {
  if (main >= 0) {
    return &attempts[static_cast<size_t>(main)];
  }
  return attempts.empty() ? nullptr : &attempts.back();
}

double RequestRecord::queue_ms() const {
  const AttemptRecord* attempt = main_attempt();
  if (attempt == nullptr) {
    return 0;
  }
  const auto first = std::find_if(attempts.begin(), attempts.end(), [&](const AttemptRecord& a) {
    return a.prompt == attempt->prompt;
  });
  return attempt->timings.queue_ms + to_ms(attempt->placed - first->placed);
}

double RequestRecord::tpot_ms() const {
  return longest_choice > 1
             ? to_ms(last_token - first_token) / static_cast<double>(longest_choice - 1)
             : 0;
}

void RequestRecord::trim() {
  if (attempts.size() <= kMostAttempts) {
    return;
  }
  attempts_forgotten = static_cast<int>(attempts.size() - kMostAttempts);
  if (main >= static_cast<int>(kMostAttempts)) {
    std::swap(attempts[kMostAttempts - 1], attempts[static_cast<size_t>(main)]);
    main = static_cast<int>(kMostAttempts) - 1;
  }
  attempts.resize(kMostAttempts);
  attempts.shrink_to_fit();
}

EndedRequest ended_request(const RequestRecord& record) {
  EndedRequest ended;
  ended.ended = record.ended;
  ended.failed = record.finish_reason == "error";
  ended.moved = record.moves;
  for (const AttemptRecord& attempt : record.attempts) {
    ++(attempt.decision == "local" ? ended.local : ended.remote);
  }
  if (record.first_token == TimePoint{}) {
    return ended;
  }
  if (!record.at_once) {
    ended.ttft_ms = to_ms(record.first_token - record.arrived);
  }
  if (record.second_token != TimePoint{}) {
    ended.tpot_ms = record.tpot_ms();
    ended.second_token_gap_ms = record.second_token_gap_ms;
  }
  const AttemptRecord* attempt = record.main_attempt();
  if (attempt != nullptr && attempt->measured) {
    ended.queue_ms = record.queue_ms();
    ended.prefill_ms = attempt->timings.prefill_ms;
    if (!attempt->timings.transport.empty()) {
      ended.transfer_visible_ms = attempt->timings.transfer_visible_ms;
    }
  }
  return ended;
}

}  // namespace baton::router
