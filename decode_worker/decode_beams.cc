// Beam search: the lanes of a run are its beams. A beam whose row has been computed waits for those
// of its siblings; with all rows the search says which beams go on, and the next plan forks them.

#include <algorithm>
#include <utility>

#include "common/worker/run_convert.h"
#include "decode_worker/decode_role.h"

namespace baton::decode_worker {

std::unique_ptr<Beams> DecodeRole::make_beams(const wire::RunBody& body) const {
  const wire::SamplingSpec& spec = body.sampling;
  if (spec.beam_width == 0) {
    return nullptr;
  }
  BeamSearch::Options options;
  options.width = static_cast<int>(spec.beam_width);
  options.length_penalty = spec.length_penalty;
  options.prompt_tokens = static_cast<int>(body.prompt.size());
  const int room = env_.engine.description().max_context - options.prompt_tokens;
  options.max_tokens = spec.max_tokens == 0 ? room : std::min(spec.max_tokens, room);
  options.ends = spec.stop_token_ids;
  if (!spec.ignore_eos) {
    options.ends.insert(options.ends.end(), spec.end_ids.begin(), spec.end_ids.end());
  }
  options.logprobs = spec.logprobs;
  return std::make_unique<Beams>(std::move(options));
}

void DecodeRole::beam_done(Lane& lane, const engine::SequenceOutput& output) {
  Beams& beams = *lane.run.beams;
  beams.rows[static_cast<size_t>(lane.choice)] = worker::wire_logprob(*output.samples[0].logprobs);
  std::vector<wire::TokenLogprob> rows;
  for (const std::optional<wire::TokenLogprob>& row : beams.rows) {
    if (!row) {
      return;
    }
    rows.push_back(*row);
  }
  advance_beams(lane.run, rows);
}

// The only place where the output of a beam search is told: a run that is moved before has told
// nothing, and starts again from its prompt with the same result.
void DecodeRole::advance_beams(DecodeRun& run, const std::vector<wire::TokenLogprob>& rows) {
  run.beams->next = run.beams->search.advance(rows);
  if (!run.beams->next.empty()) {
    run.state = RunState::kForking;
    return;
  }
  std::vector<BeamSearch::Hypothesis> best = run.beams->search.best();
  if (best.size() < run.choices.size()) {
    fail(run, internal_error("the beam search has found " + std::to_string(best.size()) +
                             " outputs of " + std::to_string(run.choices.size())));
    return;
  }
  for (size_t i = 0; i < run.choices.size(); ++i) {
    run.choices[i].finished = best[i].finish;
    send_tokens(run, static_cast<int>(i), 0, std::move(best[i].output),
                std::move(best[i].logprobs));
  }
  close(run, "finished");
}

// The sequences of the step before, by beam, or the prompt's; their lanes end.
std::vector<worker::Sequence> DecodeRole::take_beam_sequences(DecodeRun& run) {
  std::vector<worker::Sequence> sequences;
  if (run.base != nullptr) {
    sequences.push_back(std::move(*run.base));
    run.base.reset();
    return sequences;
  }
  std::vector<Lane*> own(run.beams->rows.size(), nullptr);
  for (auto& [id, lane] : lanes_) {
    if (&lane->run == &run) {
      own[static_cast<size_t>(lane->choice)] = lane.get();
    }
  }
  for (Lane* lane : own) {
    sequences.push_back(std::move(lane->sequence));
    close_lane(*lane);
  }
  return sequences;
}

// Each beam goes on in its own sequence or, but for the last that comes from it, in a copy. One for
// whose copy there is no block starts as if it had been preempted.
void DecodeRole::fork_beams(DecodeRun& run, engine::BatchPlan& plan) {
  std::vector<worker::Sequence> parents = take_beam_sequences(run);
  const std::vector<BeamSearch::Successor> next = std::exchange(run.beams->next, {});
  std::vector<int> children(parents.size(), 0);
  for (const BeamSearch::Successor& beam : next) {
    ++children[static_cast<size_t>(beam.parent)];
  }
  for (size_t i = 0; i < parents.size(); ++i) {
    if (children[i] == 0) {
      parents[i].drop_kv();  // before the copies, which need blocks
    }
  }
  run.beams->rows.assign(next.size(), std::nullopt);
  run.state = RunState::kDecoding;
  for (size_t i = 0; i < next.size(); ++i) {
    const auto at = static_cast<size_t>(next[i].parent);
    const bool last = --children[at] == 0;
    const SequenceId id = last ? parents[at].id() : new_sequence();
    Result<worker::Sequence> copy = last ? Result<worker::Sequence>(std::move(parents[at]))
                                         : parents[at].fork(id, env_.blocks, plan);
    worker::Sequence sequence =
        copy.ok() ? std::move(copy).value() : worker::Sequence(id, parents[at].tokens());
    sequence.append(next[i].token);
    Lane& lane = add_lane(std::move(sequence), run, static_cast<int>(i));
    if (lane.sequence.blocks().empty()) {
      preempt(lane);
    }
  }
}

// Beams that wait hold blocks that their siblings may lack: their rows are known, so they give them
// back. False when there is none.
bool DecodeRole::preempt_waiting_beams() {
  bool any = false;
  for (auto& [id, lane] : lanes_) {
    if (lane->waits() && !lane->preempted && !lane->closed) {
      preempt(*lane);
      any = true;
    }
  }
  return any;
}

}  // namespace baton::decode_worker
