#pragma once

// The receiver's table: every reservation and ticket of a decode worker, from RESERVE to the last
// event about its blocks. Validates each DATA before a byte of it is placed. Driven by the core on
// the agent's thread; nothing blocks.

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv_transfer/core_context.h"
#include "kv_transfer/data_header.h"
#include "kv_transfer/digest.h"
#include "kv_transfer/quarantine.h"
#include "kv_transfer/receiver_states.h"
#include "kv_transfer/session.h"

namespace baton::kv_transfer {

class ReceiverTable {
 public:
  // `first_generation` is random, so that tickets of an earlier life do not pass.
  ReceiverTable(const CoreContext& context, SessionTable& sessions, uint32_t first_generation);
  ~ReceiverTable();

  // The calls of transfer.h.
  void grant(uint64_t reservation, std::vector<BlockId> blocks, int have_tokens, WindowGrant window,
             TimePoint now);
  void deny(uint64_t reservation, const Status& why, uint32_t retry_after_ms);
  void abort_reservation(uint64_t reservation, const std::string& reason, TimePoint now);

  void on_message(Session& session, wire::Reserve reserve, TimePoint now);
  void on_message(Session& session, wire::Commit commit, TimePoint now);
  void on_message(Session& session, const wire::Written& written, TimePoint now);
  void on_message(Session& session, const wire::Abort& abort, TimePoint now);
  void on_message(Session& session, const wire::AbortAck& ack, TimePoint now);
  void on_message(Session& session, const wire::StatusQuery& query, TimePoint now);
  void on_heartbeat(const Session& session, TimePoint now);
  void session_lost(Session& session, const Status& why, TimePoint now);
  // Its peer can write no more.
  void session_closed(const Session& session);

  // Of DataPathEvents.
  Result<DataPathEvents::Placement> announced(std::span<const std::byte> header, size_t bytes,
                                              TimePoint now);
  void placed(uint64_t id, const Status& status, TimePoint now);

  // Leases and the quarantine's alarm.
  void sweep(TimePoint now, bool late);

  Duration oldest(TimePoint now) const;
  size_t size() const { return tickets_.size(); }
  size_t quarantined() const { return quarantine_.size(); }

  static constexpr size_t kMaxReservations = 4'096;

 private:
  enum class PieceState : uint8_t { kMissing, kPending, kDone };
  struct Ticket;
  struct Arrival {  // one DATA being placed
    uint64_t reservation = 0;
    PieceRun run;
    size_t bytes = 0;
    uint64_t digest = 0;
    std::vector<IoSlice> slices;  // to check the digest
  };
  using State = wire::StatusReply::State;

  Ticket* find(uint64_t reservation);
  Ticket* by_slot(uint32_t slot, uint32_t generation);
  bool step(Ticket& ticket, ReceiverEvent event);
  uint32_t take_slot(uint64_t reservation);
  uint32_t take_generation();

  struct Admitted {  // a DATA that a ticket waits for
    Ticket& ticket;
    const PiecePlan& plan;
    PieceRun run;
    size_t bytes = 0;
    uint64_t digest = 0;
  };
  Result<Admitted> admit(std::span<const std::byte> header);
  static Result<PieceRun> validate(const Ticket& ticket, const PiecePlan& plan,
                                   const DataHeader& header);
  std::vector<IoSlice> place_of(const Admitted& data, std::span<std::byte> spill) const;
  static void mark(const Admitted& data, PieceState state);
  void note_data(Ticket& ticket, TimePoint now);
  void take(const Admitted& data, std::span<const IoSlice> slices, bool good);
  Status refuse(DropReason reason);
  void check_grant(const Ticket& ticket, const PiecePlan& plan, int group, int have_tokens) const;
  void send_grant(const Ticket& ticket, Session& session);
  void remind(Ticket& ticket, TimePoint now);
  void extend_lease(Ticket& ticket, TimePoint now);
  Status check_commit(Ticket& ticket, const wire::Commit& commit) const;
  void decide_commit(Ticket& ticket, TimePoint now);
  void cancel(Ticket& ticket, Status why, TimePoint now);
  void tell_abort(const Ticket& ticket, const std::string& reason);
  void withdraw(Ticket& ticket);
  void release_if_quiet(Ticket& ticket);
  void remove(Ticket& ticket, State last);
  void drop(DropReason reason) { context_.metrics.dropped(reason); }

  const CoreContext& context_;
  SessionTable& sessions_;
  uint64_t next_reservation_ = 1;
  uint32_t next_generation_;
  std::unordered_map<uint64_t, std::unique_ptr<Ticket>> tickets_;  // by reservation
  std::vector<uint64_t> slots_;                                    // reservation; 0 = free
  std::vector<uint32_t> free_slots_;
  // What became of tickets that are gone, for STATUS and a COMMIT sent again.
  std::unordered_map<TicketId, State> ended_;
  std::deque<TicketId> ended_order_;
  Quarantine quarantine_;
  uint64_t next_arrival_ = 1;
  std::unordered_map<uint64_t, Arrival> arrivals_;
  std::vector<std::byte> spill_;  // where padding without a block goes
  std::vector<std::byte> zeros_;  // and what it is, where the sender writes
};

}  // namespace baton::kv_transfer
