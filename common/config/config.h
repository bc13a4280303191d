#pragma once

// The whole cluster file as plain structs. Values are the file's own; what "auto" means on this
// machine is computed by common/config/effective.h. Every default stands here and nowhere else; the
// table of keys (common/config/keys.h) reads it from these structs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"

namespace baton::config {

enum class Numerics : uint8_t { kInvariant, kFast };
enum class LocalPrefill : uint8_t { kAuto, kNever, kAlways };
enum class Isa : uint8_t { kAuto, kScalar, kAvx2, kAvx512, kAmx };
enum class Role : uint8_t { kRouter, kPrefill, kDecode };
// How a model writes calls of functions; what auto means says its chat template.
enum class ToolFormat : uint8_t { kAuto, kHermes, kLlama3, kMistral };
enum class Reasoning : uint8_t { kAuto, kSplit, kKeep };
enum class Waiting : uint8_t { kAuto, kSpin, kYield };  // of idle compute threads

// Text as it stands in the file and in logs: "prefill", "avx512".
std::string_view to_string(Role role);
std::string_view to_string(Isa isa);
std::string_view to_string(Numerics numerics);
std::string_view to_string(LocalPrefill local_prefill);

// Size of a KV pool: a share of the memory, so many bytes, or so many blocks.
struct KvCacheSize {
  enum class Unit : uint8_t { kAuto, kBytes, kBlocks };
  Unit unit = Unit::kAuto;
  uint64_t count = 0;
  friend bool operator==(const KvCacheSize&, const KvCacheSize&) = default;
};

struct Cluster {
  std::string key_file;  // empty: control links on loopback only
};

struct Model {
  std::string path = "models/smollm2-135m-instruct-q4_1.gguf";
  std::string name = "smollm2-135m-instruct";
  int64_t max_context = 0;            // 0: the file's own limit
  std::string packed_cache = "auto";  // off, or a folder
};

struct Router {
  std::string listen = "127.0.0.1:8000";
  std::string control = "tcp://127.0.0.1:7800";
  std::string api_keys_file;
  bool allow_keyless = false;
  std::string tls_certificate_file;
  std::string tls_key_file;
  std::vector<std::string> cors_origins;
  bool metrics_need_key = false;
  LocalPrefill local_prefill = LocalPrefill::kAuto;
  ToolFormat tool_format = ToolFormat::kAuto;
  Reasoning reasoning = Reasoning::kAuto;
  Duration drain = 30s;
  std::string request_log;
  Duration request_timeout = 600s;  // for a whole request
  int64_t max_waiting = 1024;       // requests that wait for a worker; more get 429
  Duration slo_ttft = 0s;           // 0: requests wait however long it takes
  int64_t io_threads = 1;
  int64_t max_connections = 10'000;
  uint64_t max_body = 32ull << 20;
  Duration header_timeout = 10s;
  Duration idle_timeout = 75s;
  Duration worker_timeout = 1s;  // without a heartbeat
  Duration worker_wait = 10s;    // for a worker that comes back
};

// How a worker finds its routers.
struct Workers {
  std::vector<std::string> routers = {"tcp://127.0.0.1:7800"};
  Duration heartbeat = 200ms;  // to every router
  Duration drain = 30s;
  bool share_machine = true;  // false: each has a machine or container of its own
  // auto, off, or the table in which workers of one machine say when they compute
  std::string lend_cpus = "auto";
};

struct Worker {
  std::string name;
  std::string cpus = "auto";  // auto, or a list like "0-3,8"
  Waiting waiting = Waiting::kAuto;
  int64_t tensor_parallel = 1;
  KvCacheSize kv_cache;
  std::string listen = "127.0.0.1:0";  // hand-over, control side
  std::string advertise;               // empty: as listen
  std::string http = "127.0.0.1:0";
  int64_t block_tokens = 32;
  bool prefix_cache = true;
  int64_t max_batch_sequences = 128;
  Duration chunk_time = 100ms;  // prompts are cut so that a step takes at most this
  int64_t max_chunk_tokens = 512;
  int64_t max_waiting = 1024;  // requests in its queue
};

struct Transfer {
  std::vector<std::string> transports = {"ucx-posix"};
  std::vector<std::string> devices = {"lo"};
  bool digest = true;  // XXH3 over every piece
  Duration handshake_timeout = 2s;
  Duration reserve_timeout = 500ms;
  Duration no_progress_timeout = 2s;
  // Deadline of a transfer: base + bytes / (rate_share x probed rate), at most the limit.
  Duration deadline_base = 1s;
  double deadline_rate_share = 0.2;
  Duration deadline_limit = 30s;
  Duration commit_ack_timeout = 500ms;
  int64_t commit_resends = 3;
  Duration abort_drain_timeout = 2s;
  Duration lease_margin = 2s;  // lease = deadline + this
  Duration heartbeat = 200ms;
  Duration dead_after = 1s;
  Duration quarantine_alarm = 10s;
  Duration endpoint_close_timeout = 1s;
  Duration reconnect_min = 50ms;
  Duration reconnect_max = 2s;
};

struct Log {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

struct Test {
  int64_t time_scale = 1;  // multiplies every protocol deadline (sanitizers: 10)
  std::string faults;      // seed of the fault plan; builds with BATON_FAULTS only
};

struct Config {
  Cluster cluster;
  Model model;
  Numerics numerics = Numerics::kInvariant;
  bool numerics_force = false;
  int64_t reduction_segments = 0;  // 0: auto
  Isa isa = Isa::kAuto;
  Router router;
  Workers workers;
  std::vector<Worker> prefill;
  std::vector<Worker> decode;
  Transfer transfer;
  Log log;
  Test test;
};

// What an empty file means: one router, p0, d0.
Config default_config();

// `d` multiplied by test.time_scale.
Duration scaled(const Config& config, Duration d);

// The entry of that name and role, or null.
const Worker* find_worker(const Config& config, Role role, std::string_view name);

}  // namespace baton::config
