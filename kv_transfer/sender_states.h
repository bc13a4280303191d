#pragma once

// States of a transfer on the prefill worker. docs/protocol.md shows the same table.
//
//   Idle -> Reserving -> Granted -> Pushing -> Flushing -> Committing -> Done
//     any of them: -> Aborting -> Aborted      (our wish, a deadline, the receiver's ABORT, a
//     fault)
//                  -> Losing -> Failed         (the peer is gone)

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace baton::kv_transfer {

enum class SenderState : uint8_t {
  kIdle,        // the session is being made
  kReserving,   // RESERVE sent
  kGranted,     // ticket there, nothing pushed yet
  kPushing,     // DATA under way, more to come
  kFlushing,    // everything posted, requests under way
  kCommitting,  // all requests ended well, COMMIT sent
  kAborting,    // nothing more is posted; until requests have ended and the receiver has answered
  kLosing,      // the peer is gone; until requests have ended
  kDone,
  kAborted,
  kFailed,
};

enum class SenderEvent : uint8_t {
  kSessionReady,
  kGrant,
  kDeny,
  kPost,        // the first DATA goes out
  kAllPosted,   // commit() was called and nothing is left to post
  kDrained,     // the last request ended
  kAckOk,       // COMMIT_ACK, or STATUS "committed"
  kAckRefused,  // COMMIT_ACK with a reason, or STATUS without the ticket
  kCancel,      // abort(), a deadline, a failed request, ABORT from the receiver
  kQuiet,       // aborting: no request under way and the receiver answered
  kPeerLost,
};

struct SenderTransition {
  SenderState from;
  SenderEvent event;
  SenderState to;
};

inline constexpr std::array kSenderTransitions = {
    SenderTransition{SenderState::kIdle, SenderEvent::kSessionReady, SenderState::kReserving},
    SenderTransition{SenderState::kIdle, SenderEvent::kCancel, SenderState::kAborted},
    SenderTransition{SenderState::kIdle, SenderEvent::kPeerLost, SenderState::kLosing},

    SenderTransition{SenderState::kReserving, SenderEvent::kGrant, SenderState::kGranted},
    SenderTransition{SenderState::kReserving, SenderEvent::kDeny, SenderState::kFailed},
    SenderTransition{SenderState::kReserving, SenderEvent::kCancel, SenderState::kAborting},
    SenderTransition{SenderState::kReserving, SenderEvent::kPeerLost, SenderState::kLosing},

    SenderTransition{SenderState::kGranted, SenderEvent::kPost, SenderState::kPushing},
    SenderTransition{SenderState::kGranted, SenderEvent::kAllPosted, SenderState::kFlushing},
    SenderTransition{SenderState::kGranted, SenderEvent::kCancel, SenderState::kAborting},
    SenderTransition{SenderState::kGranted, SenderEvent::kPeerLost, SenderState::kLosing},

    SenderTransition{SenderState::kPushing, SenderEvent::kAllPosted, SenderState::kFlushing},
    SenderTransition{SenderState::kPushing, SenderEvent::kCancel, SenderState::kAborting},
    SenderTransition{SenderState::kPushing, SenderEvent::kPeerLost, SenderState::kLosing},

    SenderTransition{SenderState::kFlushing, SenderEvent::kDrained, SenderState::kCommitting},
    SenderTransition{SenderState::kFlushing, SenderEvent::kCancel, SenderState::kAborting},
    SenderTransition{SenderState::kFlushing, SenderEvent::kPeerLost, SenderState::kLosing},

    SenderTransition{SenderState::kCommitting, SenderEvent::kAckOk, SenderState::kDone},
    SenderTransition{SenderState::kCommitting, SenderEvent::kAckRefused, SenderState::kFailed},
    SenderTransition{SenderState::kCommitting, SenderEvent::kCancel, SenderState::kAborting},
    SenderTransition{SenderState::kCommitting, SenderEvent::kPeerLost, SenderState::kLosing},

    // The receiver committed before our ABORT reached it: what it has is good.
    SenderTransition{SenderState::kAborting, SenderEvent::kAckOk, SenderState::kDone},
    SenderTransition{SenderState::kAborting, SenderEvent::kQuiet, SenderState::kAborted},
    SenderTransition{SenderState::kAborting, SenderEvent::kPeerLost, SenderState::kLosing},

    SenderTransition{SenderState::kLosing, SenderEvent::kDrained, SenderState::kFailed},
};

// Nothing when the event means nothing in that state: it is counted and dropped.
constexpr std::optional<SenderState> next_state(SenderState from, SenderEvent event) {
  for (const SenderTransition& t : kSenderTransitions) {
    if (t.from == from && t.event == event) {
      return t.to;
    }
  }
  return std::nullopt;
}

constexpr bool is_final(SenderState state) {
  return state == SenderState::kDone || state == SenderState::kAborted ||
         state == SenderState::kFailed;
}

constexpr std::string_view to_string(SenderState state) {
  constexpr std::array<std::string_view, 11> kNames = {
      "Idle",     "Reserving", "Granted", "Pushing", "Flushing", "Committing",
      "Aborting", "Losing",    "Done",    "Aborted", "Failed"};
  return kNames[static_cast<size_t>(state)];
}

constexpr std::string_view to_string(SenderEvent event) {
  constexpr std::array<std::string_view, 11> kNames = {
      "SessionReady", "Grant",      "Deny",   "Post",  "AllPosted", "Drained",
      "AckOk",        "AckRefused", "Cancel", "Quiet", "PeerLost"};
  return kNames[static_cast<size_t>(event)];
}

}  // namespace baton::kv_transfer
