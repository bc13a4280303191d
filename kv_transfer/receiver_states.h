#pragma once

// States of a reservation and its ticket on the decode worker. docs/protocol.md shows the same
// table.
//
//   Free -> Asked -> Reserved -> Receiving -> Committed -> Free
//                       any with blocks: -> Quarantined -> Free

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace baton::kv_transfer {

enum class ReceiverState : uint8_t {
  kFree,         // there is no such reservation
  kAsked,        // RESERVE is with the worker loop
  kReserved,     // granted, lease runs, nothing has arrived
  kReceiving,    // DATA arrives
  kCommitted,    // complete and checked
  kQuarantined,  // over without a commit; until no posted receive reaches the blocks
};

enum class ReceiverEvent : uint8_t {
  kReserve,
  kGrant,
  kRefuse,       // deny() by the loop, ABORT or loss of the sender before a grant
  kData,         // an accepted DATA
  kCommitValid,  // all pieces, bytes and the digest agree
  kCancel,       // ABORT of either side, lease, loss of the sender, a COMMIT that does not agree
  kQuiet,        // no receive is posted
  kHandedOver,   // the loop has been told
};

struct ReceiverTransition {
  ReceiverState from;
  ReceiverEvent event;
  ReceiverState to;
};

inline constexpr std::array kReceiverTransitions = {
    ReceiverTransition{ReceiverState::kFree, ReceiverEvent::kReserve, ReceiverState::kAsked},
    ReceiverTransition{ReceiverState::kAsked, ReceiverEvent::kGrant, ReceiverState::kReserved},
    ReceiverTransition{ReceiverState::kAsked, ReceiverEvent::kRefuse, ReceiverState::kFree},

    ReceiverTransition{ReceiverState::kReserved, ReceiverEvent::kData, ReceiverState::kReceiving},
    // Everything was a prefix hit.
    ReceiverTransition{ReceiverState::kReserved, ReceiverEvent::kCommitValid,
                       ReceiverState::kCommitted},
    ReceiverTransition{ReceiverState::kReserved, ReceiverEvent::kCancel,
                       ReceiverState::kQuarantined},

    ReceiverTransition{ReceiverState::kReceiving, ReceiverEvent::kData, ReceiverState::kReceiving},
    ReceiverTransition{ReceiverState::kReceiving, ReceiverEvent::kCommitValid,
                       ReceiverState::kCommitted},
    ReceiverTransition{ReceiverState::kReceiving, ReceiverEvent::kCancel,
                       ReceiverState::kQuarantined},

    ReceiverTransition{ReceiverState::kCommitted, ReceiverEvent::kHandedOver, ReceiverState::kFree},
    ReceiverTransition{ReceiverState::kQuarantined, ReceiverEvent::kQuiet, ReceiverState::kFree},
};

// Nothing when the event means nothing in that state: it is counted and dropped.
constexpr std::optional<ReceiverState> next_state(ReceiverState from, ReceiverEvent event) {
  for (const ReceiverTransition& t : kReceiverTransitions) {
    if (t.from == from && t.event == event) {
      return t.to;
    }
  }
  return std::nullopt;
}

constexpr std::string_view to_string(ReceiverState state) {
  constexpr std::array<std::string_view, 6> kNames = {"Free",      "Asked",     "Reserved",
                                                      "Receiving", "Committed", "Quarantined"};
  return kNames[static_cast<size_t>(state)];
}

constexpr std::string_view to_string(ReceiverEvent event) {
  constexpr std::array<std::string_view, 8> kNames = {
      "Reserve", "Grant", "Refuse", "Data", "CommitValid", "Cancel", "Quiet", "HandedOver"};
  return kNames[static_cast<size_t>(event)];
}

}  // namespace baton::kv_transfer
