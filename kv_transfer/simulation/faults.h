#pragma once

// What may go wrong in a simulated schedule, in times of a thousand.

#include "common/base/clock.h"

namespace baton::kv_transfer::simulation {

struct Faults {
  // Control messages.
  int message_lost = 0;
  int message_doubled = 0;
  int message_overtakes = 0;  // those sent before it
  int message_unreadable = 0;
  Duration message_delay{};  // at most
  int hang_up_unseen = 0;    // the end of a process is not told by its sockets
  // DATA.
  int data_flipped = 0;    // one bit, on the way
  int data_failed = 0;     // the sender is told of an error
  int data_swallowed = 0;  // the sender is told of success, nothing arrives
  int data_torn = 0;       // some bytes arrive, then an error at the receiver
  Duration data_delay{};   // at most, before it is announced and until it is placed
  // Processes, a turn of the schedule.
  int killed = 0;
  int stopped = 0;
  int cancelled = 0;  // of either side, a turn
};

}  // namespace baton::kv_transfer::simulation
