#pragma once

// What differs between a prefill and a decode worker, as the worker loop sees it. All calls come on
// the loop's thread and never block.

#include <memory>

#include "common/base/clock.h"
#include "common/engine/engine.h"
#include "common/wire/messages.h"

namespace baton::worker {

class Role {
 public:
  virtual ~Role() = default;

  // PREFILL, RUN or CANCEL of a router; others are counted and dropped.
  virtual void on_message(wire::Message message, Incarnation router) = 0;
  // Nobody reads the results of that router's requests any more: end them.
  virtual void on_router_lost(Incarnation router) = 0;
  // Takes the events of its own queues; called after every wake-up.
  virtual void on_wake() = 0;
  // Timers: deadlines, tombstones.
  virtual void on_tick(TimePoint now) = 0;

  // The next step, or null when there is nothing to compute. No step is running.
  virtual std::unique_ptr<engine::BatchPlan> plan_step() = 0;
  virtual void on_step_done(engine::StepOutput output) = 0;

  // Takes no new request from now on; what runs goes on.
  virtual void begin_drain() = 0;
  // No request is queued, running or being handed over.
  virtual bool idle() const = 0;
  // Ends every request with this error (the drain's limit).
  virtual void fail_all(const Status& why) = 0;

  // Whether a step makes no progress; said at every tick. Peers should know.
  virtual void on_stuck(bool stuck) = 0;

  // When the thread that hands KV over last went round.
  virtual TimePoint last_transfer_turn() const = 0;

  // How long the prompts that wait behind the one in progress will take; workers that lend their
  // CPUs may give way to them.
  virtual Duration prompts_waiting() const { return Duration(0); }

  // Fills in what the role knows; the loop adds the rest.
  virtual void describe_load(wire::Heartbeat& heartbeat) = 0;
};

}  // namespace baton::worker
