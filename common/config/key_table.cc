#include "common/config/key_table.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace baton::config {
namespace {

constexpr double kForever = 24 * 3600;  // seconds
constexpr double kTera = 1ull << 40;

constexpr std::array<std::string_view, 2> kNumericsNames = {"invariant", "fast"};
constexpr std::array<std::string_view, 5> kIsaNames = {"auto", "scalar", "avx2", "avx512", "amx"};
constexpr std::array<std::string_view, 3> kLocalPrefillNames = {"auto", "never", "always"};
constexpr std::array<std::string_view, 4> kToolFormatNames = {"auto", "hermes", "llama3",
                                                              "mistral"};
constexpr std::array<std::string_view, 3> kReasoningNames = {"auto", "split", "keep"};
constexpr std::array<std::string_view, 3> kWaitingNames = {"auto", "spin", "yield"};
constexpr std::array<std::string_view, 4> kLogLevelNames = {"debug", "info", "warn", "error"};
constexpr std::array<std::string_view, 2> kLogFormatNames = {"text", "json"};

template <typename Enum>
Choice choice(Enum& value, std::span<const std::string_view> names) {
  return {names, [&value] { return static_cast<size_t>(value); },
          [&value](size_t index) { value = static_cast<Enum>(index); }};
}

std::vector<Row> router_rows(Router& router) {
  return {
      {"router", "listen", &router.listen, "HTTP address: API, health, metrics. Port 0: any.",
       Form::kAddress},
      {"router", "control", &router.control, "Where workers register.", Form::kControl},
      {"router", "api_keys_file", &router.api_keys_file,
       "File with one API key a line, behind it `priority` if its holder may use that field; read "
       "again when it changes. Required beyond loopback, unless allow_keyless."},
      {"router", "allow_keyless", &router.allow_keyless, "Serve without keys beyond loopback."},
      {"router", "tls_certificate_file", &router.tls_certificate_file,
       "PEM file with the certificate and those between it and the root. With it listen speaks "
       "TLS."},
      {"router", "tls_key_file", &router.tls_key_file,
       "PEM file with the key of the certificate, without a passphrase. Both are read again when "
       "one "
       "changes."},
      {"router", "cors_origins", &router.cors_origins,
       "Origins that browsers may call from. Empty: any on loopback or where a key is needed, else "
       "none."},
      {"router", "metrics_need_key", &router.metrics_need_key, "Whether /metrics asks for a key."},
      {"router", "local_prefill", choice(router.local_prefill, kLocalPrefillNames),
       "Prefill on the decode worker itself. auto: when it is predicted to be faster."},
      {"router", "tool_format", choice(router.tool_format, kToolFormatNames),
       "How the model writes calls of functions. auto: as its chat template shows."},
      {"router", "reasoning", choice(router.reasoning, kReasoningNames),
       "split: what stands in <think> comes as reasoning_content. auto: if the template has it."},
      {"router", "drain", &router.drain, "How long running requests may take to end after SIGTERM.",
       Form::kPlain, 0, kForever},
      {"router", "request_log", &router.request_log,
       "File for one JSON line a request: sizes, decision, predicted and measured times."},
      {"router", "request_timeout", &router.request_timeout, "Limit of a whole request.",
       Form::kPlain, 0.001, kForever},
      {"router", "max_waiting", &router.max_waiting,
       "Requests that may wait for a worker; more are answered 429.", Form::kPlain, 0, 1'000'000},
      {"router", "slo_ttft", &router.slo_ttft,
       "Requests whose first token is predicted to come later are answered 429. 0s: off.",
       Form::kPlain, 0, kForever},
      {"router", "io_threads", &router.io_threads, "Threads that serve HTTP.", Form::kPlain, 1, 64},
      {"router", "max_connections", &router.max_connections,
       "Client connections; more are answered 503.", Form::kPlain, 1, 1'000'000},
      {"router", "max_body", &router.max_body,
       "Largest request body; larger ones are answered 413.", Form::kPlain, 1024, kTera},
      {"router", "header_timeout", &router.header_timeout,
       "Limit for the header of a request to arrive.", Form::kPlain, 0.001, kForever},
      {"router", "idle_timeout", &router.idle_timeout,
       "How long an idle client connection is kept.", Form::kPlain, 0.001, kForever},
      {"router", "worker_timeout", &router.worker_timeout,
       "A worker without a heartbeat for so long is lost.", Form::kPlain, 0.001, kForever},
      {"router", "worker_wait", &router.worker_wait,
       "How long requests wait for a worker to come back when none is left.", Form::kPlain, 0,
       kForever},
  };
}

std::vector<Row> transfer_rows(Transfer& transfer) {
  return {
      {"transfer", "transports", &transfer.transports,
       "Transports that may carry KV, best first: the first that works is taken. pool, ucx-posix: "
       "one "
       "machine. ucx-tcp: several.",
       Form::kTransports},
      {"transfer", "devices", &transfer.devices,
       "Network devices of ucx-tcp. Any other than lo must be a trusted network."},
      {"transfer", "digest", &transfer.digest, "Check every piece of KV with XXH3."},
      {"transfer", "handshake_timeout", &transfer.handshake_timeout,
       "Limit of the handshake with a peer.", Form::kPlain, 0.001, kForever},
      {"transfer", "reserve_timeout", &transfer.reserve_timeout, "Limit for the answer to RESERVE.",
       Form::kPlain, 0.001, kForever},
      {"transfer", "no_progress_timeout", &transfer.no_progress_timeout,
       "A transfer that moves no byte for so long is aborted.", Form::kPlain, 0.001, kForever},
      {"transfer", "deadline_base", &transfer.deadline_base,
       "Deadline of a transfer: this, and bytes / (deadline_rate_share x probed rate) more.",
       Form::kPlain, 0.001, kForever},
      {"transfer", "deadline_rate_share", &transfer.deadline_rate_share,
       "Share of the probed rate that a transfer is expected to reach.", Form::kPlain, 0.001, 1},
      {"transfer", "deadline_limit", &transfer.deadline_limit, "Longest deadline of a transfer.",
       Form::kPlain, 0.001, kForever},
      {"transfer", "commit_ack_timeout", &transfer.commit_ack_timeout,
       "Limit for the answer to COMMIT, before it is sent again.", Form::kPlain, 0.001, kForever},
      {"transfer", "commit_resends", &transfer.commit_resends, "How often COMMIT is sent again.",
       Form::kPlain, 0, 100},
      {"transfer", "abort_drain_timeout", &transfer.abort_drain_timeout,
       "Limit for posted sends to end after an abort; then the session is given up.", Form::kPlain,
       0.001, kForever},
      {"transfer", "lease_margin", &transfer.lease_margin,
       "A reservation is kept for the deadline and this.", Form::kPlain, 0.001, kForever},
      {"transfer", "heartbeat", &transfer.heartbeat, "Time between heartbeats to a peer.",
       Form::kPlain, 0.001, kForever},
      {"transfer", "dead_after", &transfer.dead_after,
       "A peer without a heartbeat for so long is dead.", Form::kPlain, 0.001, kForever},
      {"transfer", "quarantine_alarm", &transfer.quarantine_alarm,
       "Blocks quarantined for so long are logged.", Form::kPlain, 0.001, kForever},
      {"transfer", "endpoint_close_timeout", &transfer.endpoint_close_timeout,
       "Limit for an endpoint to close.", Form::kPlain, 0.001, kForever},
      {"transfer", "reconnect_min", &transfer.reconnect_min,
       "First pause before a peer is connected again.", Form::kPlain, 0.001, kForever},
      {"transfer", "reconnect_max", &transfer.reconnect_max,
       "Longest pause before a peer is connected again.", Form::kPlain, 0.001, kForever},
  };
}

}  // namespace

std::vector<Row> rows_of(Config& config) {
  std::vector<Row> rows = {
      {"cluster", "key_file", &config.cluster.key_file,
       "File with the secret of the cluster's control links (docs/security.md). Empty: they are on "
       "loopback only."},
      {"model", "path", &config.model.path,
       "The GGUF file or model folder; relative to the working directory."},
      {"model", "name", &config.model.name, "Name under which the model is served."},
      {"model", "max_context", &config.model.max_context,
       "Longest prompt and output together, in tokens. 0: the file's own limit.", Form::kPlain, 0,
       16'777'216},
      {"model", "packed_cache", &config.model.packed_cache,
       "Where packed weights are kept for the next start: auto, off, or a folder. auto: beside the "
       "model, else in the user's cache folder."},
      {"", "numerics", choice(config.numerics, kNumericsNames),
       "invariant: the same tokens whatever the batch, chunking or worker. fast: int8 activations "
       "and the quickest order of sums, without that promise; refused at start where it moves the "
       "model's predictions too far (docs/numerics.md)."},
      {"", "numerics_force", &config.numerics_force,
       "Serve with numerics: fast whatever it does to the predictions."},
      {"", "reduction_segments", &config.reduction_segments,
       "Segments of every split sum. auto: the least common multiple of the tensor_parallel "
       "degrees.",
       Form::kAutoInteger, 1, 64},
      {"", "isa", choice(config.isa, kIsaNames),
       "Instruction set of the kernels. auto: the highest that this machine has."},
  };
  std::ranges::move(router_rows(config.router), std::back_inserter(rows));
  std::ranges::move(
      std::vector<Row>{
          {"workers", "routers", &config.workers.routers,
           "Routers that workers register with. A DNS name stands for all its addresses, asked for "
           "every 5 s.",
           Form::kControls},
          {"workers", "heartbeat", &config.workers.heartbeat,
           "Time between heartbeats to a router.", Form::kPlain, 0.001, kForever},
          {"workers", "drain", &config.workers.drain,
           "How long a worker's sequences may take to end after SIGTERM.", Form::kPlain, 0,
           kForever},
          {"workers", "share_machine", &config.workers.share_machine,
           "Whether all workers of the file run on one machine. false: each has a machine or "
           "container of its own, and auto means all of it."},
          {"workers", "lend_cpus", &config.workers.lend_cpus,
           "Whether workers that baton up starts use each other's CPUs while these are idle: auto "
           "or off."},
      },
      std::back_inserter(rows));
  std::ranges::move(transfer_rows(config.transfer), std::back_inserter(rows));
  std::ranges::move(
      std::vector<Row>{
          {"log", "level", choice(config.log.level, kLogLevelNames),
           "Least level that is written."},
          {"log", "format", choice(config.log.format, kLogFormatNames),
           "text, or one JSON object a line."},
          {"test", "time_scale", &config.test.time_scale,
           "Multiplies every protocol deadline, for slow builds such as sanitizers.", Form::kPlain,
           1, 100},
          {"test", "faults", &config.test.faults,
           "Seed of faults on purpose (SEED or SEED:LIFE). Only builds with BATON_FAULTS take "
           "one."},
      },
      std::back_inserter(rows));
  return rows;
}

std::vector<Row> rows_of(Worker& worker) {
  return {
      {"", "name", &worker.name,
       "Name of the worker, unique in the file. Left out: p0, p1, ... or d0, d1, ...", Form::kName},
      {"", "cpus", &worker.cpus,
       "CPUs of its compute threads. auto: a share of those that the process may use.",
       Form::kCpus},
      {"", "waiting", choice(worker.waiting, kWaitingNames),
       "What idle compute threads do. auto: spin, or yield when CPUs are shared."},
      {"", "tensor_parallel", &worker.tensor_parallel, "Ranks that share the model.",
       Form::kPowerOfTwo, 1, 4},
      {"", "kv_cache", &worker.kv_cache,
       "Size of the KV pool. auto: a sixteenth of the memory, shared by the workers of the file."},
      {"", "listen", &worker.listen,
       "Address for hand-overs, of decode workers: prefill workers connect to it. Port 0: any.",
       Form::kAddress},
      {"", "advertise", &worker.advertise,
       "Address of a decode worker that others are told. Empty: that of listen. Port 0: the one of "
       "listen. Its host is told for http too, of prefill workers as well.",
       Form::kOptionalAddress},
      {"", "http", &worker.http, "HTTP address: health, metrics. Port 0: any.", Form::kAddress},
      {"", "block_tokens", &worker.block_tokens, "Tokens in a KV block.", Form::kPowerOfTwo, 32,
       256},
      {"", "prefix_cache", &worker.prefix_cache,
       "Keep full blocks for prompts that begin the same."},
      {"", "max_batch_sequences", &worker.max_batch_sequences, "Sequences in one step.",
       Form::kPlain, 1, 4096},
      {"", "chunk_time", &worker.chunk_time,
       "Prompts are cut so that a step takes at most about this.", Form::kPlain, 0.001, 60},
      {"", "max_chunk_tokens", &worker.max_chunk_tokens, "Prompt tokens in one step.", Form::kPlain,
       1, 65'536},
      {"", "max_waiting", &worker.max_waiting, "Requests in its queue.", Form::kPlain, 1,
       1'000'000},
  };
}

}  // namespace baton::config
