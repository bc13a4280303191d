// Admission (by priority, then first come, first served) and the receiving side of the hand-over.

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/worker/prompt_scores.h"
#include "common/worker/run_convert.h"
#include "decode_worker/decode_role.h"

namespace baton::decode_worker {

namespace {

// Of a beam search the prefill worker sends the candidates of the prompt's last row.
Status check_beam_commit(const wire::Commit& commit, int candidates, int vocab) {
  if (commit.choices.size() != 1 || commit.choices[0].logprobs.size() != 1 ||
      commit.choices[0].logprobs[0].top.size() != static_cast<size_t>(candidates)) {
    return internal_error("commit of a beam search without its first candidates");
  }
  for (const auto& [id, logprob] : commit.choices[0].logprobs[0].top) {
    if (id < 0 || id >= vocab || !(logprob <= 0)) {
      return internal_error("commit has a candidate that is no token with a log-probability");
    }
  }
  return Status();
}

}  // namespace

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
  } else if (const auto* lost = std::get_if<kv_transfer::PeerLost>(&event); lost && !draining_) {
    log_warn("peer lost", {{"peer", lost->name}, {"reason", lost->status.to_string()}});
  }
  // PeerUp and PeerLost change nothing here: the agent ends its transfers itself.
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
  if (status.ok() && (reserve.kv_tokens < 1 || reserve.kv_tokens > base_size(reserve.body))) {
    status = internal_error("a reservation for " + std::to_string(reserve.kv_tokens) +
                            " tokens of " + std::to_string(base_size(reserve.body)));
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

// What is admitted takes blocks for which the preempted lanes wait.
bool DecodeRole::may_overtake_preempted(const DecodeRun& run) const {
  return preempted_ == 0 || std::all_of(lanes_.begin(), lanes_.end(), [&run](const auto& entry) {
           const Lane& lane = *entry.second;
           return !lane.preempted || run.body.priority < lane.run.body.priority;
         });
}

void DecodeRole::admit() {
  while (!admission_.empty()) {
    DecodeRun& run = *runs_.at(admission_.front());
    if (!may_overtake_preempted(run) || !try_admit(run)) {
      break;
    }
    admission_.pop_front();
  }
}

// Room for the base and for the first step of its choices, beside the watermark.
bool DecodeRole::fits(const DecodeRun& run, const kv_cache::PerGroup<int>& found, int kv_tokens,
                      const kv_cache::Leases& held) const {
  for (int g = 0; g < env_.blocks.groups(); ++g) {
    const kv_cache::BlockPool& pool = env_.blocks.pool(g);
    int tail = tail_blocks(run.body, kv_tokens, env_.blocks, g, max_step());
    int missing = env_.blocks.blocks_for(kv_tokens) -
                  found[static_cast<size_t>(g)] / env_.blocks.block_tokens();
    if (env_.blocks.group(g).kind == kv_cache::CacheKind::kWindow) {
      // A prompt that is computed here takes its blocks as it goes on; where the pool is small its
      // chunks get shorter.
      missing = std::min(missing, env_.blocks.most_blocks(g, kv_tokens, max_step()));
      tail = std::min(tail, pool.total());
      const auto here = static_cast<int>(held[static_cast<size_t>(g)].held());
      missing = std::min(missing, std::max(0, pool.total() - tail - here));
    }
    if (pool.available() < missing + tail + growing_) {
      return false;
    }
  }
  return true;
}

void DecodeRole::take_slots(DecodeRun& run, int kv_tokens) {
  const int32_t limit = run.body.sampling.max_tokens;
  // The last token of a choice is never fed.
  const int64_t longest = static_cast<int64_t>(run.prompt_tokens()) + limit - 1;
  const bool grows = limit == 0 || longest > int64_t{env_.blocks.blocks_for(kv_tokens + 1)} *
                                                 env_.blocks.block_tokens();
  for (const wire::ChoiceState& choice : run.choices) {
    run.slots += choice.finished == wire::FinishReason::kNone ? 1 : 0;
  }
  run.growing = grows ? run.slots : 0;
  slots_ += run.slots;
  growing_ += run.growing;
}

void DecodeRole::release_slots(DecodeRun& run, int count) {
  run.slots -= count;
  slots_ -= count;
  const int growing = std::min(count, run.growing);
  run.growing -= growing;
  growing_ -= growing;
}

bool DecodeRole::try_admit(DecodeRun& run) {
  if (slots_ + static_cast<int>(run.choices.size()) > env_.entry.max_batch_sequences) {
    return false;
  }
  const std::vector<TokenId> tokens = run.base_tokens();
  const std::string& salt = run.body.cache_salt;
  // A look first: it may take many turns until there is room, and match() counts as a query. Then
  // again: cached blocks count as available until they are held.
  if (run.state == RunState::kWaiting) {
    // The last token is computed, because its row is sampled, and all of them when their rows are
    // scored.
    const auto size = static_cast<int>(tokens.size());
    const int usable = worker::wants_prompt_scores(run.body) ? 0 : size - 1;
    const int found = env_.blocks.peek(tokens, usable, salt);
    if (!fits(run, {found, found}, size, {})) {
      return false;
    }
    kv_cache::BlockPools::Hit hit = env_.blocks.match(tokens, usable, salt);
    if (!fits(run, {hit.tokens, hit.tokens}, size, hit.blocks)) {
      return false;
    }
    run.started = env_.clock.now();
    take_slots(run, size);
    // As if a block of the hit were not there: there shall be one to spare while it is copied from.
    kv_cache::BlockPools::Part part;
    const int one_less = hit.tokens - env_.blocks.block_tokens();
    if (!run.body.whole_blocks && fits(run, {one_less, one_less}, size, hit.blocks)) {
      part = env_.blocks.match_part(tokens, hit, usable);
    }
    prefill_here(run, std::move(hit), std::move(part));
    return true;
  }
  const int unit = run.push_unit_tokens;
  if (!fits(run, env_.blocks.peek_parts(tokens, run.kv_tokens, unit, salt), run.kv_tokens, {})) {
    return false;
  }
  kv_cache::BlockPools::Parts parts = env_.blocks.match_parts(tokens, run.kv_tokens, unit, salt);
  if (!fits(run, parts.tokens, run.kv_tokens, parts.blocks)) {
    return false;
  }
  run.started = env_.clock.now();
  take_slots(run, run.kv_tokens);
  grant(run, std::move(parts));
  return true;
}

void DecodeRole::prefill_here(DecodeRun& run, kv_cache::BlockPools::Hit hit,
                              kv_cache::BlockPools::Part part) {
  const int cached = hit.tokens + part.tokens;
  worker::Sequence sequence(new_sequence(), run.base_tokens());
  const int size = sequence.size();
  run.timings.prefill_worker = env_.entry.name;
  run.timings.queue_ms = to_ms(run.started - run.arrived);
  run.timings.prompt_tokens_cached = static_cast<uint32_t>(cached);
  run.timings.prompt_tokens_computed = static_cast<uint32_t>(size - cached);
  sequence.adopt(std::move(hit.blocks), hit.tokens);
  BATON_CHECK(sequence.reserve(size, env_.blocks).ok(), "blocks counted wrongly");
  sequence.copy_part(std::move(part));
  run.state = RunState::kPrefilling;
  add_lane(std::move(sequence), run, Lane::kBase);
}

void DecodeRole::grant(DecodeRun& run, kv_cache::BlockPools::Parts parts) {
  kv_cache::PerGroup<std::vector<BlockId>> tables;
  run.hits = std::move(parts.blocks);
  for (int g = 0; g < env_.blocks.groups(); ++g) {
    const auto at = static_cast<size_t>(g);
    const int missing =
        env_.blocks.blocks_for(run.kv_tokens) - static_cast<int>(run.hits[at].size());
    Result<kv_cache::BlockLease> incoming = env_.blocks.pool(g).allocate(missing);
    BATON_CHECK(incoming.ok(), "blocks counted wrongly");
    run.incoming[at] = std::move(incoming).value();
    env_.blocks.pool(g).mark_reserved(run.incoming[at]);
    for (const kv_cache::Leases* leases : {&run.hits, &run.incoming}) {
      const std::span<const BlockId> ids = (*leases)[at].ids();
      tables[at].insert(tables[at].end(), ids.begin(), ids.end());
    }
  }
  run.state = RunState::kGranted;
  run.ticket_open = true;
  agent_->grant(run.reservation, std::move(tables[0]), parts.tokens[0],
                {std::move(tables[1]), parts.tokens[1]});
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
    run->release_tables();
  } else if (run->ticket_open) {
    for (int g = 0; g < env_.blocks.groups(); ++g) {
      env_.blocks.pool(g).mark_quarantined(run->incoming[static_cast<size_t>(g)]);
    }
  }
  if (run->state != RunState::kClosing) {
    log_info("hand-over ended before its commit", {{"reason", why.to_string()}});
    retire(*run);
  }
  erase_if_quiet(*run);
}

void DecodeRole::on_committed(kv_transfer::TransferCommitted committed) {
  DecodeRun* run = find_reservation(committed.reservation);
  if (run == nullptr) {
    return;
  }
  run->ticket_open = false;
  for (int g = 0; g < env_.blocks.groups(); ++g) {
    env_.blocks.pool(g).mark_active(run->incoming[static_cast<size_t>(g)]);
  }
  if (run->state == RunState::kClosing) {
    run->release_tables();
    erase_if_quiet(*run);
    return;
  }
  by_reservation_.erase(committed.reservation);
  if (const Status status = check_commit(*run, committed.commit); !status.ok()) {
    fail(*run, status);
    return;
  }
  // The base is what has KV; the tokens that the prefill worker sampled follow in each choice.
  run->base = std::make_unique<worker::Sequence>(new_sequence(), run->base_tokens());
  for (size_t g = 0; g < run->hits.size(); ++g) {
    run->hits[g].append(std::move(run->incoming[g]));
  }
  run->base->adopt(std::move(run->hits), run->kv_tokens);
  run->base->publish(env_.blocks, run->body.cache_salt);
  run->timings = committed.commit.timings;
  run->timings.transport = committed.transport;
  run->timings.transfer_bytes = committed.bytes;
  run->timings.transfer_ms = to_ms(env_.clock.now() - run->started);
  run->state = RunState::kForking;
  if (run->beams != nullptr) {
    send_tokens(*run, 0, 0, {}, {});  // that the hand-over is done
    advance_beams(*run, committed.commit.choices[0].logprobs);
    return;
  }
  for (wire::CommittedChoice& choice : committed.commit.choices) {
    wire::ChoiceState& state = run->choices[choice.index];
    const auto first = static_cast<uint32_t>(state.output.size());
    for (const TokenId id : choice.output) {
      run->samplers[choice.index].accept(id);
      state.output.push_back(id);
    }
    if (choice.finished != wire::FinishReason::kNone) {
      state.finished = choice.finished;
      release_slots(*run, 1);
    }
    send_tokens(*run, static_cast<int>(choice.index), first, std::move(choice.output),
                std::move(choice.logprobs));
  }
  finish_if_done(*run);
}

// What a step would trip over: every choice that goes on needs a token to be fed, of the
// vocabulary, inside the context. The prefill worker's fault, not that of the client.
Status DecodeRole::check_commit(const DecodeRun& run, const wire::Commit& commit) const {
  const model::ModelDescription& model = env_.engine.description();
  if (run.beams != nullptr) {
    return check_beam_commit(commit, worker::beam_candidates(run.body.sampling), model.vocab);
  }
  std::vector<const wire::CommittedChoice*> named(run.choices.size(), nullptr);
  for (const wire::CommittedChoice& choice : commit.choices) {
    if (choice.index >= named.size() || named[choice.index] != nullptr ||
        run.choices[choice.index].finished != wire::FinishReason::kNone) {
      return internal_error("commit names a choice that the request does not have");
    }
    for (const TokenId id : choice.output) {
      if (id < 0 || id >= model.vocab) {
        return internal_error("commit has a token id outside the vocabulary");
      }
    }
    named[choice.index] = &choice;
  }
  for (size_t i = 0; i < named.size(); ++i) {
    const wire::ChoiceState& state = run.choices[i];
    const bool ended = state.finished != wire::FinishReason::kNone ||
                       (named[i] != nullptr && named[i]->finished != wire::FinishReason::kNone);
    const size_t size = run.body.prompt.size() + state.output.size() +
                        (named[i] != nullptr ? named[i]->output.size() : 0);
    if (!ended && (size <= static_cast<size_t>(run.kv_tokens) ||
                   size > static_cast<size_t>(model.max_context))) {
      return internal_error("commit leaves choice " + std::to_string(i) + " with " +
                            std::to_string(size) + " tokens");
    }
  }
  return Status();
}

}  // namespace baton::decode_worker
