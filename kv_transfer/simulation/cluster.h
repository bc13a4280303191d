#pragma once

// A simulated cluster: the state machines of the hand-over as they are, in a few prefill and decode
// workers that live, stop and die under a clock that moves when told. A seed decides everything, so
// a schedule that fails is the same again with its seed.
//
// Checked after every turn:
//   - a block has one owner; bytes are placed only in blocks of a ticket, and read only from blocks
//     of a transfer;
//   - what is committed is what was computed, and stays so for as long as it is used;
//   - a transfer, and a ticket, ends once; no ticket outlives its lease and quarantine.
// And at the end of a schedule, when everything that was stopped runs again: nothing is left.

#include <cstdint>
#include <functional>
#include <string>

namespace baton::kv_transfer::simulation {

struct ScheduleResult {
  std::string finding;  // what went wrong first; empty when nothing did
  int requests = 0;
  int completed = 0;
  int failed = 0;  // with a reason
  int deaths = 0;
  int stops = 0;
};

// `trace` gets a line for each thing that the schedule does; may be empty.
ScheduleResult run_schedule(uint64_t seed, std::function<void(const std::string&)> trace = {});

}  // namespace baton::kv_transfer::simulation
