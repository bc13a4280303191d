#pragma once

// The workers that this router knows: who registered, what they last said of themselves, who is
// gone. Lives on the router loop's thread.

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/host_identity.h"
#include "common/wire/messages.h"

namespace baton::router {

// Block hashes that a worker said it holds, and those that it has just computed for this router and
// will tell of: hints, bounded in number.
class PrefixView {
 public:
  void apply(const wire::Heartbeat& heartbeat);
  // Counts as held until the second heartbeat from now, which tells the truth.
  void expect(const std::vector<U128>& chain);
  // How many leading blocks of the chain are held.
  int leading(const std::vector<U128>& chain) const;
  bool empty() const { return blocks_.empty() && expected_.empty() && expected_before_.empty(); }

 private:
  static constexpr size_t kLimit = 1 << 20;
  std::unordered_set<U128> blocks_;
  std::unordered_set<U128> expected_;         // since the last heartbeat
  std::unordered_set<U128> expected_before_;  // since the one before
};

enum class WorkerHealth : uint8_t { kReady, kDraining };

struct WorkerState {
  wire::WorkerInfo info;
  std::string peer;  // routing id of its connection
  TimePoint last_heard{};
  wire::Heartbeat load;
  WorkerHealth health = WorkerHealth::kReady;
  PrefixView prefixes;
  ProcessWatch process;  // watches nothing where its pid is not one of ours
  // What this router has given it and has not heard of yet.
  int64_t assigned_prompt_tokens = 0;
  int64_t assigned_choices = 0;
  // Of this router's prompts, prefilled since the last heartbeat, whose load may still count them.
  int64_t prefilled_since_heard = 0;
  double late_ms = 0;  // the run there whose first token is most overdue, as of the last tick

  Incarnation id() const { return info.incarnation; }
};

class Membership {
 public:
  // `on_lost` is called with a worker that is gone, before it is forgotten.
  Membership(Duration timeout, std::function<void(WorkerState&, std::string_view reason)> on_lost)
      : timeout_(timeout), on_lost_(std::move(on_lost)), host_(this_process()) {}

  // Empty when the worker is accepted, else why not (another protocol, model or numerics than those
  // that are here).
  std::string add(const std::string& peer, const wire::WorkerInfo& info, TimePoint now);
  // False for a worker that is not known: it should register again.
  bool heard(const std::string& peer, wire::Heartbeat heartbeat, TimePoint now);
  void leave(Incarnation worker, std::string_view reason);
  // Loses workers that were silent too long or whose process ended. A caller that was itself late
  // passes that as `late_by`: silence is then counted anew.
  void sweep(TimePoint now, Duration late_by);
  // Loses those whose process ended: when one of process_fds() is readable.
  void sweep_ended();

  WorkerState* find(Incarnation worker);
  // Workers that take requests, by name.
  std::vector<WorkerState*> ready(wire::Role role);
  const std::unordered_map<Incarnation, WorkerState>& all() const { return workers_; }
  std::vector<int> process_fds() const;
  // The smallest context of all workers; 0 without workers.
  int max_context() const;

 private:
  void lose(Incarnation worker, std::string_view reason);

  Duration timeout_;
  std::function<void(WorkerState&, std::string_view)> on_lost_;
  const HostIdentity host_;
  std::unordered_map<Incarnation, WorkerState> workers_;
};

}  // namespace baton::router
