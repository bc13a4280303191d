#pragma once

// One transfer in the sender's table; of sender.cc and sender_push.cc only.

#include <vector>

#include "kv_transfer/sender.h"

namespace baton::kv_transfer {

struct SenderTable::Transfer {
  TransferId id = 0;
  OpenTransfer request;
  SenderState state = SenderState::kIdle;
  SessionId session = 0;
  uint32_t slot = 0;
  uint32_t generation = 0;
  kv_cache::PerGroup<int> first_piece{};  // pieces before it are with the receiver, or not needed
  int pieces = 0;                         // the end of all, of every group
  // Where we write into the receiver's pools: its block tables.
  std::vector<BlockId> target_blocks, target_window_blocks;

  std::vector<std::vector<int>> written;  // [rank][layer]: tokens
  std::vector<int> posted;                // [layer * target ranks + rank]: next piece
  bool in_ready = false;
  int outstanding = 0;  // DATA under way
  uint64_t bytes = 0;
  uint32_t seq = 0;
  CommitDigest digest;

  bool commit_called = false;
  std::vector<wire::CommittedChoice> choices;
  wire::RunTimings timings;

  TimePoint opened, granted, first_posted, committed, last_progress;
  TimePoint deadline = TimePoint::max();  // of the transfer, from commit() on
  TimePoint next_resend = TimePoint::max();
  Duration resend_delay{};
  int resends = 0;
  TimePoint abort_deadline = TimePoint::max();
  bool peer_answered = false;  // while aborting
  bool peer_asked = false;     // the ABORT was the receiver's: it waits for ABORT_ACK
  bool told_quiet = false;     // the receiver knows that we write no more
  bool push_failed = false;    // a request failed; the cause may become known only afterwards
  bool data_lost = false;      // as of TransferFailed
  Status why;
  uint32_t retry_after_ms = 0;

  // From open() to the first DATA; 0 when nothing was sent.
  double first_data_seconds() const {
    return first_posted == TimePoint{} ? 0 : to_seconds(first_posted - opened);
  }
};

}  // namespace baton::kv_transfer
