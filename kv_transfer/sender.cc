#include "kv_transfer/sender.h"

#include <algorithm>
#include <utility>

#include "kv_transfer/sender_transfer.h"

namespace baton::kv_transfer {
namespace {

// A request without a deadline still ends: the decode worker's queue is not waited for longer.
constexpr Duration kLongestReserve = std::chrono::minutes(10);
// How far apart RESERVE is sent again while the decode worker has no room, in reserve timeouts.
constexpr int kSlowestResend = 8;

}  // namespace

SenderTable::SenderTable(const CoreContext& context, SessionTable& sessions)
    : context_(context),
      sessions_(sessions),
      spill_(context.options.pools.front()->group_bytes()) {}
SenderTable::~SenderTable() = default;

// ---------------------------------------------------------------- looking up

SenderTable::Transfer* SenderTable::find(TransferId id) {
  const auto it = transfers_.find(id);
  return it == transfers_.end() || is_final(it->second->state) ? nullptr : it->second.get();
}

// reserve_id on the wire is the transfer's own id.
SenderTable::Transfer* SenderTable::by_reserve(const Session& session, uint64_t reserve_id) {
  Transfer* transfer = find(reserve_id);
  if (transfer == nullptr) {
    drop(DropReason::kUnknownTicket);
    return nullptr;
  }
  if (transfer->session != session.id) {
    drop(DropReason::kForeignSession);
    return nullptr;
  }
  return transfer;
}

SenderTable::Transfer* SenderTable::by_ticket(const Session& session, uint32_t slot,
                                              uint32_t generation) {
  for (auto& [id, transfer] : transfers_) {
    if (transfer->session == session.id && transfer->slot == slot &&
        transfer->generation == generation && !is_final(transfer->state)) {
      return transfer.get();
    }
  }
  drop(DropReason::kUnknownTicket);
  return nullptr;
}

bool SenderTable::step(Transfer& transfer, SenderEvent event) {
  if constexpr (kFaultPoints) {
    if (context_.options.faults != nullptr) {
      context_.options.faults->disturb(FaultPoint::kSenderStep);
    }
  }
  const std::optional<SenderState> to = next_state(transfer.state, event);
  if (!to) {
    drop(DropReason::kUnexpected);
    return false;
  }
  transfer.state = *to;
  return true;
}

// ---------------------------------------------------------------- the worker loop's calls

void SenderTable::open(TransferId id, OpenTransfer request, TimePoint now) {
  auto made = std::make_unique<Transfer>();
  Transfer& transfer = *made;
  transfer.id = id;
  transfer.request = std::move(request);
  transfer.opened = transfer.last_progress = now;
  const auto& pools = context_.options.pools;
  transfer.written.assign(pools.size(),
                          std::vector<int>(static_cast<size_t>(pools.front()->layers()), 0));
  transfers_.emplace(id, std::move(made));
  const int block_tokens = pools.front()->layout().block_tokens;
  const bool full = pools.front()->layout().groups.front().kind == kv_cache::CacheKind::kFull;
  if (transfer.request.kv_tokens < 1 ||
      (full && transfer.request.blocks.size() * static_cast<size_t>(block_tokens) <
                   static_cast<size_t>(transfer.request.kv_tokens))) {
    cancel(transfer, internal_error("open(): the blocks do not hold the tokens"), now, false);
    return;
  }
  Result<Session*> session = sessions_.open(transfer.request.target, now);
  if (!session.ok()) {
    cancel(transfer, session.status(), now, false);
    return;
  }
  transfer.session = (*session)->id;
  ++(*session)->users;
  if ((*session)->is_ready()) {
    reserve(transfer, **session, now);
  }
}

void SenderTable::add_blocks(TransferId id, int group, const std::vector<BlockId>& blocks) {
  if (Transfer* transfer = find(id); transfer != nullptr) {
    std::vector<BlockId>& table =
        group == 0 ? transfer->request.blocks : transfer->request.window_blocks;
    table.insert(table.end(), blocks.begin(), blocks.end());
  }
}

void SenderTable::layer_written(TransferId id, int rank, int layer, int tokens) {
  Transfer* transfer = find(id);
  if (transfer == nullptr) {
    return;  // it ended while the call was in the queue
  }
  int& written = transfer->written[static_cast<size_t>(rank)][static_cast<size_t>(layer)];
  written = std::max(written, std::min(tokens, transfer->request.kv_tokens));
  mark_ready(*transfer);
}

void SenderTable::commit(TransferId id, std::vector<wire::CommittedChoice> choices,
                         wire::RunTimings timings, TimePoint now) {
  Transfer* transfer = find(id);
  if (transfer == nullptr || transfer->commit_called) {
    return;
  }
  transfer->commit_called = true;
  transfer->choices = std::move(choices);
  transfer->timings = std::move(timings);
  transfer->committed = transfer->last_progress = now;
  for (std::vector<int>& layers : transfer->written) {
    std::fill(layers.begin(), layers.end(), transfer->request.kv_tokens);
  }
  if (transfer->state == SenderState::kGranted || transfer->state == SenderState::kPushing) {
    const Session* session = sessions_.find(transfer->session);
    transfer->deadline = now + transfer_limit(session->link->plan.total_bytes(transfer->first_piece,
                                                                              transfer->pieces));
  }
  mark_ready(*transfer);
  check_posted(*transfer, now);
}

void SenderTable::abort(TransferId id, const std::string& reason, TimePoint now) {
  if (Transfer* transfer = find(id); transfer != nullptr) {
    cancel(*transfer, cancelled(reason), now, true);
  }
}

// ---------------------------------------------------------------- ticket

void SenderTable::reserve(Transfer& transfer, Session& session, TimePoint now) {
  if (!step(transfer, SenderEvent::kSessionReady)) {
    return;
  }
  const OpenTransfer& request = transfer.request;
  if (transfer.resend_delay == Duration::zero()) {
    transfer.resend_delay = context_.options.timeouts.reserve;
  }
  transfer.next_resend = now + transfer.resend_delay;
  const PiecePlan& plan = session.link->plan;
  transfer.pieces = plan.pieces(request.kv_tokens);
  resend(transfer, now);
}

void SenderTable::resend(Transfer& transfer, TimePoint now) {
  Session* session = sessions_.find(transfer.session);
  if (transfer.state == SenderState::kCommitting) {
    transfer.next_resend = now + context_.options.timeouts.commit_ack;
    sessions_.send(*session, wire::StatusQuery{transfer.slot, transfer.generation});
    return;
  }
  wire::Reserve message;
  message.key = transfer.request.body.key;
  message.reserve_id = transfer.id;
  message.kv_tokens = static_cast<uint32_t>(transfer.request.kv_tokens);
  message.body = transfer.request.body;
  if (transfer.request.deadline != TimePoint::max()) {
    const double left = to_ms(transfer.request.deadline - now);
    message.deadline_ms = static_cast<uint32_t>(std::clamp(left, 1.0, 4e9));
    message.body.deadline_ms = message.deadline_ms;
  }
  sessions_.send(*session, message);
}

void SenderTable::on_message(Session& session, const wire::Grant& grant, TimePoint now) {
  Transfer* transfer = by_reserve(session, grant.reserve_id);
  if (transfer == nullptr) {
    refuse_ticket(session, grant);
    return;
  }
  if (transfer->state == SenderState::kAborting && transfer->slot == 0) {
    // The GRANT and our ABORT crossed; the receiver finds the ticket by the reservation.
    transfer->slot = grant.slot;
    transfer->generation = grant.generation;
    check_quiet(*transfer, now);
    return;
  }
  if (transfer->slot != 0) {
    // A reminder of our ticket, or another one for the same RESERVE.
    if (transfer->slot != grant.slot || transfer->generation != grant.generation) {
      refuse_ticket(session, grant);
    }
    return;
  }
  if (!step(*transfer, SenderEvent::kGrant)) {
    return;
  }
  transfer->slot = grant.slot;
  transfer->generation = grant.generation;
  transfer->next_resend = TimePoint::max();
  const PiecePlan& plan = session.link->plan;
  const auto unit = static_cast<uint32_t>(plan.unit_tokens());
  for (int group = 0; group < plan.cache_groups(); ++group) {
    const uint32_t have = group == 0 ? grant.have_tokens : grant.window_have_tokens;
    // Before the window the table may name blocks that are others' by now.
    const int seen = plan.first_piece(group, transfer->request.kv_tokens);
    if (have % unit != 0 || have > static_cast<uint32_t>(transfer->request.kv_tokens) ||
        have / unit < static_cast<uint32_t>(seen)) {
      cancel(*transfer, internal_error("GRANT of " + session.name + " has impossible have_tokens"),
             now, true);
      return;
    }
    transfer->first_piece[static_cast<size_t>(group)] = static_cast<int>(have / unit);
  }
  if (session.puts()) {
    if (Status status = take_tables(session, *transfer, grant); !status.ok()) {
      cancel(*transfer, std::move(status), now, true);
      return;
    }
  }
  begin_granted(*transfer, session, now);
}

// A RESERVE that was sent again while its answer was on the way makes a second ticket. Nobody will
// use it, so its blocks must not wait for the lease.
void SenderTable::refuse_ticket(Session& session, const wire::Grant& grant) {
  sessions_.send(
      session,
      wire::Abort{{}, grant.reserve_id, grant.slot, grant.generation, "the transfer is over"});
  tell_quiet(session, grant.reserve_id, grant.slot, grant.generation);
}

// Of a ticket that nothing is written for, now or later: its blocks may be used again.
void SenderTable::tell_quiet(Session& session, uint64_t reserve_id, uint32_t slot,
                             uint32_t generation) {
  if (session.puts()) {
    sessions_.send(session, wire::AbortAck{reserve_id, slot, generation, true});
  }
}

void SenderTable::begin_granted(Transfer& transfer, Session& session, TimePoint now) {
  const PiecePlan& plan = session.link->plan;
  transfer.posted.clear();
  for (int layer = 0; layer < plan.layers(); ++layer) {
    transfer.posted.insert(transfer.posted.end(), static_cast<size_t>(plan.target_ranks()),
                           transfer.first_piece[static_cast<size_t>(plan.group_of(layer))]);
  }
  transfer.granted = now;
  transfer.last_progress = now;
  if (transfer.commit_called) {
    transfer.deadline =
        now + transfer_limit(plan.total_bytes(transfer.first_piece, transfer.pieces));
  }
  context_.emit(TransferGranted{transfer.id, transfer.first_piece[0] * plan.unit_tokens()});
  mark_ready(transfer);
  check_posted(transfer, now);
}

void SenderTable::on_message(Session& session, const wire::Deny& deny, TimePoint now) {
  Transfer* transfer = by_reserve(session, deny.reserve_id);
  if (transfer == nullptr) {
    return;
  }
  if (transfer->state == SenderState::kAborting) {
    transfer->peer_answered = true;
    check_quiet(*transfer, now);
    return;
  }
  if (step(*transfer, SenderEvent::kDeny)) {
    transfer->why = Status(deny.code == StatusCode::kOk ? StatusCode::kInternal : deny.code,
                           session.name + ": " + deny.reason);
    transfer->retry_after_ms = deny.retry_after_ms;
    finish(*transfer, now);
  }
}

void SenderTable::drained(Transfer& transfer, TimePoint now) {
  switch (transfer.state) {
    case SenderState::kFlushing:
      step(transfer, SenderEvent::kDrained);
      transfer.resends = 0;
      send_commit(transfer, now);
      return;
    case SenderState::kAborting:
      check_quiet(transfer, now);
      return;
    case SenderState::kLosing:
      step(transfer, SenderEvent::kDrained);
      finish(transfer, now);
      return;
    case SenderState::kIdle:
    case SenderState::kReserving:
    case SenderState::kGranted:
    case SenderState::kPushing:
    case SenderState::kCommitting:
    case SenderState::kDone:
    case SenderState::kAborted:
    case SenderState::kFailed:
      return;  // more comes, or nothing was under way
  }
}

// ---------------------------------------------------------------- commit

void SenderTable::send_commit(Transfer& transfer, TimePoint now) {
  Session* session = sessions_.find(transfer.session);
  const PiecePlan& plan = session->link->plan;
  wire::Commit message;
  message.key = transfer.request.body.key;
  message.slot = transfer.slot;
  message.generation = transfer.generation;
  message.layers = static_cast<uint32_t>(plan.layers());
  message.pieces = static_cast<uint32_t>(plan.count(transfer.first_piece, transfer.pieces));
  message.bytes = transfer.bytes;
  message.digest = transfer.digest.finish();
  message.choices = transfer.choices;
  message.timings = transfer.timings;
  message.timings.first_data_ms = transfer.first_data_seconds() * 1e3;
  message.timings.grant_ms = to_ms(transfer.granted - transfer.opened);
  transfer.next_resend = now + context_.options.timeouts.commit_ack;
  transfer.last_progress = now;
  sessions_.send(*session, message);
}

void SenderTable::on_message(Session& session, const wire::CommitAck& ack, TimePoint now) {
  Transfer* transfer = by_ticket(session, ack.slot, ack.generation);
  if (transfer == nullptr) {
    return;
  }
  if (transfer->state == SenderState::kAborting && !ack.ok) {
    transfer->peer_answered = true;
    check_quiet(*transfer, now);
    return;
  }
  if (!step(*transfer, ack.ok ? SenderEvent::kAckOk : SenderEvent::kAckRefused)) {
    return;
  }
  if (!ack.ok) {
    // Bytes were lost or damaged on the way; the prompt's KV is as good as before.
    transfer->why = unavailable(session.name + " refused the commit: " + ack.reason);
    transfer->data_lost = true;
  }
  finish(*transfer, now);
}

void SenderTable::on_message(Session& session, const wire::StatusReply& reply, TimePoint now) {
  Transfer* transfer = by_ticket(session, reply.slot, reply.generation);
  if (transfer == nullptr || transfer->state != SenderState::kCommitting) {
    return;
  }
  using State = wire::StatusReply::State;
  switch (reply.state) {
    case State::kCommitted:
      step(*transfer, SenderEvent::kAckOk);
      finish(*transfer, now);
      return;
    case State::kReserved:
    case State::kReceiving:
      send_commit(*transfer, now);  // the COMMIT was lost, or is still being checked
      return;
    case State::kUnknown:
    case State::kAborted:
      step(*transfer, SenderEvent::kAckRefused);
      transfer->why = unavailable(session.name + " has no such ticket any more");
      transfer->data_lost = true;
      finish(*transfer, now);
      return;
  }
}

// ---------------------------------------------------------------- abort and loss

void SenderTable::cancel(Transfer& transfer, Status why, TimePoint now, bool tell_peer) {
  if (!step(transfer, SenderEvent::kCancel)) {
    return;
  }
  transfer.why = std::move(why);
  transfer.next_resend = TimePoint::max();
  if (transfer.state == SenderState::kAborted) {
    finish(transfer, now);
    return;
  }
  transfer.abort_deadline = now + context_.options.timeouts.abort_drain;
  if (tell_peer) {
    sessions_.send(*sessions_.find(transfer.session),
                   wire::Abort{transfer.request.body.key, transfer.id, transfer.slot,
                               transfer.generation, transfer.why.message()});
  } else {
    transfer.peer_answered = true;
  }
  check_quiet(transfer, now);
}

void SenderTable::on_message(Session& session, const wire::Abort& abort, TimePoint now) {
  // By the reservation: the GRANT of the ticket may never have come.
  Transfer* transfer = by_reserve(session, abort.reserve_id);
  if (transfer == nullptr) {
    tell_quiet(session, abort.reserve_id, abort.slot, abort.generation);
    return;
  }
  if (transfer->slot == 0) {
    transfer->slot = abort.slot;
    transfer->generation = abort.generation;
  } else if (abort.slot != 0 &&
             (transfer->slot != abort.slot || transfer->generation != abort.generation)) {
    drop(DropReason::kUnknownTicket);
    tell_quiet(session, abort.reserve_id, abort.slot, abort.generation);
    return;
  }
  transfer->peer_asked = true;
  // Whoever cancels the request tells us, too: this is a fault of that worker, and another may do.
  const std::string text = session.name + " aborted: " + abort.reason;
  Status why = abort.reason == "expired" ? deadline_exceeded(text) : unavailable(text);
  if (transfer->state == SenderState::kAborting) {
    if (transfer->push_failed) {
      transfer->why = std::move(why);
      transfer->data_lost = false;
    }
    transfer->peer_answered = true;
    check_quiet(*transfer, now);
    return;
  }
  cancel(*transfer, std::move(why), now, false);
}

void SenderTable::on_message(Session& session, const wire::AbortAck& ack, TimePoint now) {
  Transfer* transfer = by_reserve(session, ack.reserve_id);
  if (transfer != nullptr && transfer->state == SenderState::kAborting) {
    transfer->peer_answered = true;
    check_quiet(*transfer, now);
  }
}

void SenderTable::check_quiet(Transfer& transfer, TimePoint now) {
  if (transfer.state != SenderState::kAborting || transfer.outstanding > 0) {
    return;
  }
  Session& session = *sessions_.find(transfer.session);
  if (transfer.slot != 0 && (transfer.peer_asked || (session.puts() && !transfer.told_quiet))) {
    transfer.peer_asked = false;
    transfer.told_quiet = true;
    sessions_.send(session, wire::AbortAck{transfer.id, transfer.slot, transfer.generation, true});
  }
  if (transfer.peer_answered) {
    step(transfer, SenderEvent::kQuiet);
    finish(transfer, now);
  }
}

void SenderTable::session_ready(Session& session, TimePoint now) {
  for (auto& [id, transfer] : transfers_) {
    if (transfer->session == session.id && transfer->state == SenderState::kIdle) {
      reserve(*transfer, session, now);
    }
  }
}

void SenderTable::session_lost(Session& session, const Status& why, TimePoint now) {
  for (auto& [id, transfer] : transfers_) {
    if (transfer->session != session.id || is_final(transfer->state) ||
        transfer->state == SenderState::kLosing) {
      continue;
    }
    step(*transfer, SenderEvent::kPeerLost);
    transfer->data_lost = false;
    // A transfer that was being aborted on purpose keeps its own reason.
    if (transfer->why.ok() || transfer->push_failed) {
      transfer->why = why;
    }
    if (transfer->outstanding == 0) {
      drained(*transfer, now);
    }
  }
}

// The one place where a transfer ends.
void SenderTable::finish(Transfer& transfer, TimePoint now) {
  Session* session = sessions_.find(transfer.session);
  if (transfer.state == SenderState::kDone) {
    TransferAcked acked;
    acked.id = transfer.id;
    acked.bytes = transfer.bytes;
    acked.transport = session->link->transport;
    acked.seconds = to_seconds(now - transfer.opened);
    acked.visible_seconds = to_seconds(now - transfer.committed);
    acked.first_data_seconds = transfer.first_data_seconds();
    acked.grant_seconds = to_seconds(transfer.granted - transfer.opened);
    // Without DATA (the receiver had all) the hand-over is the commit alone.
    const TimePoint begin =
        transfer.first_posted == TimePoint{} ? transfer.committed : transfer.first_posted;
    context_.metrics.acked(to_seconds(now - begin), acked.visible_seconds);
    context_.emit(std::move(acked));
  } else {
    context_.metrics.failed(transfer.why.code());
    context_.emit(
        TransferFailed{transfer.id, transfer.why, transfer.retry_after_ms, transfer.data_lost});
  }
  if (session != nullptr) {
    --session->users;
  }
  finished_.push_back(transfer.id);
}

// ---------------------------------------------------------------- time

void SenderTable::sweep(TimePoint now, bool late) {
  for (const TransferId id : finished_) {
    transfers_.erase(id);
  }
  finished_.clear();
  const Timeouts& timeouts = context_.options.timeouts;
  for (auto& [id, owned] : transfers_) {
    Transfer& transfer = *owned;
    if (is_final(transfer.state)) {
      continue;
    }
    if (late) {
      transfer.last_progress = now;
    }
    const TimePoint request_deadline =
        std::min(transfer.request.deadline, transfer.opened + kLongestReserve);
    switch (transfer.state) {
      case SenderState::kReserving:
        if (now >= request_deadline) {
          cancel(transfer, deadline_exceeded("no room on the decode worker in time"), now, true);
        } else if (now >= transfer.next_resend) {
          transfer.resend_delay =
              std::min(transfer.resend_delay * 2, timeouts.reserve * kSlowestResend);
          transfer.next_resend = now + transfer.resend_delay;
          resend(transfer, now);
        }
        break;
      case SenderState::kCommitting:
        if (now >= transfer.next_resend &&
            transfer.resends++ >= context_.options.timeouts.commit_resends) {
          cancel(transfer, deadline_exceeded("the commit was not acknowledged"), now, true);
        } else if (now >= transfer.next_resend) {
          resend(transfer, now);
        }
        break;
      case SenderState::kPushing:
      case SenderState::kFlushing:
      case SenderState::kGranted:
        if (now >= std::min(transfer.deadline, transfer.request.deadline)) {
          cancel(transfer, deadline_exceeded("the KV transfer took too long"), now, true);
        } else if (transfer.outstanding > 0 &&
                   now - transfer.last_progress > timeouts.no_progress) {
          cancel(transfer, deadline_exceeded("the KV transfer made no progress"), now, true);
        }
        break;
      case SenderState::kAborting:
        if (now >= transfer.abort_deadline) {
          Session* session = sessions_.find(transfer.session);
          sessions_.lose(*session, worker_lost(session->name + " did not answer ABORT"), now);
        }
        break;
      case SenderState::kIdle:    // bounded by the handshake
      case SenderState::kLosing:  // bounded by the data path's close
      case SenderState::kDone:
      case SenderState::kAborted:
      case SenderState::kFailed:
        break;
    }
  }
}

Duration SenderTable::oldest(TimePoint now) const {
  Duration age{};
  for (const auto& [id, transfer] : transfers_) {
    if (!is_final(transfer->state)) {
      age = std::max(age, now - transfer->opened);
    }
  }
  return age;
}

}  // namespace baton::kv_transfer
