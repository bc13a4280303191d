#pragma once

// Every metric that Baton exports: name, kind, labels, buckets, who exports it, and help. One
// observation is exported once, by the process that made it, so that a plain sum() is right.
// docs/operations.md lists the same table (a test compares). Names beginning with "vllm:" and
// "gen_ai_" are those that existing dashboards read.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace baton::metrics {

enum class Kind : uint8_t { kCounter, kGauge, kHistogram, kInfo };

// Exporting programs, as a set of bits.
enum Exporter : uint8_t {
  kByRouter = 1,
  kByPrefill = 2,
  kByDecode = 4,
  kByWorkers = kByPrefill | kByDecode,
  kByAll = kByRouter | kByWorkers,
};

enum class MetricId : uint8_t {
  // Router: latencies and tokens of record.
  kTimeToFirstToken,
  kInterTokenLatency,
  kTimePerOutputToken,
  kRequestLatency,
  kRequestQueueTime,
  kRequestPrefillTime,
  kRequestDecodeTime,
  kPromptTokens,
  kGenerationTokens,
  kRequestSuccess,
  kRequestPromptTokens,
  kRequestGenerationTokens,
  kRequestMaxGenerationTokens,
  kRequestParamsMaxTokens,
  kRequestParamsN,
  kOtelTimeToFirstToken,
  kOtelTimePerOutputToken,
  kOtelRequestDuration,
  // Workers.
  kKvCacheUsage,
  kPreemptions,
  kPrefixCacheQueries,
  kPrefixCacheHits,
  kCacheConfigInfo,
  kIterationTokens,
  // Both.
  kRequestsRunning,
  kRequestsWaiting,
  // Ours.
  kKvTransferSeconds,
  kKvTransferBytes,
  kKvTransferFailures,
  kKvTransferHiddenRatio,
  kKvBlocks,
  kKvLeaseExpired,
  kKvMessagesDropped,
  kKvTransportsPassedOver,
  kSecondTokenGap,
  kRouterDecisions,
  kStreamsMoved,
  kRequestErrors,
  kWorkers,
  kPromptTokensComputed,
  kEngineStepSeconds,
  kEngineBatchSequences,
  kEngineFlops,
  kEngineBytes,
  kEngineRooflineSeconds,
  kMachinePeakFlops,
  kMachinePeakBytesPerSecond,
  kBorrowedCpuSeconds,
  kPredictedTtftErrorRatio,
  kLinkTransportInfo,
  kIgnoredRequestFields,
  kRequestLogDropped,
  kCount,
};

// vLLM's (vllm/v1/metrics/loggers.py); those of token gaps also go below 10 ms.
inline constexpr std::array kTtftBuckets = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                            0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                            20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
inline constexpr std::array kTokenGapBuckets = {
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,
    0.3,   0.4,   0.5,   0.75,  1.0,    2.5,  5.0,   7.5,  10.0,  20.0, 40.0, 80.0};
inline constexpr std::array kLatencyBuckets = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                               5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                               60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
// OpenTelemetry's semantic conventions for gen_ai.server.request.duration.
inline constexpr std::array kOtelDurationBuckets = {0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                                    1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
inline constexpr std::array kShortTimeBuckets = {0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075,
                                                 0.01,   0.02,   0.03,  0.05,  0.1,   0.2,   0.5,
                                                 1.0,    2.0,    5.0,   10.0,  30.0};
inline constexpr std::array kShareBuckets = {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0};
inline constexpr std::array kErrorRatioBuckets = {0.1,  0.25, 0.5,  0.75, 0.9, 0.95, 1.0,
                                                  1.05, 1.1,  1.25, 1.5,  2.0, 4.0,  10.0};
inline constexpr std::array kBatchBuckets = {1.0,  2.0,  3.0,  4.0,  6.0,  8.0,   12.0, 16.0,
                                             24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0};
// vLLM's, for numbers of tokens: of a request, of an engine step.
inline constexpr std::array kRequestTokenBuckets = {
    1.0,    2.0,    5.0,    10.0,    20.0,    50.0,    100.0,    200.0,   500.0,
    1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100000.0, 200000.0};
inline constexpr std::array kStepTokenBuckets = {
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0};
inline constexpr std::array kChoiceBuckets = {1.0, 2.0, 5.0, 10.0, 20.0};

using MetricLabels = std::array<std::string_view, 4>;

struct MetricInfo {
  MetricId id;
  std::string_view name;
  Kind kind;
  Exporter exporter;
  MetricLabels labels;              // without model_name, role, worker; unused ones empty
  std::span<const double> buckets;  // of histograms
  std::string_view help;

  constexpr size_t label_count() const {
    size_t n = 0;
    while (n < labels.size() && !labels[n].empty()) {
      ++n;
    }
    return n;
  }
};

// Rows of the table.
namespace rows {
constexpr MetricInfo counter(MetricId id, std::string_view name, Exporter exporter,
                             MetricLabels labels, std::string_view help) {
  return {id, name, Kind::kCounter, exporter, labels, {}, help};
}
constexpr MetricInfo gauge(MetricId id, std::string_view name, Exporter exporter,
                           MetricLabels labels, std::string_view help) {
  return {id, name, Kind::kGauge, exporter, labels, {}, help};
}
constexpr MetricInfo info(MetricId id, std::string_view name, Exporter exporter,
                          MetricLabels labels, std::string_view help) {
  return {id, name, Kind::kInfo, exporter, labels, {}, help};
}
constexpr MetricInfo histogram(MetricId id, std::string_view name, Exporter exporter,
                               std::span<const double> buckets, MetricLabels labels,
                               std::string_view help) {
  return {id, name, Kind::kHistogram, exporter, labels, buckets, help};
}
}  // namespace rows

// Indexed by MetricId.
inline constexpr std::array<MetricInfo, static_cast<size_t>(MetricId::kCount)> kMetrics = {

    rows::histogram(MetricId::kTimeToFirstToken, "vllm:time_to_first_token_seconds", kByRouter,
                    kTtftBuckets, {},
                    "Arrival of a request to its first token leaving for the client."),
    rows::histogram(MetricId::kInterTokenLatency, "vllm:inter_token_latency_seconds", kByRouter,
                    kTokenGapBuckets, {}, "Time between two tokens of one stream."),
    rows::histogram(MetricId::kTimePerOutputToken, "vllm:request_time_per_output_token_seconds",
                    kByRouter, kTokenGapBuckets, {},
                    "Mean time of a token after the first, one observation a request."),
    rows::histogram(MetricId::kRequestLatency, "vllm:e2e_request_latency_seconds", kByRouter,
                    kLatencyBuckets, {}, "Arrival of a request to its last token."),
    rows::histogram(MetricId::kRequestQueueTime, "vllm:request_queue_time_seconds", kByRouter,
                    kLatencyBuckets, {}, "Time that a request waited before its prefill began."),
    rows::histogram(MetricId::kRequestPrefillTime, "vllm:request_prefill_time_seconds", kByRouter,
                    kLatencyBuckets, {}, "Begin of prefill to the first token."),
    rows::histogram(MetricId::kRequestDecodeTime, "vllm:request_decode_time_seconds", kByRouter,
                    kLatencyBuckets, {}, "First token to last token."),
    rows::counter(MetricId::kPromptTokens, "vllm:prompt_tokens_total", kByRouter, {},
                  "Prompt tokens of accepted requests."),
    rows::counter(MetricId::kGenerationTokens, "vllm:generation_tokens_total", kByRouter, {},
                  "Tokens sent to clients, counted one by one."),
    rows::counter(MetricId::kRequestSuccess, "vllm:request_success_total", kByRouter,
                  {"finished_reason"}, "Requests that ended, by finish reason."),
    rows::histogram(MetricId::kRequestPromptTokens, "vllm:request_prompt_tokens", kByRouter,
                    kRequestTokenBuckets, {}, "Prompt tokens of a request."),
    rows::histogram(MetricId::kRequestGenerationTokens, "vllm:request_generation_tokens", kByRouter,
                    kRequestTokenBuckets, {}, "Tokens generated for a request, of all choices."),
    rows::histogram(MetricId::kRequestMaxGenerationTokens, "vllm:request_max_num_generation_tokens",
                    kByRouter, kRequestTokenBuckets, {},
                    "Tokens of the longest choice of a request."),
    rows::histogram(MetricId::kRequestParamsMaxTokens, "vllm:request_params_max_tokens", kByRouter,
                    kRequestTokenBuckets, {}, "Limit of output tokens that a request asked for."),
    rows::histogram(MetricId::kRequestParamsN, "vllm:request_params_n", kByRouter, kChoiceBuckets,
                    {}, "Choices that a request asked for."),
    rows::histogram(MetricId::kOtelTimeToFirstToken, "gen_ai_server_time_to_first_token_seconds",
                    kByRouter, kTtftBuckets, {},
                    "As vllm:time_to_first_token_seconds, under OpenTelemetry's name."),
    rows::histogram(MetricId::kOtelTimePerOutputToken,
                    "gen_ai_server_time_per_output_token_seconds", kByRouter, kTokenGapBuckets, {},
                    "As vllm:request_time_per_output_token_seconds, under OpenTelemetry's name."),
    rows::histogram(MetricId::kOtelRequestDuration, "gen_ai_server_request_duration_seconds",
                    kByRouter, kOtelDurationBuckets, {},
                    "As vllm:e2e_request_latency_seconds, under OpenTelemetry's name."),
    rows::gauge(MetricId::kKvCacheUsage, "vllm:kv_cache_usage_perc", kByWorkers, {},
                "Share of the KV blocks in use, 0 to 1."),
    rows::counter(MetricId::kPreemptions, "vllm:num_preemptions_total", kByWorkers, {},
                  "Sequences preempted because blocks ran out."),
    rows::counter(MetricId::kPrefixCacheQueries, "vllm:prefix_cache_queries_total", kByWorkers, {},
                  "Prompt tokens looked up in the prefix cache."),
    rows::counter(MetricId::kPrefixCacheHits, "vllm:prefix_cache_hits_total", kByWorkers, {},
                  "Prompt tokens found in the prefix cache."),
    rows::info(
        MetricId::kCacheConfigInfo, "vllm:cache_config_info", kByWorkers,
        {"block_size", "num_gpu_blocks", "cache_dtype", "enable_prefix_caching"},
        "Layout of the KV cache; always 1. num_gpu_blocks is the number of blocks of the pool."),
    rows::histogram(MetricId::kIterationTokens, "vllm:iteration_tokens_total", kByWorkers,
                    kStepTokenBuckets, {},
                    "Tokens in one engine step (a histogram, though vLLM's name ends in _total)."),
    rows::gauge(MetricId::kRequestsRunning, "vllm:num_requests_running", kByAll, {},
                "Requests at work (router: with a worker)."),
    rows::gauge(MetricId::kRequestsWaiting, "vllm:num_requests_waiting", kByAll, {},
                "Requests that wait."),
    rows::histogram(MetricId::kKvTransferSeconds, "baton_kv_transfer_seconds", kByPrefill,
                    kShortTimeBuckets, {},
                    "First byte of a KV hand-over to its acknowledged commit."),
    rows::counter(MetricId::kKvTransferBytes, "baton_kv_transfer_bytes_total", kByWorkers,
                  {"direction", "transport"}, "KV bytes moved; direction is sent or received."),
    rows::counter(MetricId::kKvTransferFailures, "baton_kv_transfer_failures_total", kByWorkers,
                  {"reason"}, "KV hand-overs that failed."),
    rows::histogram(MetricId::kKvTransferHiddenRatio, "baton_kv_transfer_hidden_ratio", kByPrefill,
                    kShareBuckets, {},
                    "Share of a hand-over's time that ran behind its own prefill, 0 to 1."),
    rows::gauge(MetricId::kKvBlocks, "baton_kv_blocks", kByWorkers, {"state"},
                "KV blocks by state: free, active, cached, reserved, quarantined."),
    rows::counter(MetricId::kKvLeaseExpired, "baton_kv_lease_expired_total", kByDecode, {},
                  "Reservations whose lease ran out."),
    rows::counter(
        MetricId::kKvMessagesDropped, "baton_kv_messages_dropped_total", kByWorkers, {"reason"},
        "Hand-over messages not acted upon: late, double, unknown, foreign or malformed."),
    rows::counter(MetricId::kKvTransportsPassedOver, "baton_kv_transports_passed_over_total",
                  kByPrefill, {"transport"},
                  "Links that could not use a transport which both sides offer."),
    rows::histogram(MetricId::kSecondTokenGap, "baton_second_token_gap_seconds", kByRouter,
                    kTokenGapBuckets, {},
                    "First to second token of a stream: what the hand-over costs a client."),
    rows::counter(MetricId::kRouterDecisions, "baton_router_decisions_total", kByRouter,
                  {"decision", "reason"}, "Where prompts were prefilled, and why."),
    rows::counter(MetricId::kStreamsMoved, "baton_streams_moved_total", kByRouter, {"reason"},
                  "Streams continued on another worker."),
    rows::counter(MetricId::kRequestErrors, "baton_request_errors_total", kByRouter, {"code"},
                  "Requests answered with an error, by its code."),
    rows::gauge(MetricId::kWorkers, "baton_workers", kByRouter, {"pool", "state"},
                "Workers registered with the router; pool is prefill or decode, state ready or "
                "draining."),
    rows::counter(MetricId::kPromptTokensComputed, "baton_prompt_tokens_computed_total", kByWorkers,
                  {}, "Prompt tokens that this worker computed itself."),
    rows::histogram(MetricId::kEngineStepSeconds, "baton_engine_step_seconds", kByWorkers,
                    kShortTimeBuckets, {"kind"},
                    "Time of one engine step: prefill, decode or mixed."),
    rows::histogram(MetricId::kEngineBatchSequences, "baton_engine_batch_sequences", kByWorkers,
                    kBatchBuckets, {}, "Sequences in one engine step."),
    rows::counter(MetricId::kEngineFlops, "baton_engine_flops_total", kByWorkers, {"kind"},
                  "Floating point operations that the model needs for the steps done."),
    rows::counter(MetricId::kEngineBytes, "baton_engine_bytes_total", kByWorkers, {"kind"},
                  "Bytes of weights and KV that the steps done had to read."),
    rows::counter(MetricId::kEngineRooflineSeconds, "baton_engine_roofline_seconds_total",
                  kByWorkers, {"kind"},
                  "Time that the steps done would take at the machine's peaks; divided by the sum "
                  "of baton_engine_step_seconds the share of the roofline."),
    rows::gauge(MetricId::kMachinePeakFlops, "baton_machine_peak_flops", kByWorkers, {},
                "FLOP/s that the compute threads reach in a loop of the products' instruction."),
    rows::gauge(MetricId::kMachinePeakBytesPerSecond, "baton_machine_peak_bytes_per_second",
                kByWorkers, {}, "Bytes/s at which the compute threads read the weights."),
    rows::counter(MetricId::kBorrowedCpuSeconds, "baton_borrowed_cpu_seconds_total", kByWorkers, {},
                  "Time that steps worked on CPUs of other workers, which were idle."),
    rows::histogram(MetricId::kPredictedTtftErrorRatio, "baton_predicted_ttft_error_ratio",
                    kByRouter, kErrorRatioBuckets, {},
                    "Predicted time to first token divided by the measured."),
    rows::info(MetricId::kLinkTransportInfo, "baton_link_transport_info", kByWorkers,
               {"peer", "transport"}, "Transport in use on the link to a peer; 1 while it is up."),
    rows::counter(MetricId::kIgnoredRequestFields, "baton_ignored_request_fields_total", kByRouter,
                  {"field"}, "Unknown request fields that were accepted and ignored."),
    rows::counter(MetricId::kRequestLogDropped, "baton_request_log_dropped_total", kByRouter, {},
                  "Lines of router.request_log that could not be written."),
};

constexpr const MetricInfo& metric_info(MetricId id) { return kMetrics[static_cast<size_t>(id)]; }

}  // namespace baton::metrics
