// Which of the prompts that wait may start.

#include <algorithm>
#include <utility>

#include "common/worker/prompt_scores.h"
#include "prefill_worker/prefill_role.h"

namespace baton::prefill_worker {

// Blocks of a window group that the run needs at a time, in chunks as long as may be. Where the
// pool is small the chunks get shorter.
int PrefillRole::window_need(const PrefillRun& run) const {
  const int group = window_group(env_.blocks);
  return group < 0
             ? 0
             : std::min(env_.blocks.most_blocks(group, run.sequence.size(),
                                                static_cast<int>(env_.entry.max_chunk_tokens)),
                        env_.blocks.pool(group).total());
}

// KV that waits here because its decode worker has no room for it.
PrefillRole::Parked PrefillRole::parked_blocks() const {
  Parked blocks;
  for (const auto& [id, run] : runs_) {
    if (run->transfer != 0 && !run->granted && run->state != RunState::kClosing) {
      blocks[run->target()] += static_cast<int>(run->sequence.blocks().size());
    }
  }
  return blocks;
}

// KV for one decode worker may wait in half of the pool: the other half is for requests that are
// bound elsewhere, so that a full decode worker delays nobody else. Those behind a run that waits
// for this wait, too, if they have the same target.
bool PrefillRole::must_wait(const PrefillRun& run, Parked& parked) const {
  const kv_cache::BlockPool& pool = env_.blocks.pool(0);
  const auto found = parked.find(run.target());
  if (found == parked.end() || run.target().value == 0 || !has_full_group(env_.blocks) ||
      found->second + pool.blocks_for(run.sequence.size()) <= pool.total() / 2) {
    return false;
  }
  found->second = pool.total();
  return true;
}

// The place of the first that may start of those that wait, from `from` on.
size_t PrefillRole::next_to_start(size_t from, Parked& parked) const {
  while (from < waiting_.size() && must_wait(*runs_.at(waiting_[from]), parked)) {
    ++from;
  }
  return from;
}

Duration PrefillRole::prompts_waiting() const {
  Parked parked = waiting_.empty() ? Parked() : parked_blocks();
  int tokens = 0;
  bool first = true;
  for (const std::deque<SequenceId>* runs : {&computing_, &waiting_}) {
    for (const SequenceId id : *runs) {
      const PrefillRun& run = *runs_.at(id);
      if (runs == &waiting_ && must_wait(run, parked)) {
        return Duration(0);  // for a decode worker, which should rather hurry
      }
      tokens += std::exchange(first, false) ? 0 : run.sequence.pending();
    }
  }
  const double rate = sizer_.tokens_per_second();
  return rate > 0 ? from_seconds(tokens / rate) : Duration(0);
}

bool PrefillRole::try_start(PrefillRun& run) {
  const int size = run.sequence.size();
  const int window_blocks = window_need(run);
  if (window_blocks > 0 &&
      window_promised_ + window_blocks > env_.blocks.pool(window_group(env_.blocks)).total()) {
    return false;
  }
  // The last token is always computed here, because its row is sampled, and all of them when their
  // rows are scored. A look first: it may take many turns until there is room, and match() counts
  // as a query.
  const int usable = worker::wants_prompt_scores(run.request.body) ? 0 : size - 1;
  const std::string& salt = run.request.body.cache_salt;
  const bool full = has_full_group(env_.blocks);
  const kv_cache::BlockPool& pool = env_.blocks.pool(0);
  const int found = env_.blocks.peek(run.sequence.tokens(), usable, salt);
  if (full && pool.available() < pool.blocks_for(size) - found / pool.block_tokens()) {
    return false;
  }
  kv_cache::BlockPools::Hit hit = env_.blocks.match(run.sequence.tokens(), usable, salt);
  const int missing = pool.blocks_for(size) - static_cast<int>(hit.blocks[0].size());
  if (full && pool.available() < missing) {
    return false;  // cached blocks count as available until they are held
  }
  kv_cache::BlockPools::Part part;
  if (pool.available() > missing && !run.request.body.whole_blocks) {
    part = env_.blocks.match_part(run.sequence.tokens(), hit, usable);
  }
  run.window_blocks = window_blocks;
  window_promised_ += window_blocks;
  run.cached_tokens = hit.tokens + part.tokens;
  run.sequence.adopt(std::move(hit.blocks), hit.tokens);
  BATON_CHECK(run.sequence.reserve(size, env_.blocks).ok(), "blocks counted wrongly");
  run.sequence.copy_part(std::move(part));
  run.state = RunState::kComputing;
  run.started = env_.clock.now();
  run.timings.prefill_worker = env_.entry.name;
  run.timings.queue_ms = to_ms(run.started - run.arrived);
  run.timings.prompt_tokens_cached = static_cast<uint32_t>(run.cached_tokens);
  run.timings.prompt_tokens_computed = static_cast<uint32_t>(size - run.cached_tokens);
  return true;
}

// Behind all that are as urgent or more.
void PrefillRole::queue(std::deque<SequenceId>& runs, SequenceId id) const {
  const auto place =
      std::upper_bound(runs.begin(), runs.end(), priority(id),
                       [this](int64_t mine, SequenceId other) { return mine < priority(other); });
  runs.insert(place, id);
}

// One that waits takes its place among those that compute. False when it has no room.
bool PrefillRole::start_waiting(size_t place, Parked& parked) {
  PrefillRun& run = *runs_.at(waiting_[place]);
  if (!try_start(run)) {
    return false;
  }
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(place));
  if (run.needs_decode() && run.request.decodes.empty()) {
    fail(run, unavailable("no decode worker to hand over to"));
    return true;
  }
  if (run.needs_decode()) {
    open_transfer(run);
    parked[run.target()] += static_cast<int>(run.sequence.blocks().size());
  }
  queue(computing_, run.sequence.id());
  return true;
}

}  // namespace baton::prefill_worker
