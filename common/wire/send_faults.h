#pragma once

// What happens to the messages that a socket sends while a fault plan is at work (builds with
// BATON_FAULTS only).

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fault_point.h"

namespace baton::wire {

struct HeldMessage {
  std::string peer;  // of a listener
  std::string body;
  TimePoint due;
};

struct SendFaults {
  FaultPlan* plan = nullptr;  // null: nothing happens
  FaultPoint point = FaultPoint::kRouterLink;
  std::vector<HeldMessage> held;       // in the order in which they go out
  std::vector<HeldMessage> overtaken;  // nobody waits for these
};

// Puts a message among the held ones, as the plan wants it; take_due() gives it back at once when
// nothing is wrong with it. Order is kept to each peer, but for messages that are reordered.
void hold(SendFaults& faults, std::string peer, std::string body, TimePoint now);
std::vector<HeldMessage> take_due(SendFaults& faults, TimePoint now);

}  // namespace baton::wire
