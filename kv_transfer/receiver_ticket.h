#pragma once

// One reservation, and its ticket once granted; of receiver.cc and receiver_data.cc only.

#include <algorithm>
#include <optional>
#include <vector>

#include "kv_transfer/receiver.h"

namespace baton::kv_transfer {

struct ReceiverTable::Ticket {
  uint64_t reservation = 0;
  SessionId session = 0;
  uint64_t reserve_id = 0;  // the sender's
  RunKey key;
  int kv_tokens = 0;
  TimePoint deadline = TimePoint::max();  // of the request
  TimePoint arrived;
  ReceiverState state = ReceiverState::kAsked;

  // Once granted.
  uint32_t slot = 0;
  uint32_t generation = 0;
  std::vector<BlockId> blocks;
  std::vector<BlockId> window_blocks;     // of the second cache group
  kv_cache::PerGroup<int> first_piece{};  // of each group: those before it do not travel
  int pieces = 0;                         // of the whole sequence
  TimePoint last_data;
  TimePoint lease_until = TimePoint::max();
  TimePoint next_reminder = TimePoint::max();  // GRANT again when no DATA comes

  // One entry per (layer, piece, rank), from the lowest first_piece on. What lies before that of
  // its group is never looked at.
  std::vector<PieceState> bits;
  size_t expected = 0;  // how many shall be done
  size_t done = 0;
  int pending = 0;  // DATA being placed
  // Of a sender that writes by itself: it has said, or it is proven, that it writes no more.
  bool writer_gone = false;
  TimePoint next_ask = TimePoint::max();  // whether it does, while in quarantine
  CommitDigest digest;
  uint64_t bytes = 0;
  std::optional<wire::Commit> held_commit;  // until nothing is pending

  TicketId id() const { return TicketId{slot} << 32 | generation; }
  bool open() const {
    return state == ReceiverState::kReserved || state == ReceiverState::kReceiving;
  }
  int lowest_piece(const PiecePlan& plan) const {
    return *std::min_element(first_piece.begin(), first_piece.begin() + plan.cache_groups());
  }
  size_t bit_index(const PiecePlan& plan, int layer, int piece, int rank) const {
    const int lowest = lowest_piece(plan);
    const auto row = static_cast<size_t>(layer) * static_cast<size_t>(pieces - lowest) +
                     static_cast<size_t>(piece - lowest);
    return row * static_cast<size_t>(plan.target_ranks()) + static_cast<size_t>(rank);
  }
};

}  // namespace baton::kv_transfer
