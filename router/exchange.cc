#include "router/exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/http/error.h"

namespace baton::router {
namespace {

using metrics::MetricId;

void append_ms(std::string& out, std::string_view name, double ms) {
  char text[64];
  std::snprintf(text, sizeof(text), "\"%.*s\":%.3f,", static_cast<int>(name.size()), name.data(),
                ms);
  out += text;
}

}  // namespace

RouterMetrics::RouterMetrics(metrics::Registry& r)
    : registry(r),
      ttft(r.histogram(MetricId::kTimeToFirstToken)),
      itl(r.histogram(MetricId::kInterTokenLatency)),
      tpot(r.histogram(MetricId::kTimePerOutputToken)),
      latency(r.histogram(MetricId::kRequestLatency)),
      queue_time(r.histogram(MetricId::kRequestQueueTime)),
      prefill_time(r.histogram(MetricId::kRequestPrefillTime)),
      decode_time(r.histogram(MetricId::kRequestDecodeTime)),
      otel_ttft(r.histogram(MetricId::kOtelTimeToFirstToken)),
      otel_tpot(r.histogram(MetricId::kOtelTimePerOutputToken)),
      otel_duration(r.histogram(MetricId::kOtelRequestDuration)),
      second_gap(r.histogram(MetricId::kSecondTokenGap)),
      predicted_error(r.histogram(MetricId::kPredictedTtftErrorRatio)),
      request_prompt_tokens(r.histogram(MetricId::kRequestPromptTokens)),
      request_generation_tokens(r.histogram(MetricId::kRequestGenerationTokens)),
      request_longest_choice(r.histogram(MetricId::kRequestMaxGenerationTokens)),
      request_max_tokens(r.histogram(MetricId::kRequestParamsMaxTokens)),
      request_choices(r.histogram(MetricId::kRequestParamsN)),
      prompt_tokens(r.counter(MetricId::kPromptTokens)),
      generation_tokens(r.counter(MetricId::kGenerationTokens)),
      ended_stop(r.counter(MetricId::kRequestSuccess, {"stop"})),
      ended_length(r.counter(MetricId::kRequestSuccess, {"length"})),
      ended_error(r.counter(MetricId::kRequestSuccess, {"error"})),
      ended_abort(r.counter(MetricId::kRequestSuccess, {"abort"})),
      running(r.gauge(MetricId::kRequestsRunning)),
      waiting(r.gauge(MetricId::kRequestsWaiting)),
      prefill_ready(r.gauge(MetricId::kWorkers, {"prefill", "ready"})),
      prefill_draining(r.gauge(MetricId::kWorkers, {"prefill", "draining"})),
      decode_ready(r.gauge(MetricId::kWorkers, {"decode", "ready"})),
      decode_draining(r.gauge(MetricId::kWorkers, {"decode", "draining"})) {
  // Rare events have their series from the start: an increase() sees no first event of a series
  // that begins with it.
  for (int code = 1; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    r.counter(MetricId::kRequestErrors, {status_code_info(static_cast<StatusCode>(code)).label});
  }
  for (const std::string_view reason : {"worker_lost", "unavailable", "gap"}) {
    r.counter(MetricId::kStreamsMoved, {reason});
  }
}

Exchange::Exchange(Options options, const tokenizer::Tokenizer& tokenizer, RouterMetrics& metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      format_(options_.request, tokenizer, options_.public_id, options_.created,
              options_.request.model) {
  const ApiRequest& request = options_.request;
  choices_.resize(request.prompts.size() * static_cast<size_t>(request.candidates()));
  prompt_logprobs_.resize(request.prompts.size());
  for (ChoiceRecord& record : choices_) {
    if (request.answer.has_calls || request.answer.has_reasoning) {
      record.reader = std::make_unique<AnswerReader>(request.answer, request.tools);
    }
  }
  for (const Prompt& prompt : request.prompts) {
    usage_.prompt_tokens += static_cast<int64_t>(prompt.tokens.size());
  }
  record_.request_id = options_.headers.get("x-request-id");
  record_.answer_id = options_.public_id;
  record_.created = options_.created;
  record_.chat = request.chat;
  record_.stream = request.stream;
  record_.at_once = request.sampling.beam_width > 0;
  record_.prompts = static_cast<int64_t>(request.prompts.size());
  record_.choices = request.candidates();
  record_.prompt_tokens = usage_.prompt_tokens;
  record_.max_tokens = request.sampling.max_tokens;
  record_.arrived = options_.arrived;
  record_.tokenised = options_.tokenised;
}

void Exchange::accepted() { metrics_.prompt_tokens.add(static_cast<double>(usage_.prompt_tokens)); }

void Exchange::count_cached(int64_t tokens) {
  usage_.cached_tokens += tokens;
  record_.cached_tokens += tokens;
}

size_t Exchange::add_attempt(AttemptRecord attempt) {
  record_.moves += attempt.moved_because.empty() ? 0 : 1;
  record_.attempts.push_back(std::move(attempt));
  return record_.attempts.size() - 1;
}

void Exchange::take_prompt_logprobs(size_t prompt_index, std::vector<wire::TokenLogprob> logprobs) {
  prompt_logprobs_[prompt_index] = std::move(logprobs);
}

PromptView Exchange::prompt_view(size_t prompt_index) const {
  return {&options_.request.prompts[prompt_index], prompt_logprobs_[prompt_index]};
}

void Exchange::observe_first_token(size_t attempt, TimePoint now) {
  record_.first_token = now;
  if (attempt < record_.attempts.size()) {
    record_.main = static_cast<int>(attempt);
  }
  if (record_.at_once) {
    return;
  }
  const double ttft = to_seconds(now - options_.arrived);
  metrics_.ttft.observe(ttft);
  metrics_.otel_ttft.observe(ttft);
  if (attempt >= record_.attempts.size()) {
    return;
  }
  // From the placement on: what a lost attempt before it cost was not to be foreseen.
  const AttemptRecord& placed = record_.attempts[attempt];
  const double measured_ms = to_ms(now - placed.placed);
  if (placed.predicted.ttft_ms() > 0 && measured_ms > 0) {
    metrics_.predicted_error.observe(placed.predicted.ttft_ms() / measured_ms);
  }
}

void Exchange::observe_token(ChoiceRecord& record, size_t attempt, TimePoint now) {
  metrics_.generation_tokens.add();
  ++usage_.completion_tokens;
  ++record_.completion_tokens;
  ++record.tokens;
  record_.longest_choice = std::max<int64_t>(record_.longest_choice, record.tokens);
  if (!started()) {
    observe_first_token(attempt, now);
  }
  if (record.tokens > 1 && !record_.at_once) {
    const double gap = to_seconds(now - record.last_token);
    metrics_.itl.observe(gap);
    if (record.tokens == 2) {
      metrics_.second_gap.observe(gap);
      if (record_.second_token == TimePoint{}) {
        record_.second_token = now;
        record_.second_token_gap_ms = gap * 1e3;
      }
    }
  }
  record.last_token = now;
  record_.last_token = now;
}

// Parts the text into reasoning, content and calls.
void Exchange::read_answer(ChoiceDelta& delta, ChoiceRecord& record) const {
  if (record.reader == nullptr) {
    return;
  }
  AnswerPiece piece = record.reader->feed(delta.text);
  if (delta.finish != wire::FinishReason::kNone) {
    AnswerPiece rest = record.reader->finish(delta.finish == wire::FinishReason::kLength);
    piece.reasoning += rest.reasoning;
    piece.content += rest.content;
  }
  delta.text = std::move(piece.content);
  delta.reasoning = std::move(piece.reasoning);
  delta.calls = std::move(piece.calls);
  delta.has_calls = record.reader->calls() > 0;
}

// For an answer that is not streamed.
void Exchange::keep(const ChoiceDelta& delta, ChoiceRecord& record) const {
  ResponseFormat::WholeChoice& whole = record.whole;
  whole.text += delta.text;
  whole.reasoning += delta.reasoning;
  for (const CallPiece& piece : delta.calls) {
    if (piece.name.empty() && !whole.calls.empty()) {
      whole.calls.back().arguments += piece.arguments;
    } else {
      whole.calls.push_back(piece);
    }
  }
  whole.ids.insert(whole.ids.end(), delta.ids.begin(), delta.ids.end());
  whole.logprobs.insert(whole.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  for (const wire::TokenLogprob& logprob : delta.logprobs) {
    record.logprob_sum += static_cast<double>(logprob.logprob);
  }
  whole.finish = delta.finish;
  whole.stop_text = delta.stop_text;
}

// With max_tokens 0 one token is made, since a run is over when it has one; nobody sees it.
ChoiceDelta Exchange::without_output(const ChoiceDelta& delta) {
  ChoiceDelta out;
  out.choice = delta.choice;
  out.first = delta.first;
  out.finish = wire::FinishReason::kLength;
  return out;
}

void Exchange::deliver(ChoiceDelta delta, size_t prompt_index, size_t attempt, TimePoint now) {
  const ApiRequest& request = options_.request;
  if (request.echo_only) {
    delta = without_output(delta);
  }
  const size_t index =
      prompt_index * static_cast<size_t>(request.candidates()) + static_cast<size_t>(delta.choice);
  ChoiceRecord& record = choices_[index];
  if (!delta.ids.empty()) {
    observe_token(record, attempt, now);
  } else if (request.echo_only && !started()) {
    observe_first_token(attempt, now);
  }
  if (delta.finish != wire::FinishReason::kNone) {
    const bool length = delta.finish == wire::FinishReason::kLength;
    (length ? metrics_.ended_length : metrics_.ended_stop).add();
    const std::string_view reason = length ? "length" : "stop";
    const bool same = ended_as_.empty() || ended_as_ == reason;
    ended_as_ = same ? reason : "mixed";
    record.ended = true;
  }
  read_answer(delta, record);
  if (!request.stream) {
    keep(delta, record);
    return;
  }
  const bool nothing_to_say = !delta.first && delta.text.empty() && delta.reasoning.empty() &&
                              delta.calls.empty() && delta.logprobs.empty() &&
                              !request.return_token_ids && !request.continuous_usage &&
                              delta.finish == wire::FinishReason::kNone;
  if (nothing_to_say) {
    return;  // half a character, or text that may become a stop string
  }
  if (!std::exchange(stream_begun_, true)) {
    http::Headers headers = options_.headers;
    headers.set("Content-Type", "text/event-stream");
    headers.set("Cache-Control", "no-cache");
    options_.responder->begin_stream(200, std::move(headers));
  }
  const PromptView prompt = prompt_view(prompt_index);
  options_.responder->write(format_.delta_events(delta, static_cast<int>(index),
                                                 request.continuous_usage ? &usage_ : nullptr,
                                                 delta.first ? &prompt : nullptr));
}

std::string Exchange::trace_json(const wire::RunTimings& timings,
                                 const std::string& decode_worker) const {
  if (!options_.request.trace) {
    return {};
  }
  std::string out = "{\"prefill\":";
  http::append_json_string(out, timings.prefill_worker);
  out += ",\"decode\":";
  http::append_json_string(out, decode_worker);
  out += ",\"transport\":";
  http::append_json_string(out, timings.transport);
  out += ',';
  append_ms(out, "queue_ms", timings.queue_ms);
  append_ms(out, "prefill_ms", timings.prefill_ms);
  append_ms(out, "transfer_ms", timings.transfer_ms);
  append_ms(out, "transfer_visible_ms", timings.transfer_visible_ms);
  append_ms(out, "first_data_ms", timings.first_data_ms);
  const AttemptRecord* attempt = record_.main_attempt();
  append_ms(out, "ttft_ms", to_ms(record_.first_token - options_.arrived));
  append_ms(out, "predicted_ttft_ms", attempt == nullptr ? 0 : attempt->predicted.ttft_ms());
  out += "\"prompt_tokens_computed\":" + std::to_string(timings.prompt_tokens_computed) +
         ",\"prompt_tokens_cached\":" + std::to_string(timings.prompt_tokens_cached) +
         ",\"transfer_bytes\":" + std::to_string(timings.transfer_bytes) + '}';
  return out;
}

void Exchange::observe_end(TimePoint now) {
  const double total = to_seconds(now - options_.arrived);
  metrics_.latency.observe(total);
  metrics_.otel_duration.observe(total);
  const AttemptRecord* attempt = record_.main_attempt();
  metrics_.queue_time.observe(record_.queue_ms() / 1e3);
  metrics_.prefill_time.observe(attempt == nullptr ? 0 : attempt->timings.prefill_ms / 1e3);
  metrics_.decode_time.observe(to_seconds(record_.last_token - record_.first_token));
  metrics_.request_prompt_tokens.observe(static_cast<double>(usage_.prompt_tokens));
  metrics_.request_generation_tokens.observe(static_cast<double>(usage_.completion_tokens));
  metrics_.request_longest_choice.observe(static_cast<double>(record_.longest_choice));
  metrics_.request_max_tokens.observe(options_.request.sampling.max_tokens);
  metrics_.request_choices.observe(options_.request.n);
  if (record_.longest_choice > 1 && !record_.at_once) {
    metrics_.tpot.observe(record_.tpot_ms() / 1e3);
    metrics_.otel_tpot.observe(record_.tpot_ms() / 1e3);
  }
}

int64_t Exchange::unfinished_choices() const {
  return std::count_if(choices_.begin(), choices_.end(),
                       [](const ChoiceRecord& record) { return !record.ended; });
}

// The answer's choices: all that were made, or of each prompt the n whose tokens have the highest
// mean log-probability, best first.
std::vector<ResponseFormat::WholeChoice> Exchange::chosen() {
  const auto made = static_cast<size_t>(options_.request.candidates());
  const auto wanted = static_cast<size_t>(options_.request.n);
  const auto mean = [this](size_t choice) {
    const ChoiceRecord& record = choices_[choice];
    return record.logprob_sum / std::max<double>(1, static_cast<double>(record.whole.ids.size()));
  };
  std::vector<ResponseFormat::WholeChoice> out;
  std::vector<size_t> order(made);
  for (size_t first = 0; first < choices_.size(); first += made) {
    std::iota(order.begin(), order.end(), first);
    if (made > wanted) {
      std::sort(order.begin(), order.end(), [&mean](size_t a, size_t b) {
        return mean(a) > mean(b) || (mean(a) == mean(b) && a < b);
      });
    }
    for (size_t i = 0; i < wanted; ++i) {
      ResponseFormat::WholeChoice& whole = choices_[order[i]].whole;
      whole.prompt = prompt_view(first / made);
      out.push_back(std::move(whole));
    }
  }
  return out;
}

void Exchange::finish(TimePoint now, const wire::RunTimings& timings,
                      const std::string& decode_worker) {
  if (std::exchange(over_, true)) {
    return;
  }
  record_.ended = now;
  record_.finish_reason = ended_as_;
  observe_end(now);
  const std::string trace = trace_json(timings, decode_worker);
  if (!options_.request.stream) {
    http::Response response = http::json_response(200, format_.whole(chosen(), usage_, trace));
    for (const auto& [name, value] : options_.headers) {
      response.headers.set(name, value);
    }
    options_.responder->send(std::move(response));
    return;
  }
  if (options_.request.include_usage || !trace.empty()) {
    options_.responder->write(format_.usage_event(usage_, trace));
  }
  options_.responder->write(ResponseFormat::done_event());
  options_.responder->finish();
}

void Exchange::fail(const Status& why, uint32_t retry_after_ms, TimePoint now) {
  if (std::exchange(over_, true)) {
    return;
  }
  metrics_.ended_error.add(static_cast<double>(unfinished_choices()));
  metrics_.registry.counter(MetricId::kRequestErrors, {status_code_info(why.code()).label}).add();
  constexpr size_t kLongestMessage = 300;
  record_.ended = now;
  record_.finish_reason = "error";
  record_.error = status_code_info(why.code()).label;
  record_.error_message = why.message().substr(0, kLongestMessage);
  http::ApiError error = http::to_api_error(why);
  if (stream_begun_) {
    options_.responder->write(ResponseFormat::error_event(http::error_json(error)));
    options_.responder->write(ResponseFormat::done_event());
    options_.responder->finish();
    return;
  }
  const int retry_after_s = std::clamp(static_cast<int>((retry_after_ms + 999) / 1000), 1, 30);
  http::Response response = http::error_response(error, retry_after_s);
  for (const auto& [name, value] : options_.headers) {
    response.headers.set(name, value);
  }
  options_.responder->send(std::move(response));
}

void Exchange::abandon(TimePoint now) {
  if (!std::exchange(over_, true)) {
    metrics_.ended_abort.add(static_cast<double>(unfinished_choices()));
    record_.ended = now;
    record_.finish_reason = "abort";
  }
}

}  // namespace baton::router
