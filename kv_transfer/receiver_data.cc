// The part of the receiver's table that places DATA: validation, the bitmap, digests.

#include "kv_transfer/receiver.h"
#include "kv_transfer/receiver_ticket.h"

namespace baton::kv_transfer {

Status ReceiverTable::refuse(DropReason reason) {
  drop(reason);
  return invalid_argument(std::string(to_string(reason)));
}

// Everything that a header claims is compared with what the ticket has; nothing is computed from it
// before.
Result<PieceRun> ReceiverTable::validate(const Ticket& ticket, const PiecePlan& plan,
                                         const DataHeader& header) {
  const Status bad_range = invalid_argument(std::string(to_string(DropReason::kBadRange)));
  const auto unit = static_cast<uint32_t>(plan.unit_tokens());
  if (header.layer >= plan.layers() || header.group != plan.group_of(header.layer) ||
      header.dst_rank >= plan.target_ranks()) {
    return bad_range;
  }
  const kv_cache::HeadRange heads = plan.target_heads(header.dst_rank);
  if (header.head_lo != heads.begin || header.head_hi != heads.end) {
    return bad_range;
  }
  const uint64_t lowest = uint64_t{unit} * static_cast<uint32_t>(ticket.first_piece[header.group]);
  const uint64_t highest = uint64_t{unit} * static_cast<uint32_t>(ticket.pieces);
  if (header.token_lo % unit != 0 || header.token_hi % unit != 0 ||
      header.token_lo >= header.token_hi || header.token_lo < lowest || header.token_hi > highest) {
    return bad_range;
  }
  PieceRun run;
  run.layer = header.layer;
  run.dst_rank = header.dst_rank;
  run.first = static_cast<int>(header.token_lo / unit);
  run.count = static_cast<int>((header.token_hi - header.token_lo) / unit);
  if (run.count > plan.max_run(run.dst_rank)) {
    return bad_range;
  }
  return run;
}

// The ticket and the pieces of a header, if the ticket is open and waits for all of them.
Result<ReceiverTable::Admitted> ReceiverTable::admit(std::span<const std::byte> bytes_of_header) {
  const Result<DataHeader> header = decode_header(bytes_of_header);
  if (!header.ok()) {
    return refuse(DropReason::kBadHeader);
  }
  Ticket* ticket = by_slot(header->slot, header->generation);
  if (ticket == nullptr || !ticket->open()) {
    return refuse(DropReason::kUnknownTicket);
  }
  const PiecePlan& plan = sessions_.find(ticket->session)->link->plan;
  const Result<PieceRun> run = validate(*ticket, plan, *header);
  if (!run.ok()) {
    return refuse(DropReason::kBadRange);
  }
  for (int piece = run->first; piece < run->first + run->count; ++piece) {
    if (ticket->bits[ticket->bit_index(plan, run->layer, piece, run->dst_rank)] !=
        PieceState::kMissing) {
      return refuse(DropReason::kDuplicate);
    }
  }
  return Admitted{*ticket, plan, *run,
                  plan.piece_bytes(run->dst_rank) * static_cast<size_t>(run->count),
                  header->digest};
}

std::vector<IoSlice> ReceiverTable::place_of(const Admitted& data,
                                             std::span<std::byte> spill) const {
  const SequenceBlocks to{context_.options.pools, data.ticket.blocks, data.ticket.kv_tokens,
                          data.ticket.window_blocks};
  return data.plan.scatter(data.run, to, spill);
}

void ReceiverTable::mark(const Admitted& data, PieceState state) {
  const PieceRun& run = data.run;
  for (int piece = run.first; piece < run.first + run.count; ++piece) {
    data.ticket.bits[data.ticket.bit_index(data.plan, run.layer, piece, run.dst_rank)] = state;
  }
}

void ReceiverTable::note_data(Ticket& ticket, TimePoint now) {
  step(ticket, ReceiverEvent::kData);
  ticket.last_data = now;
  extend_lease(ticket, now);
}

// The bytes lie in the blocks, if `good`: done, or missing again.
void ReceiverTable::take(const Admitted& data, std::span<const IoSlice> slices, bool good) {
  Ticket& ticket = data.ticket;
  const Session& session = *sessions_.find(ticket.session);
  if (good && session.link->digest && payload_digest(slices) != data.digest) {
    drop(DropReason::kDigest);
    good = false;
  }
  mark(data, good ? PieceState::kDone : PieceState::kMissing);
  if (!good) {
    return;
  }
  const PieceRun& run = data.run;
  ticket.done += static_cast<size_t>(run.count);
  ticket.bytes += data.bytes;
  ticket.digest.add({static_cast<uint32_t>(run.layer), static_cast<uint32_t>(run.first),
                     static_cast<uint32_t>(run.dst_rank), static_cast<uint32_t>(run.count),
                     data.digest});
  context_.metrics.received_bytes(session.link->transport, data.bytes);
}

Result<DataPathEvents::Placement> ReceiverTable::announced(std::span<const std::byte> header,
                                                           size_t bytes, TimePoint now) {
  BATON_ASSIGN_OR_RETURN(const Admitted data, admit(header));
  if (bytes != data.bytes) {
    return refuse(DropReason::kBadLength);
  }
  note_data(data.ticket, now);
  mark(data, PieceState::kPending);
  ++data.ticket.pending;

  DataPathEvents::Placement placement;
  placement.id = next_arrival_++;
  placement.slices = place_of(data, spill_);
  arrivals_[placement.id] = {data.ticket.reservation, data.run, bytes, data.digest,
                             placement.slices};
  return placement;
}

void ReceiverTable::placed(uint64_t id, const Status& status, TimePoint now) {
  const auto it = arrivals_.find(id);
  if (it == arrivals_.end()) {
    return;
  }
  const Arrival arrival = std::move(it->second);
  arrivals_.erase(it);
  Ticket* ticket = find(arrival.reservation);
  BATON_CHECK(ticket != nullptr, "a ticket outlives its posted receives");
  --ticket->pending;
  if (!ticket->open()) {
    release_if_quiet(*ticket);
    return;
  }
  const PiecePlan& plan = sessions_.find(ticket->session)->link->plan;
  take({*ticket, plan, arrival.run, arrival.bytes, arrival.digest}, arrival.slices, status.ok());
  if (ticket->held_commit && ticket->pending == 0) {
    decide_commit(*ticket, now);
  }
}

// The same of a sender that writes by itself: the bytes are there already. Whether they are right,
// their digest says; that they lie where they should is the sender's word.
void ReceiverTable::on_message(Session& session, const wire::Written& written, TimePoint now) {
  const Result<Admitted> data = admit(std::as_bytes(std::span(written.header)));
  if (!data.ok()) {
    return;  // counted
  }
  if (data->ticket.session != session.id || !session.puts()) {
    drop(DropReason::kForeignSession);
    return;
  }
  note_data(data->ticket, now);
  take(*data, place_of(*data, zeros_), true);
}

}  // namespace baton::kv_transfer
