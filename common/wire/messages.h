#pragma once

// Every message between processes as a plain struct. docs/protocol.md says who sends which when;
// codec.h turns them into bytes (Protobuf) and back; sockets.h carries them (ZeroMQ). Fields are
// added, never renumbered; processes of another kProtoVersion refuse each other.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"

namespace baton::wire {

// Raised with every change that a process of before it would misunderstand. Defined in a source of
// its own, so that a test can link the programs of a next version (tests/next_version).
extern const uint32_t kProtoVersion;

enum class Role : uint8_t { kRouter = 0, kPrefill = 1, kDecode = 2 };
// Beams of a choice are lanes of the batch, and their candidates cross in one message.
inline constexpr uint32_t kMaxBeamWidth = 32;
inline constexpr double kMaxLengthPenalty = 10;
enum class FinishReason : uint8_t { kNone = 0, kStop = 1, kLength = 2, kCancelled = 3 };

// ---------------------------------------------------------------- requests (router -> workers)

// Sampling as the client asked, defaults filled in; the meaning of each field is that of
// common/sampling.
struct SamplingSpec {
  float temperature = 1;
  float top_p = 1;
  float min_p = 0;
  int32_t top_k = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> allowed_token_ids;  // empty: all
  std::vector<std::vector<TokenId>> bad_words;
  std::vector<TokenId> stop_token_ids;
  std::vector<TokenId> end_ids;  // of the vocabulary
  bool ignore_eos = false;
  int32_t min_tokens = 0;
  int32_t max_tokens = 0;  // of output, counted from the start of the request
  uint64_t seed = 0;       // always set by the router
  int32_t logprobs = -1;   // how many top log-probabilities; -1 none
  // Form of the output: kind and texts of a grammar (common/grammar); 0 is none.
  uint8_t grammar_kind = 0;
  std::vector<std::string> grammar_texts;
  // Ids from here on are no tokens and never sampled: a model's head may have more rows than its
  // vocabulary has tokens. 0: all rows are tokens.
  uint32_t token_count = 0;
  // Above 0 the choices are not sampled: they are the so many best results of a beam search of this
  // width (decode_worker/beam_search.h), and there is one choice for each. Nothing of the output is
  // told before the search is over.
  uint32_t beam_width = 0;
  double length_penalty = 1;
};

struct TokenLogprob {
  float logprob = 0;                           // of the sampled token, or of one of the prompt
  std::vector<std::pair<TokenId, float>> top;  // descending
  int32_t rank = 0;                            // of a token of the prompt, from 1
};

// What a choice has produced so far. In a request that was never moved it is empty.
struct ChoiceState {
  std::vector<TokenId> output;
  FinishReason finished = FinishReason::kNone;
};

// A whole request: everything that the next token depends on. P passes it on to D inside RESERVE.
struct RunBody {
  RunKey key;
  std::vector<TokenId> prompt;
  std::vector<ChoiceState> choices = {ChoiceState{}};  // n = size; never empty
  SamplingSpec sampling;
  // How many top log-probabilities of every token of the prompt but the first; -1 none. Whoever
  // computes the prompt then computes all of it, whatever its prefix cache holds.
  int32_t prompt_logprobs = -1;
  std::string cache_salt;
  // Of cached blocks only whole ones are used: clients have different keys, and a part would tell
  // how many tokens another's prompt begins with (docs/security.md).
  bool whole_blocks = false;
  int64_t priority = 0;      // smaller first, wherever it waits; equal ones in order of arrival
  Incarnation router;        // where TOKENS go
  uint32_t deadline_ms = 0;  // time left when the message was sent; 0 = none
};

struct DecodeTarget {
  std::string name;
  Incarnation incarnation;
  std::string address;  // ZeroMQ endpoint of its transfer agent
};

// Router -> P.
struct Prefill {
  RunBody body;
  std::vector<DecodeTarget> decodes;  // in order of preference; leg = index
};
// Router -> D: prefill and decode here.
struct Run {
  RunBody body;
};
// Router -> P and every listed D. Idempotent; leaves a tombstone for (request, attempt and older).
struct Cancel {
  RequestId request;
  uint16_t attempt = 0;
  std::string reason;  // "client", "stop", "superseded", "deadline"
};

// ---------------------------------------------------------------- results (workers -> router)

// Where the time of a run went; zero where it does not apply. P sends it with its first TOKENS, and
// again, complete, after the hand-over; D with the first of its own.
struct RunTimings {
  std::string prefill_worker;
  double queue_ms = 0;
  double prefill_ms = 0;
  uint32_t prompt_tokens_computed = 0;
  uint32_t prompt_tokens_cached = 0;
  std::string transport;
  double transfer_ms = 0;          // first RESERVE to COMMIT_ACK, as P saw it
  double transfer_visible_ms = 0;  // of this, what came after the prefill's end
  uint64_t transfer_bytes = 0;
  double first_data_ms = 0;     // of transfer_ms, what passed before the first KV left
  double grant_ms = 0;          // of transfer_ms, what passed before D had room
  uint32_t prefill_chunks = 0;  // steps that computed the prompt
};

struct Tokens {
  RunKey key;
  Incarnation from;
  uint32_t choice = 0;
  uint32_t first_index = 0;  // output index of ids[0]
  std::vector<TokenId> ids;
  std::vector<TokenLogprob> logprobs;  // one per id when asked for
  FinishReason finish = FinishReason::kNone;
  std::optional<RunTimings> timings;
};
// What a chunk of the prompt gave, before the first token of the run from the same sender.
struct PromptLogprobs {
  RunKey key;
  Incarnation from;
  uint32_t first = 0;  // place in the prompt of the first token told about; at least 1
  std::vector<TokenLogprob> logprobs;
};
// The run ended without a result; the router decides whether to try elsewhere.
struct RunFailed {
  RunKey key;
  Incarnation from;
  StatusCode code = StatusCode::kInternal;
  std::string message;
  uint32_t retry_after_ms = 0;
};
// P tells the router which leg now owns the request (its index in Prefill.decodes).
struct LegChanged {
  RunKey key;
  Incarnation from;
  std::string reason;
};

// ---------------------------------------------------------------- membership (workers <-> router)

struct WorkerInfo {
  uint32_t proto_version = kProtoVersion;
  Role role = Role::kPrefill;
  std::string name;
  Incarnation incarnation;
  std::string model_name;
  U128 model_hash;
  std::string numerics;  // numerics id, with segments
  std::string transfer_address;
  std::string http_url;
  uint32_t tensor_parallel = 1;
  uint32_t segments = 1;
  uint32_t block_tokens = 0;
  uint32_t blocks_total = 0;  // of layers that see all tokens; 0 when none does
  uint32_t max_context = 0;
  uint32_t vocab_size = 0;
  uint32_t kv_bytes_per_token = 0;  // of layers that see all tokens
  uint32_t window_tokens = 0;       // 0: no layer has a window
  uint32_t window_blocks_total = 0;
  uint32_t window_kv_bytes_per_token = 0;  // of layers with a window
  uint32_t pid = 0;  // means something to processes of the same boot and pid namespace
  std::string boot_id;
  std::string pid_namespace;
};
struct Register {
  WorkerInfo info;
};
// The router accepts, or refuses with a reason (and the worker keeps trying).
struct Welcome {
  Incarnation router;
  bool accepted = true;
  std::string reason;
};
struct LinkInfo {
  std::string peer;
  std::string transport;
};
// What a worker's steps reached over the last half minute; a value is missing when nothing ran that
// it could be of. For people: nothing is decided by it.
struct RecentLoad {
  std::optional<double> prefill_tokens_per_s;    // while steps with prompts ran
  std::optional<double> prefill_roofline_share;  // of these steps
  std::optional<double> decode_tokens_per_s;     // while steps with streams ran
  std::optional<double> decode_roofline_share;   // of steps without prompts
  std::optional<double> batch_mean;              // sequences in a step
  std::optional<double> preemptions;
  std::optional<double> prefix_hit_ratio;
  std::optional<double> step_ms_p50;
};
struct Heartbeat {
  Incarnation incarnation;
  bool draining = false;
  uint64_t loop_ticks = 0;     // moves while the loop turns
  uint64_t compute_ticks = 0;  // moves while a step's layers go on
  bool step_running = false;
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint32_t blocks_total = 0;
  uint32_t blocks_free = 0;  // free + cached
  uint32_t window_blocks_total = 0;
  uint32_t window_blocks_free = 0;
  uint32_t waiting_tokens = 0;      // prompt tokens queued or in progress, not yet computed
  double prefill_tokens_per_s = 0;  // measured lately; 0 = not yet
  double decode_step_ms = 0;
  double transfer_bytes_per_s = 0;
  std::vector<LinkInfo> links;
  // Hints for placement: block hashes that entered and left the prefix cache.
  std::vector<U128> cache_added, cache_removed;
  bool cache_overflow = false;  // some were dropped: forget what was known
  RecentLoad recent;
};
// The sender, a worker or a router, is about to exit as asked.
struct Goodbye {
  Incarnation incarnation;
};

// ---------------------------------------------------------------- hand-over (worker <-> worker)
// States, timers and failure table: docs/protocol.md. Per-ticket messages carry (slot, generation);
// neither is ever 0.

struct CacheGroupInfo {
  uint8_t kind = 0;
  uint8_t dtype = 0;
  uint32_t layers = 0, kv_heads = 0, k_dim = 0, v_dim = 0;
  uint32_t window = 0;
};
struct HeadRangeInfo {
  uint32_t begin = 0, end = 0;
};
struct Hello {
  uint32_t proto_version = kProtoVersion;
  std::string name;
  Role role = Role::kPrefill;
  Incarnation incarnation;
  // What the peer shares with us: common/base/host_identity.h.
  std::string boot_id;
  std::string pid_namespace;
  std::string network_namespace;
  std::string shared_memory;
  uint32_t pid = 0;
  U128 model_hash;
  std::string numerics;
  uint32_t segments = 1;
  uint32_t block_tokens = 32;
  std::vector<CacheGroupInfo> groups;
  std::vector<uint8_t> layer_groups;    // of each layer; empty with one group
  std::vector<uint8_t> layouts;         // offered, best first
  std::vector<HeadRangeInfo> heads;     // of each rank
  std::vector<std::string> transports;  // offered, best first
  std::string worker_address;           // of each transport
  std::vector<std::string> devices;     // of ucx-tcp
  bool digest = true;
  uint32_t heartbeat_ms = 200;
};
struct HelloReply {
  bool accepted = false;
  std::string reason;  // of a refusal: what differs, both values
  Hello hello;         // the answering side's own
  uint8_t layout = 0;
  std::string transport;
};
struct Reserve {
  RunKey key;
  uint64_t reserve_id = 0;  // of the sender, never reused in its incarnation
  uint32_t kv_tokens = 0;   // tokens whose KV comes: prompt, or prompt + output - 1
  uint32_t deadline_ms = 0;
  RunBody body;
};
struct Grant {
  uint64_t reserve_id = 0;
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint32_t have_tokens = 0;  // D's own prefix hits, a multiple of the push unit
  uint32_t lease_ms = 0;
  uint32_t window_have_tokens = 0;  // the same of the second cache group
  // D's block tables, where the sender writes into D's pools itself (transport "pool").
  std::vector<BlockId> blocks;
  std::vector<BlockId> window_blocks;
};
// The sender has written the bytes of a DATA where GRANT says; `header` is that of the DATA.
struct Written {
  std::string header;
};
struct Deny {
  uint64_t reserve_id = 0;
  StatusCode code = StatusCode::kResourceExhausted;
  std::string reason;
  uint32_t retry_after_ms = 0;
};
struct CommittedChoice {
  uint32_t index = 0;
  std::vector<TokenId> output;
  std::vector<TokenLogprob> logprobs;
  FinishReason finished = FinishReason::kNone;
};
struct Commit {
  RunKey key;
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint32_t layers = 0;
  uint32_t pieces = 0;  // per layer and rank, from have_tokens on
  uint64_t bytes = 0;
  uint64_t digest = 0;
  std::vector<CommittedChoice> choices;
  RunTimings timings;
};
struct CommitAck {
  uint32_t slot = 0;
  uint32_t generation = 0;
  bool ok = false;
  std::string reason;
};
struct Abort {
  RunKey key;
  uint64_t reserve_id = 0;
  uint32_t slot = 0;  // 0 before a grant
  uint32_t generation = 0;
  std::string reason;
};
struct AbortAck {
  uint64_t reserve_id = 0;
  uint32_t slot = 0;
  uint32_t generation = 0;
  bool quiesced = false;  // the sender posts nothing more and every request of it is terminal
};
// What became of a ticket? Asked when an acknowledgement is missing.
struct StatusQuery {
  uint32_t slot = 0;
  uint32_t generation = 0;
};
struct StatusReply {
  uint32_t slot = 0;
  uint32_t generation = 0;
  enum class State : uint8_t {
    kUnknown = 0,
    kReserved,
    kReceiving,
    kCommitted,
    kAborted
  } state = State::kUnknown;
};
struct PeerHeartbeat {
  Incarnation incarnation;
  uint32_t oldest_active_ms = 0;
  bool stuck = false;  // the sender's own loop or step makes no progress
};

using Message =
    std::variant<Prefill, Run, Cancel, Tokens, RunFailed, LegChanged, Register, Welcome, Heartbeat,
                 Goodbye, Hello, HelloReply, Reserve, Grant, Deny, Commit, CommitAck, Abort,
                 AbortAck, StatusQuery, StatusReply, PeerHeartbeat, PromptLogprobs, Written>;

}  // namespace baton::wire
