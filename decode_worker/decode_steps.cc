// The continuous batch: what each step feeds, and what comes out.

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/worker/prompt_scores.h"
#include "common/worker/run_convert.h"
#include "decode_worker/decode_role.h"

namespace baton::decode_worker {
namespace {

// The last row of a lane's feed gives the next token of its own choice, or the first of every
// choice that shares the prompt.
void ask_for_samples(Lane& lane, engine::SequencePlan& entry) {
  DecodeRun& run = lane.run;
  if (lane.choice != Lane::kBase) {
    entry.samples.push_back({&run.samplers[static_cast<size_t>(lane.choice)]});
    return;
  }
  for (sampling::SequenceSampler* sampler : run.samplers_of_base()) {
    entry.samples.push_back({sampler});
  }
}

}  // namespace

// The most urgent first, and of equal ones the oldest: who gets blocks, and from the other end who
// loses them. One order for both, or two lanes could take each other's blocks for ever.
std::vector<Lane*> DecodeRole::by_urgency() const {
  std::vector<Lane*> out;
  out.reserve(lanes_.size());
  for (const auto& [id, lane] : lanes_) {
    out.push_back(lane.get());
  }
  std::sort(out.begin(), out.end(), [](const Lane* a, const Lane* b) {
    return std::pair(a->run.body.priority, a->sequence.id()) <
           std::pair(b->run.body.priority, b->sequence.id());
  });
  return out;
}

Lane& DecodeRole::add_lane(worker::Sequence sequence, DecodeRun& run, int choice) {
  const SequenceId id = sequence.id();
  ++run.lanes;
  return *lanes_.emplace(id, std::make_unique<Lane>(std::move(sequence), run, choice))
              .first->second;
}

// ---------------------------------------------------------------- plan

void DecodeRole::fork_ready(engine::BatchPlan& plan) {
  std::vector<DecodeRun*> ready;
  for (auto& [id, run] : runs_) {
    if (run->state == RunState::kForking) {
      ready.push_back(run.get());
    }
  }
  std::sort(ready.begin(), ready.end(), [](const DecodeRun* a, const DecodeRun* b) {
    return std::pair(a->body.priority, a->id) < std::pair(b->body.priority, b->id);
  });
  for (DecodeRun* run : ready) {
    run->beams != nullptr ? fork_beams(*run, plan) : fork(*run, plan);
  }
}

// A lane for every choice that goes on: copies of the base, and the base itself for the last. A
// sibling for whose copy there is no block starts as if it had been preempted: were it waited for,
// several forks could wait for each other's blocks for ever.
void DecodeRole::fork(DecodeRun& run, engine::BatchPlan& plan) {
  std::vector<int> open;
  for (size_t i = 0; i < run.choices.size(); ++i) {
    if (run.choices[i].finished == wire::FinishReason::kNone) {
      open.push_back(static_cast<int>(i));
    }
  }
  std::vector<worker::Sequence> sequences;
  for (size_t i = 0; i + 1 < open.size(); ++i) {
    const SequenceId id = new_sequence();
    Result<worker::Sequence> sibling = run.base->fork(id, env_.blocks, plan);
    sequences.push_back(sibling.ok() ? std::move(sibling).value()
                                     : worker::Sequence(id, run.base->tokens()));
  }
  sequences.push_back(std::move(*run.base));
  run.base.reset();
  run.state = RunState::kDecoding;
  for (size_t i = 0; i < open.size(); ++i) {
    const std::vector<TokenId>& output = run.choices[static_cast<size_t>(open[i])].output;
    const auto known = static_cast<size_t>(sequences[i].size() - run.prompt_tokens());
    for (size_t k = known; k < output.size(); ++k) {
      sequences[i].append(output[k]);
    }
    Lane& lane = add_lane(std::move(sequences[i]), run, open[i]);
    if (lane.sequence.blocks().empty()) {
      preempt(lane);
    }
  }
}

void DecodeRole::preempt(Lane& lane) {
  lane.sequence.drop_kv();
  lane.preempted = true;
  ++preempted_;
  preemptions_.add();
}

bool DecodeRole::can_resume(const worker::Sequence& sequence,
                            const kv_cache::BlockPools::Hit& hit) const {
  // Alone it may take the last block; beside others they keep one each, or it would only push them
  // out in turn.
  const int others = static_cast<int>(lanes_.size()) - preempted_;
  for (int g = 0; g < env_.blocks.groups(); ++g) {
    const kv_cache::BlockPool& pool = env_.blocks.pool(g);
    const kv_cache::BlockLease& held = hit.blocks[static_cast<size_t>(g)];
    const int size = sequence.size() + 1;
    const int grown = env_.blocks.blocks_for(size) - static_cast<int>(held.size());
    const int missing = std::min({grown, env_.blocks.most_blocks(g, size, max_step()),
                                  pool.total() - static_cast<int>(held.held())});
    if (pool.available() < missing + others) {
      return false;
    }
  }
  return true;
}

void DecodeRole::resume_preempted() {
  if (preempted_ == 0) {
    return;
  }
  for (Lane* lane : by_urgency()) {
    if (!lane->preempted || lane->waits()) {
      continue;
    }
    worker::Sequence& sequence = lane->sequence;
    const bool scores = lane->choice == Lane::kBase && worker::wants_prompt_scores(lane->run.body);
    const int usable =
        scores ? std::min(lane->run.scored, sequence.size() - 1) : sequence.size() - 1;
    kv_cache::BlockPools::Hit hit =
        env_.blocks.match(sequence.tokens(), usable, lane->run.body.cache_salt);
    if (!can_resume(sequence, hit)) {
      return;  // in this order: one that needs less does not overtake it
    }
    sequence.adopt(std::move(hit.blocks), hit.tokens);
    BATON_CHECK(sequence.reserve(sequence.size(), env_.blocks).ok(), "blocks counted wrongly");
    lane->preempted = false;
    --preempted_;
  }
}

// Preempts the youngest of the least urgent lanes that no plan uses, so that `lane` gets a block.
// False when that is `lane` itself, or when nothing can be given.
bool DecodeRole::make_room(const Lane& lane) {
  const std::vector<Lane*> lanes = by_urgency();
  for (auto it = lanes.rbegin(); it != lanes.rend(); ++it) {
    Lane& victim = **it;
    if (victim.preempted || victim.fed_in_step > 0 || victim.closed) {
      continue;
    }
    preempt(victim);
    return &victim != &lane;
  }
  return false;
}

bool DecodeRole::feed(Lane& lane, int count, engine::BatchPlan& plan) {
  while (true) {
    const bool last = count == lane.sequence.pending();
    Result<engine::SequencePlan*> entry = lane.sequence.feed(count, env_.blocks, plan);
    if (entry.ok()) {
      lane.fed_in_step = count;
      if (lane.choice == Lane::kBase) {
        worker::ask_for_scores(lane.run.body, lane.sequence, **entry);
      }
      if (last) {
        ask_for_samples(lane, **entry);
      }
      return true;
    }
    if (!make_room(lane)) {
      return false;
    }
  }
}

void DecodeRole::feed_decoding(engine::BatchPlan& plan) {
  for (Lane* lane : by_urgency()) {
    if (!lane->preempted && !lane->closed && lane->sequence.pending() == 1) {
      feed(*lane, 1, plan);
    }
  }
}

// Of a window group a chunk takes what is there, rather than to push another lane out.
int DecodeRole::chunk_for(const Lane& lane, int budget) const {
  const worker::Sequence& sequence = lane.sequence;
  int count = std::min(budget, sequence.pending());
  for (int g = 0; g < env_.blocks.groups(); ++g) {
    if (env_.blocks.group(g).kind == kv_cache::CacheKind::kWindow) {
      const int blocks =
          static_cast<int>(sequence.lease(g).held()) + env_.blocks.pool(g).available();
      count = std::max(1, sequence.at_most(count, blocks, env_.blocks));
    }
  }
  return count;
}

void DecodeRole::feed_prompts(engine::BatchPlan& plan) {
  int budget = sizer_.budget();
  for (Lane* lane : by_urgency()) {
    if (budget <= 0) {
      return;
    }
    if (lane->preempted || lane->closed || lane->fed_in_step > 0 || lane->waits()) {
      continue;
    }
    const int count = chunk_for(*lane, budget);
    if (feed(*lane, count, plan)) {
      budget -= count;
    }
  }
}

std::unique_ptr<engine::BatchPlan> DecodeRole::plan_step() {
  auto plan = std::make_unique<engine::BatchPlan>();
  fork_ready(*plan);
  resume_preempted();
  admit();
  feed_decoding(*plan);
  feed_prompts(*plan);
  if (plan->sequences.empty() && preempt_waiting_beams()) {
    resume_preempted();
    feed_prompts(*plan);
  }
  if (plan->sequences.empty() && preempted_ > 0 && preempted_ == static_cast<int>(lanes_.size())) {
    // Alone in the pool and still too large: it can never go on.
    const std::vector<Lane*> lanes = by_urgency();
    const Lane& oldest =
        **std::find_if(lanes.begin(), lanes.end(), [](const Lane* lane) { return !lane->waits(); });
    // Of windows it never needs more than it did at its start.
    const kv_cache::BlockPool& pool = env_.blocks.pool(0);
    if (env_.blocks.group(0).kind == kv_cache::CacheKind::kFull &&
        pool.blocks_for(oldest.sequence.size()) > pool.total()) {
      fail(oldest.run,
           resource_exhausted("the sequence has outgrown the KV pool of decode worker " +
                              env_.entry.name + " (" + std::to_string(pool.total()) + " blocks)"));
    }
  }
  // When nothing could be fed all lanes are preempted, and nobody needs the copies.
  return plan->sequences.empty() ? nullptr : std::move(plan);
}

// ---------------------------------------------------------------- results of a step

void DecodeRole::on_step_done(engine::StepOutput output) {
  int prompt_tokens = 0;
  for (const engine::SequencePlan& sequence : output.plan->sequences) {
    const Lane& lane = *lanes_.at(sequence.id);
    prompt_tokens += std::clamp(lane.run.prompt_tokens() - sequence.first_position, 0,
                                static_cast<int>(sequence.tokens.size()));
  }
  computed_tokens_.add(prompt_tokens);
  if (prompt_tokens > 0) {
    sizer_.observe(prompt_tokens, output.seconds);
  } else {
    decode_step_ms_.add(output.seconds * 1e3);
  }
  for (engine::SequenceOutput& sequence : output.sequences) {
    lane_done(*lanes_.at(sequence.id), sequence);
  }
}

void DecodeRole::lane_done(Lane& lane, engine::SequenceOutput& output) {
  DecodeRun& run = lane.run;
  const int count = std::exchange(lane.fed_in_step, 0);
  if (lane.closed) {
    close_lane(lane);
    erase_if_quiet(run);
    return;
  }
  if (!output.error.ok()) {
    fail(run, output.error);
    return;
  }
  if (!output.scores.empty()) {
    const int first = lane.sequence.computed();
    run.scored = std::max(run.scored, first + static_cast<int>(output.scores.size()));
    (void)env_.links
        .send(run.router, worker::prompt_logprobs(run.body, env_.incarnation, first, output.scores))
        .ok();
  }
  lane.sequence.fed(count, env_.blocks, run.body.cache_salt);
  if (lane.choice == Lane::kBase) {
    ++run.timings.prefill_chunks;
  }
  if (lane.sequence.pending() > 0) {
    return;
  }
  if (lane.choice == Lane::kBase) {
    base_done(lane, output);
    return;
  }
  if (run.beams != nullptr) {
    beam_done(lane, output);
    return;
  }
  const sampling::Sampled& sampled = output.samples[0];
  lane.sequence.append(sampled.id);
  const bool finished = sampled.finish != sampling::FinishReason::kNone;
  if (finished) {
    const int choice = lane.choice;
    close_lane(lane);
    take_sample(run, choice, sampled);
    finish_if_done(run);
    return;
  }
  take_sample(run, lane.choice, sampled);
}

// The prompt of a local run has its KV: the choices take over.
void DecodeRole::base_done(Lane& lane, const engine::SequenceOutput& output) {
  DecodeRun& run = lane.run;
  run.timings.prefill_ms = to_ms(env_.clock.now() - run.started);
  run.base = std::make_unique<worker::Sequence>(std::move(lane.sequence));
  run.state = RunState::kForking;
  --run.lanes;
  lanes_.erase(run.base->id());
  if (run.beams != nullptr) {
    send_tokens(run, 0, 0, {}, {});  // the prompt's times
    advance_beams(run, {worker::wire_logprob(*output.samples[0].logprobs)});
    return;
  }
  size_t next = 0;
  for (size_t i = 0; i < run.choices.size(); ++i) {
    if (run.sampled_with_prompt(i)) {
      take_sample(run, static_cast<int>(i), output.samples[next++]);
    }
  }
  finish_if_done(run);
}

void DecodeRole::take_sample(DecodeRun& run, int choice, const sampling::Sampled& sampled) {
  wire::ChoiceState& state = run.choices[static_cast<size_t>(choice)];
  const auto index = static_cast<uint32_t>(state.output.size());
  state.output.push_back(sampled.id);
  state.finished = worker::wire_finish(sampled.finish);
  if (state.finished != wire::FinishReason::kNone) {
    release_slots(run, 1);
  }
  std::vector<wire::TokenLogprob> logprobs;
  if (sampled.logprobs) {
    logprobs.push_back(worker::wire_logprob(*sampled.logprobs));
  }
  send_tokens(run, choice, index, {sampled.id}, std::move(logprobs));
}

}  // namespace baton::decode_worker
