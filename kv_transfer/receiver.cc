#include "kv_transfer/receiver.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "kv_transfer/receiver_ticket.h"

namespace baton::kv_transfer {
namespace {

constexpr size_t kRememberedTickets = 4'096;
constexpr const char* kExpired = "expired";
constexpr uint64_t kMostTokens = uint64_t{1} << 30;  // so that products of it fit

}  // namespace

ReceiverTable::ReceiverTable(const CoreContext& context, SessionTable& sessions,
                             uint32_t first_generation)
    : context_(context),
      sessions_(sessions),
      next_generation_(first_generation),
      quarantine_(context.options.timeouts.quarantine_alarm),
      spill_(context.options.pools.front()->group_bytes()),
      zeros_(spill_.size()) {}

ReceiverTable::~ReceiverTable() = default;

// ---------------------------------------------------------------- looking up

ReceiverTable::Ticket* ReceiverTable::find(uint64_t reservation) {
  const auto it = tickets_.find(reservation);
  return it == tickets_.end() ? nullptr : it->second.get();
}

ReceiverTable::Ticket* ReceiverTable::by_slot(uint32_t slot, uint32_t generation) {
  if (slot == 0 || slot > slots_.size()) {
    return nullptr;
  }
  Ticket* ticket = find(slots_[slot - 1]);
  return ticket != nullptr && ticket->generation == generation ? ticket : nullptr;
}

bool ReceiverTable::step(Ticket& ticket, ReceiverEvent event) {
  if constexpr (kFaultPoints) {
    if (context_.options.faults != nullptr) {
      context_.options.faults->disturb(FaultPoint::kReceiverStep);
    }
  }
  const std::optional<ReceiverState> to = next_state(ticket.state, event);
  if (!to) {
    drop(DropReason::kUnexpected);
    return false;
  }
  ticket.state = *to;
  return true;
}

uint32_t ReceiverTable::take_slot(uint64_t reservation) {
  if (free_slots_.empty()) {
    slots_.push_back(reservation);
    return static_cast<uint32_t>(slots_.size());
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot - 1] = reservation;
  return slot;
}

uint32_t ReceiverTable::take_generation() {
  const uint32_t generation = next_generation_++;
  if (next_generation_ == 0) {
    next_generation_ = 1;
  }
  return generation == 0 ? take_generation() : generation;
}

// ---------------------------------------------------------------- reservation

void ReceiverTable::on_message(Session& session, wire::Reserve reserve, TimePoint now) {
  for (const auto& [id, ticket] : tickets_) {
    if (ticket->session == session.id && ticket->reserve_id == reserve.reserve_id) {
      // Sent again because an answer was slow: the answer is the same.
      if (ticket->open()) {
        send_grant(*ticket, session);
      }
      return;
    }
  }
  const kv_cache::KvPool& pool = *context_.options.pools.front();
  // Of windows alone a sequence of any length holds little.
  const bool full = pool.layout().groups.front().kind == kv_cache::CacheKind::kFull;
  const uint64_t capacity = full ? static_cast<uint64_t>(pool.blocks()) *
                                       static_cast<uint64_t>(pool.layout().block_tokens)
                                 : kMostTokens;
  if (reserve.kv_tokens == 0 || reserve.kv_tokens > capacity) {
    sessions_.send(session,
                   wire::Deny{reserve.reserve_id, StatusCode::kResourceExhausted,
                              "KV of " + std::to_string(reserve.kv_tokens) +
                                  " tokens never fits a pool of " + std::to_string(capacity),
                              0});
    return;
  }
  if (tickets_.size() >= kMaxReservations) {
    sessions_.send(session, wire::Deny{reserve.reserve_id, StatusCode::kResourceExhausted,
                                       "too many reservations", 1'000});
    return;
  }
  auto made = std::make_unique<Ticket>();
  made->reservation = next_reservation_++;
  made->session = session.id;
  made->reserve_id = reserve.reserve_id;
  made->key = reserve.key;
  made->kv_tokens = static_cast<int>(reserve.kv_tokens);
  made->arrived = now;
  if (reserve.deadline_ms != 0) {
    made->deadline = now + std::chrono::milliseconds(reserve.deadline_ms);
  }
  ++session.users;
  ReserveArrived event;
  event.reservation = made->reservation;
  event.peer = session.name;
  event.body = std::move(reserve.body);
  event.kv_tokens = made->kv_tokens;
  event.push_unit_tokens = session.link->plan.unit_tokens();
  event.deadline = made->deadline;
  tickets_.emplace(made->reservation, std::move(made));
  context_.emit(std::move(event));
}

// The loop's own promises.
void ReceiverTable::check_grant(const Ticket& ticket, const PiecePlan& plan, int group,
                                int have_tokens) const {
  const kv_cache::KvPool& pool = *context_.options.pools.front();
  const std::vector<BlockId>& blocks = group == 0 ? ticket.blocks : ticket.window_blocks;
  const int unit = plan.unit_tokens();
  BATON_CHECK(have_tokens >= 0 && have_tokens <= ticket.kv_tokens && have_tokens % unit == 0,
              "have_tokens is a multiple of the push unit");
  const int first = plan.first_piece(group, ticket.kv_tokens);
  BATON_CHECK(have_tokens / unit >= first, "have_tokens begins in the window");
  const auto block_tokens = static_cast<size_t>(pool.layout().block_tokens);
  BATON_CHECK(blocks.size() * block_tokens >= static_cast<size_t>(ticket.kv_tokens),
              "granted blocks hold the tokens");
  for (size_t i = static_cast<size_t>(first * unit) / block_tokens; i < blocks.size(); ++i) {
    BATON_CHECK(blocks[i] < static_cast<BlockId>(pool.blocks(group)),
                "granted blocks are of the pool");
  }
}

void ReceiverTable::grant(uint64_t reservation, std::vector<BlockId> blocks, int have_tokens,
                          WindowGrant window, TimePoint now) {
  Ticket* ticket = find(reservation);
  if (ticket == nullptr || !step(*ticket, ReceiverEvent::kGrant)) {
    return;  // withdrawn meanwhile; the loop has been told
  }
  Session& session = *sessions_.find(ticket->session);
  const PiecePlan& plan = session.link->plan;
  ticket->blocks = std::move(blocks);
  ticket->window_blocks = std::move(window.blocks);
  ticket->slot = take_slot(reservation);
  ticket->generation = take_generation();
  ticket->pieces = plan.pieces(ticket->kv_tokens);
  for (int group = 0; group < plan.cache_groups(); ++group) {
    const int have = group == 0 ? have_tokens : window.have_tokens;
    check_grant(*ticket, plan, group, have);
    ticket->first_piece[static_cast<size_t>(group)] = have / plan.unit_tokens();
  }
  size_t rows = 0;
  for (int layer = 0; layer < plan.layers(); ++layer) {
    rows += static_cast<size_t>(ticket->pieces -
                                ticket->first_piece[static_cast<size_t>(plan.group_of(layer))]);
  }
  const auto ranks = static_cast<size_t>(plan.target_ranks());
  ticket->expected = rows * ranks;
  ticket->bits.assign(static_cast<size_t>(plan.layers()) *
                          static_cast<size_t>(ticket->pieces - ticket->lowest_piece(plan)) * ranks,
                      PieceState::kMissing);
  ticket->last_data = now;
  ticket->next_reminder = now + context_.options.timeouts.no_progress;
  extend_lease(*ticket, now);
  send_grant(*ticket, session);
}

void ReceiverTable::send_grant(const Ticket& ticket, Session& session) {
  const Timeouts& timeouts = context_.options.timeouts;
  wire::Grant message;
  message.reserve_id = ticket.reserve_id;
  message.slot = ticket.slot;
  message.generation = ticket.generation;
  const int unit = session.link->plan.unit_tokens();
  message.have_tokens = static_cast<uint32_t>(ticket.first_piece[0] * unit);
  message.window_have_tokens = static_cast<uint32_t>(ticket.first_piece[1] * unit);
  message.lease_ms = static_cast<uint32_t>(to_ms(timeouts.transfer_max + timeouts.lease_extra));
  if (session.puts()) {
    message.blocks = ticket.blocks;
    message.window_blocks = ticket.window_blocks;
  }
  sessions_.send(session, message);
}

// A sender that has no use for the ticket says so, should it or its refusal have been lost.
void ReceiverTable::remind(Ticket& ticket, TimePoint now) {
  ticket.next_reminder = std::max(now, ticket.last_data) + context_.options.timeouts.no_progress;
  if (now - ticket.last_data < context_.options.timeouts.no_progress) {
    return;
  }
  if (Session* session = sessions_.find(ticket.session); session != nullptr) {
    send_grant(ticket, *session);
  }
}

// DATA and heartbeats keep a lease alive, but heartbeats alone not for ever: a sender that forgot
// the ticket is alive too. And no lease outlives its request by more than the extra.
void ReceiverTable::extend_lease(Ticket& ticket, TimePoint now) {
  const Timeouts& timeouts = context_.options.timeouts;
  const Duration lease = timeouts.transfer_max + timeouts.lease_extra;
  ticket.lease_until = std::min(now + lease, ticket.last_data + 2 * timeouts.transfer_max);
  if (ticket.deadline != TimePoint::max()) {
    ticket.lease_until = std::min(ticket.lease_until, ticket.deadline + timeouts.lease_extra);
  }
}

void ReceiverTable::on_heartbeat(const Session& session, TimePoint now) {
  for (auto& [id, ticket] : tickets_) {
    if (ticket->session == session.id && ticket->open()) {
      extend_lease(*ticket, now);
    }
  }
}

void ReceiverTable::deny(uint64_t reservation, const Status& why, uint32_t retry_after_ms) {
  Ticket* ticket = find(reservation);
  if (ticket == nullptr || !step(*ticket, ReceiverEvent::kRefuse)) {
    return;
  }
  Session& session = *sessions_.find(ticket->session);
  sessions_.send(session,
                 wire::Deny{ticket->reserve_id, why.code(), why.message(), retry_after_ms});
  remove(*ticket, State::kAborted);
}

void ReceiverTable::withdraw(Ticket& ticket) {
  step(ticket, ReceiverEvent::kRefuse);
  context_.emit(ReserveWithdrawn{ticket.reservation});
  remove(ticket, State::kAborted);
}

// ---------------------------------------------------------------- commit

void ReceiverTable::on_message(Session& session, wire::Commit commit, TimePoint now) {
  Ticket* ticket = by_slot(commit.slot, commit.generation);
  if (ticket == nullptr || !ticket->open()) {
    const auto ended = ended_.find(TicketId{commit.slot} << 32 | commit.generation);
    const bool committed = ended != ended_.end() && ended->second == State::kCommitted;
    if (!committed) {
      drop(DropReason::kUnknownTicket);
    }
    sessions_.send(session, wire::CommitAck{commit.slot, commit.generation, committed,
                                            committed ? "" : "the ticket is over"});
    return;
  }
  if (ticket->session != session.id || ticket->key != commit.key) {
    drop(DropReason::kForeignSession);
    return;
  }
  if (now >= ticket->lease_until) {
    return;  // the sweep of this turn ends it and says so
  }
  ticket->held_commit = std::move(commit);
  if (ticket->pending == 0) {
    decide_commit(*ticket, now);
  }
}

Status ReceiverTable::check_commit(Ticket& ticket, const wire::Commit& commit) const {
  const PiecePlan& plan = sessions_.find(ticket.session)->link->plan;
  if (ticket.done != ticket.expected) {
    return internal_error(std::to_string(ticket.expected - ticket.done) + " of " +
                          std::to_string(ticket.expected) + " pieces are missing");
  }
  if (commit.layers != static_cast<uint32_t>(plan.layers()) ||
      commit.pieces != static_cast<uint32_t>(plan.count(ticket.first_piece, ticket.pieces))) {
    return internal_error("COMMIT names other layers or pieces than the ticket has");
  }
  if (commit.bytes != ticket.bytes) {
    return internal_error("COMMIT names " + std::to_string(commit.bytes) + " bytes, " +
                          std::to_string(ticket.bytes) + " arrived");
  }
  if (commit.digest != ticket.digest.finish()) {
    return internal_error("the digest of the COMMIT does not agree");
  }
  return Status();
}

// Nothing is pending. What is complete becomes the loop's; what is not never becomes runnable.
void ReceiverTable::decide_commit(Ticket& ticket, TimePoint now) {
  wire::Commit commit = std::move(*ticket.held_commit);
  ticket.held_commit.reset();
  Session& session = *sessions_.find(ticket.session);
  if (Status status = check_commit(ticket, commit); !status.ok()) {
    log_warn("refused a commit", {{"peer", session.name}, {"reason", status.message()}});
    sessions_.send(session,
                   wire::CommitAck{ticket.slot, ticket.generation, false, status.message()});
    ticket.writer_gone = true;  // COMMIT comes after the last write
    cancel(ticket, std::move(status), now);
    return;
  }
  step(ticket, ReceiverEvent::kCommitValid);
  sessions_.send(session, wire::CommitAck{ticket.slot, ticket.generation, true, ""});
  context_.emit(TransferCommitted{ticket.id(), ticket.reservation, std::move(commit), ticket.bytes,
                                  session.link->transport});
  step(ticket, ReceiverEvent::kHandedOver);
  remove(ticket, State::kCommitted);
}

void ReceiverTable::on_message(Session& session, const wire::StatusQuery& query, TimePoint) {
  wire::StatusReply reply{query.slot, query.generation, State::kUnknown};
  if (const Ticket* ticket = by_slot(query.slot, query.generation); ticket != nullptr) {
    reply.state = ticket->state == ReceiverState::kReserved    ? State::kReserved
                  : ticket->state == ReceiverState::kReceiving ? State::kReceiving
                                                               : State::kAborted;
  } else if (const auto ended = ended_.find(TicketId{query.slot} << 32 | query.generation);
             ended != ended_.end()) {
    reply.state = ended->second;
  }
  sessions_.send(session, reply);
}

// ---------------------------------------------------------------- the end without a commit

void ReceiverTable::abort_reservation(uint64_t reservation, const std::string& reason,
                                      TimePoint now) {
  Ticket* ticket = find(reservation);
  if (ticket == nullptr) {
    return;
  }
  if (ticket->state == ReceiverState::kAsked) {
    deny(reservation, cancelled(reason), 0);
    return;
  }
  if (ticket->open()) {
    tell_abort(*ticket, reason);
    cancel(*ticket, cancelled(reason), now);
  }
}

void ReceiverTable::on_message(Session& session, const wire::Abort& abort, TimePoint now) {
  Ticket* found = nullptr;
  for (auto& [id, ticket] : tickets_) {
    const bool this_one = abort.slot == 0 || ticket->slot == 0 ||
                          (ticket->slot == abort.slot && ticket->generation == abort.generation);
    if (ticket->session == session.id && ticket->reserve_id == abort.reserve_id && this_one) {
      found = ticket.get();
    }
  }
  if (found == nullptr) {
    // Over already. If it was committed the sender must learn that instead.
    const auto ended = ended_.find(TicketId{abort.slot} << 32 | abort.generation);
    if (abort.slot != 0 && ended != ended_.end() && ended->second == State::kCommitted) {
      sessions_.send(session, wire::CommitAck{abort.slot, abort.generation, true, ""});
      return;
    }
  } else if (found->state == ReceiverState::kAsked) {
    withdraw(*found);
  } else if (found->open()) {
    cancel(*found, cancelled(session.name + " aborted: " + abort.reason), now);
  }
  sessions_.send(session, wire::AbortAck{abort.reserve_id, abort.slot, abort.generation, false});
}

void ReceiverTable::tell_abort(const Ticket& ticket, const std::string& reason) {
  if (Session* session = sessions_.find(ticket.session); session != nullptr) {
    sessions_.send(*session, wire::Abort{ticket.key, ticket.reserve_id, ticket.slot,
                                         ticket.generation, reason});
  }
}

// A sender that writes by itself says when it writes no more; that, or its answer, may get lost.
void ReceiverTable::on_message(Session& session, const wire::AbortAck& ack, TimePoint) {
  Ticket* ticket = by_slot(ack.slot, ack.generation);
  if (!ack.quiesced || ticket == nullptr || ticket->session != session.id ||
      ticket->state != ReceiverState::kQuarantined) {
    return;  // nobody waits for it
  }
  ticket->writer_gone = true;
  release_if_quiet(*ticket);
}

void ReceiverTable::session_closed(const Session& session) {
  std::vector<Ticket*> of_session;
  for (auto& [id, ticket] : tickets_) {
    if (ticket->session == session.id) {
      of_session.push_back(ticket.get());
    }
  }
  for (Ticket* ticket : of_session) {
    ticket->writer_gone = true;
    release_if_quiet(*ticket);
  }
}

// From here on every DATA of the ticket is rejected; what is posted already ends by itself.
void ReceiverTable::cancel(Ticket& ticket, Status why, TimePoint now) {
  if (!step(ticket, ReceiverEvent::kCancel)) {
    return;
  }
  context_.metrics.failed(why.code());
  quarantine_.enter(ticket.reservation, now);
  ticket.next_ask = now + context_.options.timeouts.abort_drain;
  ticket.held_commit.reset();
  context_.emit(TicketAborted{ticket.id(), ticket.reservation, std::move(why)});
  release_if_quiet(ticket);
}

void ReceiverTable::release_if_quiet(Ticket& ticket) {
  if (ticket.state != ReceiverState::kQuarantined || ticket.pending > 0 ||
      (sessions_.find(ticket.session)->puts() && !ticket.writer_gone)) {
    return;
  }
  step(ticket, ReceiverEvent::kQuiet);
  quarantine_.leave(ticket.reservation);
  context_.emit(TicketReleased{ticket.id(), ticket.reservation});
  remove(ticket, State::kAborted);
}

void ReceiverTable::session_lost(Session& session, const Status& why, TimePoint now) {
  std::vector<Ticket*> of_session;
  for (auto& [id, ticket] : tickets_) {
    if (ticket->session == session.id) {
      of_session.push_back(ticket.get());
    }
  }
  for (Ticket* ticket : of_session) {
    if (ticket->state == ReceiverState::kAsked) {
      withdraw(*ticket);
    } else if (ticket->open()) {
      cancel(*ticket, why, now);
    }
  }
}

// The one place where a ticket ends: its slot may be taken again, with another generation.
void ReceiverTable::remove(Ticket& ticket, State last) {
  if (ticket.slot != 0) {
    slots_[ticket.slot - 1] = 0;
    free_slots_.push_back(ticket.slot);
    ended_[ticket.id()] = last;
    ended_order_.push_back(ticket.id());
    if (ended_order_.size() > kRememberedTickets) {
      ended_.erase(ended_order_.front());
      ended_order_.pop_front();
    }
  }
  if (Session* session = sessions_.find(ticket.session); session != nullptr) {
    --session->users;
  }
  tickets_.erase(ticket.reservation);
}

// ---------------------------------------------------------------- time

void ReceiverTable::sweep(TimePoint now, bool late) {
  std::vector<Ticket*> expired;
  for (auto& [id, ticket] : tickets_) {
    if (ticket->state == ReceiverState::kQuarantined && now >= ticket->next_ask) {
      ticket->next_ask = now + context_.options.timeouts.abort_drain;
      if (!ticket->writer_gone && sessions_.find(ticket->session)->puts()) {
        tell_abort(*ticket, "the ticket is over");
      }
    }
    if (!ticket->open()) {
      continue;
    }
    if (late) {
      ticket->last_data = now;
      extend_lease(*ticket, now);
    }
    if (now >= ticket->lease_until) {
      expired.push_back(ticket.get());
    } else if (now >= ticket->next_reminder) {
      remind(*ticket, now);
    }
  }
  for (Ticket* ticket : expired) {
    context_.metrics.lease_expired();
    tell_abort(*ticket, kExpired);
    cancel(*ticket, deadline_exceeded("the lease of the reservation ran out"), now);
  }
  for (const uint64_t reservation : quarantine_.overdue(now)) {
    const Ticket* ticket = find(reservation);
    log_error("blocks are held in quarantine",
              {{"reservation", reservation},
               {"posted_receives", ticket->pending},
               {"peer", sessions_.find(ticket->session)->name},
               {"may_write", sessions_.find(ticket->session)->puts()}});
  }
}

Duration ReceiverTable::oldest(TimePoint now) const {
  Duration age{};
  for (const auto& [id, ticket] : tickets_) {
    if (ticket->state != ReceiverState::kAsked) {
      age = std::max(age, now - ticket->arrived);
    }
  }
  return age;
}

}  // namespace baton::kv_transfer
