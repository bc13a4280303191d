#include "common/wire/send_faults.h"

#include <algorithm>
#include <utility>

namespace baton::wire {

void hold(SendFaults& faults, std::string peer, std::string body, TimePoint now) {
  const FaultChoice choice = faults.plan->at(faults.point);
  TimePoint due = now;
  for (const HeldMessage& before : faults.held) {
    if (before.peer == peer) {
      due = std::max(due, before.due);
    }
  }
  switch (choice.kind) {
    case FaultKind::kDrop:
      return;
    case FaultKind::kTruncate:
      // Half of a message may be another one that can be read.
      body.resize(std::min<size_t>(body.size(), 1));
      break;
    case FaultKind::kDuplicate:
      faults.held.push_back({peer, body, due});
      break;
    case FaultKind::kDelay:
      due += choice.delay;
      break;
    case FaultKind::kNone:
    case FaultKind::kReorder:
    case FaultKind::kCorrupt:  // TCP and CURVE see to that
    case FaultKind::kFail:
    case FaultKind::kStop:
    case FaultKind::kKill:
      break;
  }
  if (choice.kind == FaultKind::kReorder) {
    // Those that follow do not see it.
    faults.overtaken.push_back({std::move(peer), std::move(body), now + choice.delay});
    return;
  }
  faults.held.push_back({std::move(peer), std::move(body), due});
}

std::vector<HeldMessage> take_due(SendFaults& faults, TimePoint now) {
  std::vector<HeldMessage> due;
  for (std::vector<HeldMessage>* of : {&faults.held, &faults.overtaken}) {
    std::erase_if(*of, [&](HeldMessage& message) {
      if (message.due > now) {
        return false;
      }
      due.push_back(std::move(message));
      return true;
    });
  }
  return due;
}

}  // namespace baton::wire
