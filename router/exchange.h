#pragma once

// One HTTP request to a completion endpoint from its acceptance to its last byte: what its choices
// have produced, how it is written (stream or one object), and its latencies of record. Lives on
// the router loop's thread.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/http/server.h"
#include "common/metrics/registry.h"
#include "router/api/response.h"
#include "router/request_record.h"

namespace baton::router {

// Handles of the router's metrics, looked up once.
struct RouterMetrics {
  explicit RouterMetrics(metrics::Registry& registry);
  metrics::Registry& registry;
  metrics::Histogram ttft, itl, tpot, latency, queue_time, prefill_time, decode_time;
  metrics::Histogram otel_ttft, otel_tpot, otel_duration, second_gap, predicted_error;
  metrics::Histogram request_prompt_tokens, request_generation_tokens, request_longest_choice;
  metrics::Histogram request_max_tokens, request_choices;
  metrics::Counter prompt_tokens, generation_tokens;
  metrics::Counter ended_stop, ended_length, ended_error, ended_abort;
  metrics::Gauge running, waiting;
  metrics::Gauge prefill_ready, prefill_draining, decode_ready, decode_draining;
};

class Exchange {
 public:
  struct Options {
    uint64_t id = 0;
    ApiRequest request;
    std::shared_ptr<http::Responder> responder;
    http::Headers headers;  // of the answer: request id, CORS
    std::string public_id;  // "chatcmpl-..."
    int64_t created = 0;
    TimePoint arrived{};
    TimePoint tokenised{};
  };
  Exchange(Options options, const tokenizer::Tokenizer& tokenizer, RouterMetrics& metrics);
  Exchange(const Exchange&) = delete;  // the format refers to the request inside
  Exchange& operator=(const Exchange&) = delete;

  uint64_t id() const { return options_.id; }
  const ApiRequest& request() const { return options_.request; }
  TimePoint arrived() const { return options_.arrived; }
  bool client_alive() const { return options_.responder->alive(); }
  bool started() const { return record_.first_token != TimePoint{}; }
  // Its prompts have been let in: they count from now on.
  void accepted();
  void count_cached(int64_t tokens);

  // A placement of prompt `prompt_index`; later calls refer to it by the number returned.
  size_t add_attempt(AttemptRecord attempt);
  AttemptRecord& attempt(size_t number) { return record_.attempts[number]; }
  const RequestRecord& record() const { return record_; }
  // After the end.
  RequestRecord take_record() { return std::move(record_); }

  // Of the tokens of prompt `prompt_index` but the first; before any output of it.
  void take_prompt_logprobs(size_t prompt_index, std::vector<wire::TokenLogprob> logprobs);

  // New output of a choice of prompt `prompt_index`, as placed by `attempt`.
  void deliver(ChoiceDelta delta, size_t prompt_index, size_t attempt, TimePoint now);
  // All choices of all prompts ended.
  void finish(TimePoint now, const wire::RunTimings& timings, const std::string& decode_worker);
  // Ends with an error: a status and JSON, or an error event in a stream that has begun.
  void fail(const Status& why, uint32_t retry_after_ms, TimePoint now);
  // The client went away: nothing more is written.
  void abandon(TimePoint now);

 private:
  struct ChoiceRecord {
    ResponseFormat::WholeChoice whole;
    std::unique_ptr<AnswerReader> reader;  // of a chat
    double logprob_sum = 0;                // of its tokens, when choices are compared
    TimePoint last_token{};
    int tokens = 0;
    bool ended = false;
  };
  void read_answer(ChoiceDelta& delta, ChoiceRecord& record) const;
  void keep(const ChoiceDelta& delta, ChoiceRecord& record) const;
  static ChoiceDelta without_output(const ChoiceDelta& delta);
  void observe_token(ChoiceRecord& record, size_t attempt, TimePoint now);
  void observe_first_token(size_t attempt, TimePoint now);
  void observe_end(TimePoint now);
  int64_t unfinished_choices() const;
  PromptView prompt_view(size_t prompt_index) const;
  std::vector<ResponseFormat::WholeChoice> chosen();
  std::string trace_json(const wire::RunTimings& timings, const std::string& decode_worker) const;

  Options options_;
  RouterMetrics& metrics_;
  ResponseFormat format_;
  std::vector<ChoiceRecord> choices_;                             // prompts x candidates
  std::vector<std::vector<wire::TokenLogprob>> prompt_logprobs_;  // of each prompt
  Usage usage_;
  RequestRecord record_;
  std::string_view ended_as_;
  bool stream_begun_ = false;
  bool over_ = false;
};

}  // namespace baton::router
