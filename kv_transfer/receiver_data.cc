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
                                         const DataHeader& header, size_t bytes) const {
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
  if (bytes != plan.piece_bytes(run.dst_rank) * static_cast<size_t>(run.count)) {
    return invalid_argument(std::string(to_string(DropReason::kBadLength)));
  }
  return run;
}

Result<DataPathEvents::Placement> ReceiverTable::announced(
    std::span<const std::byte> bytes_of_header, size_t bytes, TimePoint now) {
  const Result<DataHeader> header = decode_header(bytes_of_header);
  if (!header.ok()) {
    return refuse(DropReason::kBadHeader);
  }
  Ticket* ticket = by_slot(header->slot, header->generation);
  if (ticket == nullptr || !ticket->open()) {
    return refuse(DropReason::kUnknownTicket);
  }
  const PiecePlan& plan = sessions_.find(ticket->session)->link->plan;
  const Result<PieceRun> run = validate(*ticket, plan, *header, bytes);
  if (!run.ok()) {
    drop(run.status().message() == to_string(DropReason::kBadLength) ? DropReason::kBadLength
                                                                     : DropReason::kBadRange);
    return run.status();
  }
  for (int piece = run->first; piece < run->first + run->count; ++piece) {
    if (ticket->bits[ticket->bit_index(plan, run->layer, piece, run->dst_rank)] !=
        Ticket::Bit::kMissing) {
      return refuse(DropReason::kDuplicate);
    }
  }
  step(*ticket, ReceiverEvent::kData);
  for (int piece = run->first; piece < run->first + run->count; ++piece) {
    ticket->bits[ticket->bit_index(plan, run->layer, piece, run->dst_rank)] = Ticket::Bit::kPending;
  }
  ++ticket->pending;
  ticket->last_data = now;
  extend_lease(*ticket, now);

  DataPathEvents::Placement placement;
  placement.id = next_arrival_++;
  const SequenceBlocks to{context_.options.pools, ticket->blocks, ticket->kv_tokens,
                          ticket->window_blocks};
  placement.slices = plan.scatter(*run, to, spill_);
  Arrival& arrival = arrivals_[placement.id];
  arrival = {ticket->reservation, *run, bytes, header->digest, placement.slices};
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
  const Session& session = *sessions_.find(ticket->session);
  const PiecePlan& plan = session.link->plan;
  bool good = status.ok();
  if (good && session.link->digest && payload_digest(arrival.slices) != arrival.digest) {
    drop(DropReason::kDigest);
    good = false;
  }
  const PieceRun& run = arrival.run;
  for (int piece = run.first; piece < run.first + run.count; ++piece) {
    ticket->bits[ticket->bit_index(plan, run.layer, piece, run.dst_rank)] =
        good ? Ticket::Bit::kDone : Ticket::Bit::kMissing;
  }
  if (good) {
    ticket->done += static_cast<size_t>(run.count);
    ticket->bytes += arrival.bytes;
    ticket->digest.add({static_cast<uint32_t>(run.layer), static_cast<uint32_t>(run.first),
                        static_cast<uint32_t>(run.dst_rank), static_cast<uint32_t>(run.count),
                        arrival.digest});
    context_.metrics.received_bytes(session.link->transport, arrival.bytes);
  }
  if (ticket->held_commit && ticket->pending == 0) {
    decide_commit(*ticket, now);
  }
}

}  // namespace baton::kv_transfer
