// A record as JSON: the line of the request log, and what `baton explain` draws.

#include <algorithm>
#include <utility>

#include "router/json_text.h"
#include "router/request_record.h"

namespace baton::router {
namespace {

constexpr TimePoint kNever{};

void write_sizes(JsonText& json, const RequestRecord& record) {
  json.text("endpoint", record.chat ? "chat" : "completion").flag("stream", record.stream);
  json.count("prompts", record.prompts).count("choices", record.choices);
  json.count("max_tokens", record.max_tokens).count("prompt_tokens", record.prompt_tokens);
  json.count("completion_tokens", record.completion_tokens);
}

void write_transfer(JsonText& json, const wire::RunTimings& timings) {
  json.text("transport", timings.transport);
  json.count("transfer_bytes", static_cast<int64_t>(timings.transfer_bytes));
  json.number("transfer_ms", timings.transfer_ms).number("grant_ms", timings.grant_ms);
  json.number("first_data_ms", timings.first_data_ms);
  json.number("transfer_visible_ms", timings.transfer_visible_ms);
}

void write_prompt(JsonText& json, const wire::RunTimings& timings) {
  json.count("prompt_tokens_computed", timings.prompt_tokens_computed);
  json.count("prompt_tokens_cached", timings.prompt_tokens_cached);
  json.count("prefill_chunks", timings.prefill_chunks);
  json.number("prefill_ms", timings.prefill_ms);
}

// Milliseconds since the arrival; nothing for what did not happen.
class Timeline {
 public:
  explicit Timeline(const RequestRecord& record) : record_(record) {}

  std::optional<double> ms(TimePoint at) const {
    return at == kNever ? std::nullopt : std::optional(to_ms(at - record_.arrived));
  }
  void add(TimePoint at, std::string event, std::string detail = {}) {
    if (at != kNever) {
      events_.push_back({at, events_.size(), std::move(event), std::move(detail)});
    }
  }
  void add_attempt(const AttemptRecord& attempt);
  void write(JsonText& json) {
    std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return a.at != b.at ? a.at < b.at : a.order < b.order;
    });
    json.name("timeline").open_array();
    for (const Event& event : events_) {
      json.open_object().number("at_ms", ms(event.at)).text("event", event.event);
      json.text("detail", event.detail).close_object();
    }
    json.close_array();
  }

 private:
  struct Event {
    TimePoint at{};
    size_t order = 0;  // of those at the same time
    std::string event, detail;
  };
  const RequestRecord& record_;
  std::vector<Event> events_;
};

Duration milliseconds(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

// Where the parts of an attempt lie on the router's clock: workers tell only how long they took,
// the first token's arrival says when the prefill was over.
struct Parts {
  TimePoint queued{}, prefill_begin{}, prefill_end{};
  TimePoint transfer_begin{}, first_data{}, transfer_end{};
};

Parts parts_of(const AttemptRecord& attempt) {
  Parts parts;
  if (!attempt.measured || attempt.first_token == kNever) {
    return parts;
  }
  const wire::RunTimings& timings = attempt.timings;
  parts.prefill_end = attempt.first_token;
  parts.prefill_begin =
      std::max(attempt.placed, parts.prefill_end - milliseconds(timings.prefill_ms));
  parts.queued = std::max(attempt.placed, parts.prefill_begin - milliseconds(timings.queue_ms));
  if (!timings.transport.empty()) {
    parts.transfer_end = parts.prefill_end + milliseconds(timings.transfer_visible_ms);
    parts.transfer_begin = parts.transfer_end - milliseconds(timings.transfer_ms);
    if (timings.transfer_bytes > 0) {
      parts.first_data = parts.transfer_begin + milliseconds(timings.first_data_ms);
    }
  }
  return parts;
}

void Timeline::add_attempt(const AttemptRecord& attempt) {
  const bool local = attempt.prefill_worker.empty();
  const std::string where = local ? "prefill and decode on " + attempt.decode_worker
                                  : attempt.prefill_worker + " -> " + attempt.decode_worker;
  if (!attempt.moved_because.empty()) {
    add(attempt.placed, "moved", attempt.moved_because);
  }
  add(attempt.placed, "placed",
      std::string(attempt.decision) + " (" + std::string(attempt.reason) + "): " + where);
  const std::string worker = local ? attempt.decode_worker : attempt.prefill_worker;
  const Parts parts = parts_of(attempt);
  add(parts.queued, "queued", "on " + worker);
  add(parts.prefill_begin, "prefill begins",
      std::to_string(attempt.timings.prompt_tokens_computed) + " tokens in " +
          std::to_string(attempt.timings.prefill_chunks) + " steps, " +
          std::to_string(attempt.timings.prompt_tokens_cached) + " cached");
  add(attempt.first_token, "first token", "from " + worker);
  add(parts.first_data, "transfer: first byte", "over " + attempt.timings.transport);
  add(parts.transfer_end, "transfer: committed",
      std::to_string(attempt.timings.transfer_bytes) + " bytes");
  for (const AttemptRecord::Leg& leg : attempt.legs) {
    add(leg.at, "next decode worker", leg.decode_worker + ": " + leg.reason);
  }
}

void write_phase(JsonText& json, const Timeline& timeline, std::string_view name, TimePoint begin,
                 TimePoint end, std::optional<double> predicted = std::nullopt) {
  if (begin == kNever || end == kNever) {
    return;
  }
  json.open_object().text("name", name);
  json.number("begin_ms", timeline.ms(begin)).number("end_ms", timeline.ms(std::max(begin, end)));
  json.number("predicted_ms", predicted).close_object();
}

// Of the main attempt. What is not over yet ends now.
void write_phases(JsonText& json, const Timeline& timeline, const RequestRecord& record,
                  TimePoint now) {
  json.name("phases").open_array();
  write_phase(json, timeline, "read", record.arrived, record.tokenised);
  if (const AttemptRecord* attempt = record.main_attempt()) {
    const PredictedTimes& predicted = attempt->predicted;
    const Parts parts = parts_of(*attempt);
    if (parts.prefill_end == kNever) {
      const TimePoint end = attempt->ended != kNever ? attempt->ended : now;
      write_phase(json, timeline, "wait", record.tokenised, attempt->placed);
      write_phase(json, timeline, "queue, prefill", attempt->placed, end, predicted.ttft_ms());
    } else {
      write_phase(json, timeline, "wait", record.tokenised, parts.queued);
      write_phase(json, timeline, "queue", parts.queued, parts.prefill_begin, predicted.queue_ms);
      write_phase(json, timeline, "prefill", parts.prefill_begin, parts.prefill_end,
                  predicted.prefill_ms);
    }
    write_phase(json, timeline, "transfer", parts.transfer_begin, parts.transfer_end);
    if (parts.transfer_end != kNever) {
      write_phase(json, timeline, "transfer visible", parts.prefill_end, parts.transfer_end,
                  predicted.transfer_ms + predicted.blocks_ms);
    }
  }
  write_phase(json, timeline, "decode", record.first_token,
              record.over() ? record.last_token : now);
  json.close_array();
}

void write_candidate(JsonText& json, const CandidateTimes& candidate) {
  json.open_object().text("worker", candidate.worker);
  json.text("role", candidate.role == wire::Role::kPrefill ? "prefill" : "decode");
  json.flag("chosen", candidate.chosen).count("uncached_tokens", candidate.uncached_tokens);
  json.number("queue_ms", candidate.queue_ms).number("prefill_ms", candidate.prefill_ms);
  json.number("transfer_ms", candidate.transfer_ms).number("blocks_ms", candidate.blocks_ms);
  json.number("slowdown_ms", candidate.slowdown_ms).close_object();
}

void write_attempt(JsonText& json, const Timeline& timeline, const AttemptRecord& attempt) {
  json.open_object().count("prompt", static_cast<int64_t>(attempt.prompt));
  json.count("attempt", attempt.attempt).number("placed_ms", timeline.ms(attempt.placed));
  json.text("decision", attempt.decision).text("reason", attempt.reason);
  json.text("moved_because", attempt.moved_because);
  json.text("prefill", attempt.prefill_worker).text("decode", attempt.decode_worker);
  const PredictedTimes& predicted = attempt.predicted;
  json.name("predicted").open_object().number("queue_ms", predicted.queue_ms);
  json.number("prefill_ms", predicted.prefill_ms);
  json.number("transfer_visible_ms", predicted.transfer_ms);
  json.number("blocks_ms", predicted.blocks_ms).number("ttft_ms", predicted.ttft_ms());
  json.close_object().name("measured");
  if (attempt.measured) {
    json.open_object().number("queue_ms", attempt.timings.queue_ms);
    write_prompt(json, attempt.timings);
    write_transfer(json, attempt.timings);
    json.close_object();
  } else {
    json.null();
  }
  json.number("first_token_ms", timeline.ms(attempt.first_token));
  json.number("handed_over_ms", timeline.ms(attempt.handed_over));
  json.number("ended_ms", timeline.ms(attempt.ended));
  json.name("considered").open_array();
  for (const CandidateTimes& candidate : attempt.considered) {
    write_candidate(json, candidate);
  }
  json.close_array().close_object();
}

std::string_view state_of(const RequestRecord& record) {
  if (!record.over()) {
    return record.first_token == kNever ? "waiting" : "running";
  }
  return record.finish_reason == "error"   ? "failed"
         : record.finish_reason == "abort" ? "cancelled"
                                           : "finished";
}

}  // namespace

std::string log_line(const RequestRecord& record) {
  const AttemptRecord none;
  const AttemptRecord* main = record.main_attempt();
  const AttemptRecord& attempt = main == nullptr ? none : *main;
  const auto since = [&record](TimePoint at) {
    return at == kNever ? std::nullopt : std::optional(to_ms(at - record.arrived));
  };
  JsonText json;
  json.open_object().count("created", record.created).text("id", record.answer_id);
  json.text("request_id", record.request_id);
  write_sizes(json, record);
  json.text("finish_reason", record.finish_reason).text("error", record.error);
  json.text("decision", attempt.decision).text("reason", attempt.reason);
  json.text("prefill", attempt.prefill_worker).text("decode", attempt.decode_worker);
  json.count("attempts", static_cast<int64_t>(record.attempts.size()) + record.attempts_forgotten);
  json.count("moves", record.moves);
  json.number("predicted_queue_ms", attempt.predicted.queue_ms);
  json.number("predicted_prefill_ms", attempt.predicted.prefill_ms);
  json.number("predicted_transfer_visible_ms", attempt.predicted.transfer_ms);
  json.number("predicted_blocks_ms", attempt.predicted.blocks_ms);
  json.number("predicted_ttft_ms", attempt.predicted.ttft_ms());
  json.number("read_ms", since(record.tokenised)).number("placed_ms", since(attempt.placed));
  json.number("queue_ms", attempt.timings.queue_ms);
  write_prompt(json, attempt.timings);
  write_transfer(json, attempt.timings);
  json.number("ttft_ms", since(record.first_token));
  json.number("second_token_gap_ms", record.second_token == kNever
                                         ? std::nullopt
                                         : std::optional(record.second_token_gap_ms));
  json.number("decode_ms", record.first_token == kNever
                               ? std::nullopt
                               : std::optional(to_ms(record.last_token - record.first_token)));
  json.number("total_ms", since(record.ended)).close_object();
  return json.take();
}

std::string explanation(const RequestRecord& record, TimePoint now) {
  Timeline timeline(record);
  timeline.add(record.arrived, "arrived");
  timeline.add(record.tokenised, "tokenised", std::to_string(record.prompt_tokens) + " tokens");
  for (const AttemptRecord& attempt : record.attempts) {
    timeline.add_attempt(attempt);
  }
  timeline.add(record.second_token, "second token");
  timeline.add(record.last_token, record.over() ? "last token" : "newest token",
               std::to_string(record.completion_tokens) + " tokens");
  timeline.add(record.ended, "end",
               record.finish_reason + (record.error.empty() ? "" : ": " + record.error_message));
  JsonText json;
  json.open_object().text("id", record.answer_id).text("request_id", record.request_id);
  json.text("state", state_of(record)).count("created", record.created);
  write_sizes(json, record);
  json.count("cached_tokens", record.cached_tokens);
  json.text("finish_reason", record.finish_reason).text("error", record.error);
  json.text("error_message", record.error_message).count("moves", record.moves);
  json.number("ttft_ms", timeline.ms(record.first_token));
  json.number("tpot_ms",
              record.second_token == kNever ? std::nullopt : std::optional(record.tpot_ms()));
  json.number("total_ms", timeline.ms(record.over() ? record.ended : now));
  write_phases(json, timeline, record, now);
  timeline.write(json);
  json.name("attempts").open_array();
  for (const AttemptRecord& attempt : record.attempts) {
    write_attempt(json, timeline, attempt);
  }
  json.close_array().count("attempts_forgotten", record.attempts_forgotten).close_object();
  return json.take();
}

}  // namespace baton::router
