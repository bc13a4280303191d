// Admission (first come, first served) and the receiving side of the hand-over.

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/log.h"
#include "decode_worker/decode_role.h"

namespace baton::decode_worker {

DecodeRun* DecodeRole::find_reservation(uint64_t reservation) {
  const auto it = by_reservation_.find(reservation);
  return it == by_reservation_.end() ? nullptr : runs_.at(it->second).get();
}

void DecodeRole::on_wake() {
  while (std::optional<kv_transfer::Event> event = events_.try_pop()) {
    on_event(std::move(*event));
  }
  admit();
}

void DecodeRole::on_event(kv_transfer::Event event) {
  if (auto* reserve = std::get_if<kv_transfer::ReserveArrived>(&event)) {
    on_reserve(std::move(*reserve));
  } else if (const auto* withdrawn = std::get_if<kv_transfer::ReserveWithdrawn>(&event)) {
    on_ticket_over(withdrawn->reservation, true, cancelled("the prefill worker withdrew"));
  } else if (auto* committed = std::get_if<kv_transfer::TransferCommitted>(&event)) {
    on_committed(std::move(*committed));
  } else if (const auto* aborted = std::get_if<kv_transfer::TicketAborted>(&event)) {
    on_ticket_over(aborted->reservation, false, aborted->status);
  } else if (const auto* released = std::get_if<kv_transfer::TicketReleased>(&event)) {
    on_ticket_over(released->reservation, true, Status());
  }
  // PeerUp and PeerLost change nothing here: the agent logs them and ends its transfers itself.
}

void DecodeRole::on_reserve(kv_transfer::ReserveArrived reserve) {
  if (refuse_stale(reserve.body.key)) {
    agent_->deny(reserve.reservation, cancelled("the request was cancelled or moved"), 0);
    return;
  }
  Status status = check(reserve.body);
  if (status.ok() && !env_.links.connected(reserve.body.router)) {
    status = unavailable("decode worker " + env_.entry.name +
                         " is not connected to the router of the request");
  }
  if (status.ok() && reserve.kv_tokens < 1) {
    status = invalid_argument("a reservation for no token");
  }
  if (!status.ok()) {
    agent_->deny(reserve.reservation, status, 0);
    return;
  }
  const Incarnation router = reserve.body.router;
  DecodeRun& run = add_run(std::move(reserve.body), router);
  run.state = RunState::kReserving;
  run.reservation = reserve.reservation;
  run.kv_tokens = reserve.kv_tokens;
  run.push_unit_tokens = std::max(1, reserve.push_unit_tokens);
  run.deadline = std::min(run.deadline, reserve.deadline);
  by_reservation_[run.reservation] = run.id;
}

// ---------------------------------------------------------------- admission

void DecodeRole::admit() {
  while (!admission_.empty() && preempted_ == 0) {
    DecodeRun& run = *runs_.at(admission_.front());
    if (!try_admit(run)) {
      break;
    }
    admission_.pop_front();
    erase_if_quiet(run);  // it may have been refused
  }
}

// Room for these blocks, and one more for every lane and ticket so that they can go on.
bool DecodeRole::fits(int blocks) const {
  int watermark = static_cast<int>(lanes_.size());
  for (const auto& [reservation, id] : by_reservation_) {
    watermark += runs_.at(id)->ticket_open ? 1 : 0;
  }
  return env_.blocks.available() >= blocks + watermark;
}

bool DecodeRole::try_admit(DecodeRun& run) {
  size_t busy = lanes_.size();
  for (const auto& [id, other] : runs_) {
    busy += other->state == RunState::kGranted ? other->choices.size() : 0;
  }
  if (busy + run.choices.size() > static_cast<size_t>(env_.entry.max_batch_sequences)) {
    return false;
  }
  const bool local = run.state == RunState::kWaiting;
  const std::vector<TokenId> tokens = run.base_tokens();
  const int kv_tokens = local ? static_cast<int>(tokens.size()) : run.kv_tokens;
  if (kv_tokens > static_cast<int>(tokens.size())) {
    agent_->deny(run.reservation, invalid_argument("more KV announced than tokens"), 0);
    by_reservation_.erase(run.reservation);
    run.state = RunState::kClosing;
    by_request_.erase(run.body.key.request);
    return true;
  }
  // Here the last token is computed, because its row is sampled; a hand-over may have all.
  kv_cache::BlockPool::Hit hit =
      env_.blocks.match(tokens, local ? kv_tokens - 1 : kv_tokens, run.body.cache_salt);
  if (!local) {
    hit.tokens = hit.tokens / run.push_unit_tokens * run.push_unit_tokens;
    hit.blocks.truncate(static_cast<size_t>(hit.tokens / env_.blocks.block_tokens()));
  }
  const int missing = env_.blocks.blocks_for(kv_tokens) - static_cast<int>(hit.blocks.size());
  if (!fits(missing + run.tail_blocks())) {
    return false;
  }
  run.started = env_.clock.now();
  if (local) {
    run.timings.prefill_worker = env_.entry.name;
    run.timings.queue_ms = to_ms(run.started - run.arrived);
    run.timings.prompt_tokens_cached = static_cast<uint32_t>(hit.tokens);
    run.timings.prompt_tokens_computed = static_cast<uint32_t>(kv_tokens - hit.tokens);
    worker::Sequence sequence(new_sequence(), tokens);
    sequence.adopt(std::move(hit.blocks), hit.tokens);
    BATON_CHECK(sequence.reserve(kv_tokens, env_.blocks).ok(), "blocks counted wrongly");
    run.state = RunState::kPrefilling;
    add_lane(std::move(sequence), run, Lane::kBase);
    return true;
  }
  Result<kv_cache::BlockLease> incoming = env_.blocks.allocate(missing);
  BATON_CHECK(incoming.ok(), "blocks counted wrongly");
  run.hits = std::move(hit.blocks);
  run.incoming = std::move(incoming).value();
  env_.blocks.mark_reserved(run.incoming);
  std::vector<BlockId> ids(run.hits.ids().begin(), run.hits.ids().end());
  ids.insert(ids.end(), run.incoming.ids().begin(), run.incoming.ids().end());
  run.state = RunState::kGranted;
  run.ticket_open = true;
  agent_->grant(run.reservation, std::move(ids), hit.tokens);
  return true;
}

// ---------------------------------------------------------------- tickets

// The reservation or its ticket ended without a commit. `released`: no writer is left.
void DecodeRole::on_ticket_over(uint64_t reservation, bool released, const Status& why) {
  DecodeRun* run = find_reservation(reservation);
  if (run == nullptr) {
    return;
  }
  if (released) {
    run->ticket_open = false;
    run->incoming.release();
    run->hits.release();
  } else if (run->ticket_open) {
    env_.blocks.mark_quarantined(run->incoming);
  }
  if (run->state == RunState::kReserving) {
    // Nobody waits for the answer any more.
    std::erase(admission_, run->id);
    by_request_.erase(run->body.key.request);
    run->state = RunState::kClosing;
  } else if (run->state == RunState::kGranted) {
    log_info("hand-over ended before its commit", {{"reason", why.to_string()}});
    by_request_.erase(run->body.key.request);
    run->state = RunState::kClosing;
  }
  erase_if_quiet(*run);
}

void DecodeRole::on_committed(kv_transfer::TransferCommitted committed) {
  DecodeRun* run = find_reservation(committed.reservation);
  if (run == nullptr) {
    return;
  }
  run->ticket_open = false;
  env_.blocks.mark_active(run->incoming);
  if (run->state == RunState::kClosing) {
    run->incoming.release();
    run->hits.release();
    erase_if_quiet(*run);
    return;
  }
  by_reservation_.erase(committed.reservation);
  // The base is what has KV; the tokens that the prefill worker sampled follow in each choice.
  run->base = std::make_unique<worker::Sequence>(new_sequence(), run->base_tokens());
  run->hits.append(std::move(run->incoming));
  run->base->adopt(std::move(run->hits), run->kv_tokens);
  run->base->publish(env_.blocks, run->body.cache_salt);
  run->timings = committed.commit.timings;
  run->timings.transport = committed.transport;
  run->timings.transfer_bytes = committed.bytes;
  run->timings.transfer_ms = to_ms(env_.clock.now() - run->started);
  run->state = RunState::kForking;
  for (wire::CommittedChoice& choice : committed.commit.choices) {
    if (choice.index >= run->choices.size()) {
      fail(*run, invalid_argument("commit names a choice that the request does not have"));
      return;
    }
    wire::ChoiceState& state = run->choices[choice.index];
    const auto first = static_cast<uint32_t>(state.output.size());
    for (const TokenId id : choice.output) {
      run->samplers[choice.index].accept(id);
      state.output.push_back(id);
    }
    state.finished = choice.finished;
    send_tokens(*run, static_cast<int>(choice.index), first, std::move(choice.output),
                std::move(choice.logprobs));
  }
}

}  // namespace baton::decode_worker
