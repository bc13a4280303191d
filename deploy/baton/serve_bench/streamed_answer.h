#pragma once

// The answer to one streamed completion: bytes of the exchange to tokens, counts and an outcome.

#include <functional>
#include <string>
#include <string_view>

#include "common/http/async_client.h"
#include "common/http/event_stream.h"
#include "deploy/baton/serve_bench/completion_port.h"

namespace baton::serve_bench {

class StreamedAnswer final : public http::ExchangeObserver {
 public:
  // `on_over` runs before the observer's on_end(): the exchange will not call again.
  StreamedAnswer(AnswerObserver& observer, std::function<void()> on_over);

  void on_head(const http::Response& head) override;
  bool on_body(std::string_view bytes, TimePoint at) override;
  void on_end(const Status& status, TimePoint at) override;

 private:
  bool take_event(std::string_view data);
  void judge(const Status& status);

  AnswerObserver& observer_;
  std::function<void()> on_over_;
  http::EventStreamReader events_;
  AnswerEnd end_;
  std::string text_;  // of an answer that is no stream, up to a limit
  TimePoint at_;      // of the bytes being read
  bool streams_ = false;
  bool any_token_ = false;
  bool finished_ = false;  // a finish reason came
  bool done_ = false;      // [DONE] came
  bool failed_ = false;    // end_ says how
};

}  // namespace baton::serve_bench
