#include "deploy/baton/serve_bench/streamed_answer.h"

#include <utility>

#include "deploy/baton/serve_bench/completion_event.h"

namespace baton::serve_bench {
namespace {

constexpr size_t kMaxErrorBody = 64 * 1024;

}  // namespace

std::string outcome_label(Outcome outcome, int http_status) {
  switch (outcome) {
    case Outcome::kComplete:
      return "complete";
    case Outcome::kConnection:
      return "connection";
    case Outcome::kTimeout:
      return "timeout";
    case Outcome::kHttpStatus:
      return "http_" + std::to_string(http_status);
    case Outcome::kErrorEvent:
      return "error_event";
    case Outcome::kCutStream:
      return "cut_stream";
    case Outcome::kBadAnswer:
      return "bad_answer";
    case Outcome::kEmpty:
      return "empty_answer";
    case Outcome::kConnectionLimit:
      return "connection_limit";
    case Outcome::kStopped:
      return "stopped";
  }
  return "unknown";
}

StreamedAnswer::StreamedAnswer(AnswerObserver& observer, std::function<void()> on_over)
    : observer_(observer),
      on_over_(std::move(on_over)),
      events_([this](std::string_view data) { return take_event(data); }) {}

void StreamedAnswer::on_head(const http::Response& head) {
  end_.http_status = head.status;
  streams_ = head.status == 200 &&
             head.headers.get("Content-Type").find("text/event-stream") != std::string_view::npos;
}

bool StreamedAnswer::on_body(std::string_view bytes, TimePoint at) {
  at_ = at;
  if (streams_) {
    // What follows [DONE] is read and passed over, so that the connection can be used again.
    if (!done_) {
      events_.feed(bytes);
    }
    return !failed_ && events_.status().ok();
  }
  text_ += bytes.substr(0, kMaxErrorBody - std::min(kMaxErrorBody, text_.size()));
  return true;
}

bool StreamedAnswer::take_event(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    end_.at = at_;
    return false;
  }
  const CompletionEvent event = parse_completion_event(data);
  if (!event.valid || event.error) {
    failed_ = true;
    end_.outcome = event.valid ? Outcome::kErrorEvent : Outcome::kBadAnswer;
    end_.message = event.valid ? event.message : "an event of the stream is no JSON object";
    return false;
  }
  // A last event may finish an answer whose only token has no text.
  if (event.token || (event.finished && !any_token_)) {
    any_token_ = true;
    observer_.on_tokens(at_);
  }
  finished_ = finished_ || event.finished;
  if (event.prompt_tokens >= 0) {
    end_.prompt_tokens = event.prompt_tokens;
  }
  if (event.completion_tokens >= 0) {
    end_.completion_tokens = event.completion_tokens;
  }
  return true;
}

void StreamedAnswer::judge(const Status& status) {
  const auto fail = [this](Outcome outcome, std::string message) {
    end_.outcome = outcome;
    end_.message = std::move(message);
  };
  if (failed_) {
    return;
  }
  if (!events_.status().ok()) {
    return fail(Outcome::kBadAnswer, events_.status().message());
  }
  // An answer that is complete by its own words stays so, whatever becomes of the connection.
  const bool answered = done_ || (finished_ && status.ok());
  if (!status.ok() && !answered) {
    const Outcome outcome = status.code() == StatusCode::kDeadlineExceeded ? Outcome::kTimeout
                            : status.code() == StatusCode::kCancelled      ? Outcome::kStopped
                            : status.code() == StatusCode::kInternal       ? Outcome::kBadAnswer
                                                                           : Outcome::kConnection;
    return fail(outcome, status.message());
  }
  if (end_.http_status != 200) {
    return fail(Outcome::kHttpStatus, error_text(text_));
  }
  if (!streams_) {
    return fail(Outcome::kBadAnswer,
                "the answer is no event stream; the server seems not to support \"stream\"");
  }
  if (!answered) {
    return fail(Outcome::kCutStream, "the stream ended without a finish reason and [DONE]");
  }
  if (!any_token_) {
    return fail(Outcome::kEmpty, "the answer is complete, but has no token");
  }
  end_.outcome = Outcome::kComplete;
}

void StreamedAnswer::on_end(const Status& status, TimePoint at) {
  at_ = at;
  if (streams_ && !done_ && !failed_) {
    events_.finish();
  }
  if (!done_) {
    end_.at = at;
  }
  judge(status);
  on_over_();
  observer_.on_end(end_);
}

}  // namespace baton::serve_bench
