#include "common/wire/codec.h"

#include <type_traits>

#include "common/wire/field_codec.h"

namespace baton::wire {
namespace {

// ---- encode: one overload per message fills its field of the envelope

void fill(const Prefill& m, pb::Envelope& e) {
  auto* p = e.mutable_prefill();
  put(m.body, p->mutable_body());
  for (const DecodeTarget& target : m.decodes) {
    auto* t = p->add_decodes();
    t->set_name(target.name);
    t->set_incarnation(target.incarnation.value);
    t->set_address(target.address);
  }
}
void fill(const Run& m, pb::Envelope& e) { put(m.body, e.mutable_run()->mutable_body()); }
void fill(const Cancel& m, pb::Envelope& e) {
  auto* p = e.mutable_cancel();
  put(m.request.value, p->mutable_request());
  p->set_attempt(m.attempt);
  p->set_reason(m.reason);
}
void fill(const Tokens& m, pb::Envelope& e) {
  auto* p = e.mutable_tokens();
  put(m.key, p->mutable_key());
  p->set_from(m.from.value);
  p->set_choice(m.choice);
  p->set_first_index(m.first_index);
  put_tokens(m.ids, p->mutable_ids());
  for (const TokenLogprob& logprob : m.logprobs) {
    put(logprob, p->add_logprobs());
  }
  p->set_finish(static_cast<uint32_t>(m.finish));
  if (m.timings) {
    put(*m.timings, p->mutable_timings());
  }
}
void fill(const PromptLogprobs& m, pb::Envelope& e) {
  auto* p = e.mutable_prompt_logprobs();
  put(m.key, p->mutable_key());
  p->set_from(m.from.value);
  p->set_first(m.first);
  for (const TokenLogprob& logprob : m.logprobs) {
    put(logprob, p->add_logprobs());
  }
}
void fill(const RunFailed& m, pb::Envelope& e) {
  auto* p = e.mutable_run_failed();
  put(m.key, p->mutable_key());
  p->set_from(m.from.value);
  p->set_code(static_cast<uint32_t>(m.code));
  p->set_message(m.message);
  p->set_retry_after_ms(m.retry_after_ms);
}
void fill(const LegChanged& m, pb::Envelope& e) {
  auto* p = e.mutable_leg_changed();
  put(m.key, p->mutable_key());
  p->set_from(m.from.value);
  p->set_reason(m.reason);
}
void fill(const Register& m, pb::Envelope& e) {
  put(m.info, e.mutable_register_worker()->mutable_info());
}
void fill(const Welcome& m, pb::Envelope& e) {
  auto* p = e.mutable_welcome();
  p->set_router(m.router.value);
  p->set_accepted(m.accepted);
  p->set_reason(m.reason);
}
void fill(const Heartbeat& m, pb::Envelope& e) { put(m, e.mutable_heartbeat()); }
void fill(const Goodbye& m, pb::Envelope& e) {
  e.mutable_goodbye()->set_incarnation(m.incarnation.value);
}
void fill(const Hello& m, pb::Envelope& e) { put(m, e.mutable_hello()); }
void fill(const HelloReply& m, pb::Envelope& e) {
  auto* p = e.mutable_hello_reply();
  p->set_accepted(m.accepted);
  p->set_reason(m.reason);
  put(m.hello, p->mutable_hello());
  p->set_layout(m.layout);
  p->set_transport(m.transport);
}
void fill(const Reserve& m, pb::Envelope& e) {
  auto* p = e.mutable_reserve();
  put(m.key, p->mutable_key());
  p->set_reserve_id(m.reserve_id);
  p->set_kv_tokens(m.kv_tokens);
  p->set_deadline_ms(m.deadline_ms);
  put(m.body, p->mutable_body());
}
void fill(const Grant& m, pb::Envelope& e) {
  auto* p = e.mutable_grant();
  p->set_reserve_id(m.reserve_id);
  p->set_slot(m.slot);
  p->set_generation(m.generation);
  p->set_have_tokens(m.have_tokens);
  p->set_window_have_tokens(m.window_have_tokens);
  p->set_lease_ms(m.lease_ms);
  p->mutable_blocks()->Assign(m.blocks.begin(), m.blocks.end());
  p->mutable_window_blocks()->Assign(m.window_blocks.begin(), m.window_blocks.end());
}
void fill(const Written& m, pb::Envelope& e) { e.mutable_written()->set_header(m.header); }
void fill(const Deny& m, pb::Envelope& e) {
  auto* p = e.mutable_deny();
  p->set_reserve_id(m.reserve_id);
  p->set_code(static_cast<uint32_t>(m.code));
  p->set_reason(m.reason);
  p->set_retry_after_ms(m.retry_after_ms);
}
void fill(const Commit& m, pb::Envelope& e) {
  auto* p = e.mutable_commit();
  put(m.key, p->mutable_key());
  p->set_slot(m.slot);
  p->set_generation(m.generation);
  p->set_layers(m.layers);
  p->set_pieces(m.pieces);
  p->set_bytes(m.bytes);
  p->set_digest(m.digest);
  for (const CommittedChoice& choice : m.choices) {
    auto* c = p->add_choices();
    c->set_index(choice.index);
    put_tokens(choice.output, c->mutable_output());
    for (const TokenLogprob& logprob : choice.logprobs) {
      put(logprob, c->add_logprobs());
    }
    c->set_finished(static_cast<uint32_t>(choice.finished));
  }
  put(m.timings, p->mutable_timings());
}
void fill(const CommitAck& m, pb::Envelope& e) {
  auto* p = e.mutable_commit_ack();
  p->set_slot(m.slot);
  p->set_generation(m.generation);
  p->set_ok(m.ok);
  p->set_reason(m.reason);
}
void fill(const Abort& m, pb::Envelope& e) {
  auto* p = e.mutable_abort();
  put(m.key, p->mutable_key());
  p->set_reserve_id(m.reserve_id);
  p->set_slot(m.slot);
  p->set_generation(m.generation);
  p->set_reason(m.reason);
}
void fill(const AbortAck& m, pb::Envelope& e) {
  auto* p = e.mutable_abort_ack();
  p->set_reserve_id(m.reserve_id);
  p->set_slot(m.slot);
  p->set_generation(m.generation);
  p->set_quiesced(m.quiesced);
}
void fill(const StatusQuery& m, pb::Envelope& e) {
  e.mutable_status_query()->set_slot(m.slot);
  e.mutable_status_query()->set_generation(m.generation);
}
void fill(const StatusReply& m, pb::Envelope& e) {
  auto* p = e.mutable_status_reply();
  p->set_slot(m.slot);
  p->set_generation(m.generation);
  p->set_state(static_cast<uint32_t>(m.state));
}
void fill(const PeerHeartbeat& m, pb::Envelope& e) {
  auto* p = e.mutable_peer_heartbeat();
  p->set_incarnation(m.incarnation.value);
  p->set_oldest_active_ms(m.oldest_active_ms);
  p->set_stuck(m.stuck);
}

// ---- decode: one overload per message; false for values outside their range

bool read(const pb::Prefill& p, Prefill& m) {
  for (const auto& t : p.decodes()) {
    m.decodes.push_back({t.name(), Incarnation{t.incarnation()}, t.address()});
  }
  return m.decodes.size() <= 0xFF && get(p.body(), &m.body);
}
bool read(const pb::Run& p, Run& m) { return get(p.body(), &m.body); }
bool read(const pb::Cancel& p, Cancel& m) {
  m.request.value = get(p.request());
  m.attempt = static_cast<uint16_t>(p.attempt());
  m.reason = p.reason();
  return p.attempt() <= 0xFFFF && !m.request.value.is_zero();
}
bool read(const pb::Tokens& p, Tokens& m) {
  m.from.value = p.from();
  m.choice = p.choice();
  m.first_index = p.first_index();
  m.ids = get_tokens(p.ids());
  for (const auto& logprob : p.logprobs()) {
    get(logprob, &m.logprobs.emplace_back());
  }
  if (p.has_timings()) {
    get(p.timings(), &m.timings.emplace());
  }
  return get(p.key(), &m.key) && get_finish(p.finish(), &m.finish);
}
bool read(const pb::PromptLogprobs& p, PromptLogprobs& m) {
  m.from.value = p.from();
  m.first = p.first();
  for (const auto& logprob : p.logprobs()) {
    get(logprob, &m.logprobs.emplace_back());
  }
  return get(p.key(), &m.key) && m.first > 0;
}
bool read(const pb::RunFailed& p, RunFailed& m) {
  m.from.value = p.from();
  m.code = status_code_from_wire(p.code());
  m.message = p.message();
  m.retry_after_ms = p.retry_after_ms();
  return get(p.key(), &m.key) && m.code != StatusCode::kOk;
}
bool read(const pb::LegChanged& p, LegChanged& m) {
  m.from.value = p.from();
  m.reason = p.reason();
  return get(p.key(), &m.key);
}
bool read(const pb::Register& p, Register& m) { return get(p.info(), &m.info); }
bool read(const pb::Welcome& p, Welcome& m) {
  m.router.value = p.router();
  m.accepted = p.accepted();
  m.reason = p.reason();
  return true;
}
bool read(const pb::Heartbeat& p, Heartbeat& m) {
  get(p, &m);
  return p.incarnation() != 0;
}
bool read(const pb::Goodbye& p, Goodbye& m) {
  m.incarnation.value = p.incarnation();
  return p.incarnation() != 0;
}
bool read(const pb::Hello& p, Hello& m) { return get(p, &m); }
bool read(const pb::HelloReply& p, HelloReply& m) {
  m.accepted = p.accepted();
  m.reason = p.reason();
  m.layout = static_cast<uint8_t>(p.layout());
  m.transport = p.transport();
  return p.layout() <= 0xFF && get(p.hello(), &m.hello);
}
bool read(const pb::Reserve& p, Reserve& m) {
  m.reserve_id = p.reserve_id();
  m.kv_tokens = p.kv_tokens();
  m.deadline_ms = p.deadline_ms();
  return p.reserve_id() != 0 && get(p.key(), &m.key) && get(p.body(), &m.body);
}
bool read(const pb::Grant& p, Grant& m) {
  m.reserve_id = p.reserve_id();
  m.slot = p.slot();
  m.generation = p.generation();
  m.have_tokens = p.have_tokens();
  m.window_have_tokens = p.window_have_tokens();
  m.lease_ms = p.lease_ms();
  m.blocks.assign(p.blocks().begin(), p.blocks().end());
  m.window_blocks.assign(p.window_blocks().begin(), p.window_blocks().end());
  return m.slot != 0 && m.generation != 0;
}
bool read(const pb::Written& p, Written& m) {
  m.header = p.header();
  return true;
}
bool read(const pb::Deny& p, Deny& m) {
  m.reserve_id = p.reserve_id();
  m.code = status_code_from_wire(p.code());
  m.reason = p.reason();
  m.retry_after_ms = p.retry_after_ms();
  return m.code != StatusCode::kOk;
}
bool read(const pb::Commit& p, Commit& m) {
  m.slot = p.slot();
  m.generation = p.generation();
  m.layers = p.layers();
  m.pieces = p.pieces();
  m.bytes = p.bytes();
  m.digest = p.digest();
  for (const auto& c : p.choices()) {
    CommittedChoice& choice = m.choices.emplace_back();
    choice.index = c.index();
    choice.output = get_tokens(c.output());
    for (const auto& logprob : c.logprobs()) {
      get(logprob, &choice.logprobs.emplace_back());
    }
    if (!get_finish(c.finished(), &choice.finished)) {
      return false;
    }
  }
  get(p.timings(), &m.timings);
  return m.slot != 0 && m.generation != 0 && get(p.key(), &m.key);
}
bool read(const pb::CommitAck& p, CommitAck& m) {
  m = {p.slot(), p.generation(), p.ok(), p.reason()};
  return m.slot != 0 && m.generation != 0;
}
bool read(const pb::Abort& p, Abort& m) {
  m.reserve_id = p.reserve_id();
  m.slot = p.slot();
  m.generation = p.generation();
  m.reason = p.reason();
  return get(p.key(), &m.key);
}
bool read(const pb::AbortAck& p, AbortAck& m) {
  m = {p.reserve_id(), p.slot(), p.generation(), p.quiesced()};
  return true;
}
bool read(const pb::StatusQuery& p, StatusQuery& m) {
  m = {p.slot(), p.generation()};
  return m.slot != 0 && m.generation != 0;
}
bool read(const pb::StatusReply& p, StatusReply& m) {
  m = {p.slot(), p.generation(), static_cast<StatusReply::State>(p.state())};
  return m.slot != 0 && m.generation != 0 &&
         p.state() <= static_cast<uint32_t>(StatusReply::State::kAborted);
}
bool read(const pb::PeerHeartbeat& p, PeerHeartbeat& m) {
  m = {Incarnation{p.incarnation()}, p.oldest_active_ms(), p.stuck()};
  return p.incarnation() != 0;
}

template <typename Plain, typename Proto>
Result<Message> made(const Proto& proto, std::string_view name) {
  Plain plain;
  if (!read(proto, plain)) {
    return invalid_argument("message '" + std::string(name) + "' has a value outside its range");
  }
  return Message(std::move(plain));
}

}  // namespace

std::string encode(const Message& message) {
  pb::Envelope envelope;
  envelope.set_proto_version(kProtoVersion);
  std::visit([&envelope](const auto& m) { fill(m, envelope); }, message);
  return envelope.SerializeAsString();
}

Result<Message> decode(std::string_view bytes) {
  if (bytes.size() > kMaxMessageBytes) {
    return invalid_argument("message of " + std::to_string(bytes.size()) + " bytes, limit " +
                            std::to_string(kMaxMessageBytes));
  }
  pb::Envelope e;
  if (!e.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("not a message of Baton");
  }
  switch (e.message_case()) {
    case pb::Envelope::kPrefill:
      return made<Prefill>(e.prefill(), "prefill");
    case pb::Envelope::kRun:
      return made<Run>(e.run(), "run");
    case pb::Envelope::kCancel:
      return made<Cancel>(e.cancel(), "cancel");
    case pb::Envelope::kTokens:
      return made<Tokens>(e.tokens(), "tokens");
    case pb::Envelope::kRunFailed:
      return made<RunFailed>(e.run_failed(), "run_failed");
    case pb::Envelope::kLegChanged:
      return made<LegChanged>(e.leg_changed(), "leg_changed");
    case pb::Envelope::kRegisterWorker:
      return made<Register>(e.register_worker(), "register");
    case pb::Envelope::kWelcome:
      return made<Welcome>(e.welcome(), "welcome");
    case pb::Envelope::kHeartbeat:
      return made<Heartbeat>(e.heartbeat(), "heartbeat");
    case pb::Envelope::kGoodbye:
      return made<Goodbye>(e.goodbye(), "goodbye");
    case pb::Envelope::kHello:
      return made<Hello>(e.hello(), "hello");
    case pb::Envelope::kHelloReply:
      return made<HelloReply>(e.hello_reply(), "hello_reply");
    case pb::Envelope::kReserve:
      return made<Reserve>(e.reserve(), "reserve");
    case pb::Envelope::kGrant:
      return made<Grant>(e.grant(), "grant");
    case pb::Envelope::kDeny:
      return made<Deny>(e.deny(), "deny");
    case pb::Envelope::kCommit:
      return made<Commit>(e.commit(), "commit");
    case pb::Envelope::kCommitAck:
      return made<CommitAck>(e.commit_ack(), "commit_ack");
    case pb::Envelope::kAbort:
      return made<Abort>(e.abort(), "abort");
    case pb::Envelope::kAbortAck:
      return made<AbortAck>(e.abort_ack(), "abort_ack");
    case pb::Envelope::kStatusQuery:
      return made<StatusQuery>(e.status_query(), "status_query");
    case pb::Envelope::kStatusReply:
      return made<StatusReply>(e.status_reply(), "status_reply");
    case pb::Envelope::kPeerHeartbeat:
      return made<PeerHeartbeat>(e.peer_heartbeat(), "peer_heartbeat");
    case pb::Envelope::kPromptLogprobs:
      return made<PromptLogprobs>(e.prompt_logprobs(), "prompt_logprobs");
    case pb::Envelope::kWritten:
      return made<Written>(e.written(), "written");
    case pb::Envelope::MESSAGE_NOT_SET:
      break;
  }
  return invalid_argument("message of a kind that protocol version " +
                          std::to_string(kProtoVersion) + " does not know (sender speaks " +
                          std::to_string(e.proto_version()) + ")");
}

std::string_view message_name(const Message& message) {
  static constexpr std::string_view kNames[] = {"prefill",
                                                "run",
                                                "cancel",
                                                "tokens",
                                                "run_failed",
                                                "leg_changed",
                                                "register",
                                                "welcome",
                                                "heartbeat",
                                                "goodbye",
                                                "hello",
                                                "hello_reply",
                                                "reserve",
                                                "grant",
                                                "deny",
                                                "commit",
                                                "commit_ack",
                                                "abort",
                                                "abort_ack",
                                                "status_query",
                                                "status_reply",
                                                "peer_heartbeat",
                                                "prompt_logprobs",
                                                "written"};
  static_assert(std::size(kNames) == std::variant_size_v<Message>);
  return kNames[message.index()];
}

}  // namespace baton::wire
