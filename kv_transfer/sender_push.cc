// The part of the sender's table that posts DATA and follows it to its end.

#include <algorithm>
#include <utility>

#include "kv_transfer/sender.h"
#include "kv_transfer/sender_transfer.h"

namespace baton::kv_transfer {
namespace {

// Assumed before anything was measured.
constexpr double kDefaultBytesPerS = 1e9;
constexpr uint64_t kSmallestSample = 64u << 10;

}  // namespace

Duration SenderTable::transfer_limit(uint64_t bytes) const {
  const Timeouts& timeouts = context_.options.timeouts;
  const double rate = timeouts.rate_share * (bytes_per_s_ > 0 ? bytes_per_s_ : kDefaultBytesPerS);
  const double seconds = static_cast<double>(bytes) / rate * timeouts.time_scale;
  const auto extra = from_seconds(seconds);
  return std::min(timeouts.transfer_base + extra, timeouts.transfer_max);
}

// ---------------------------------------------------------------- pushing

void SenderTable::mark_ready(Transfer& transfer) {
  if (transfer.in_ready ||
      (transfer.state != SenderState::kGranted && transfer.state != SenderState::kPushing)) {
    return;
  }
  transfer.in_ready = true;
  sessions_.find(transfer.session)->ready.push_back(transfer.id);
}

// The next run of pieces of one layer and target rank whose tokens are all written. Whole pieces
// only, but for the last one.
bool SenderTable::next_run(Transfer& transfer, const PiecePlan& plan, PieceRun* run) const {
  const int tokens = transfer.request.kv_tokens;
  for (int layer = 0; layer < plan.layers(); ++layer) {
    int written = tokens;
    for (const std::vector<int>& of_rank : transfer.written) {
      written = std::min(written, of_rank[static_cast<size_t>(layer)]);
    }
    const int complete = written == tokens ? transfer.pieces : written / plan.unit_tokens();
    for (int rank = 0; rank < plan.target_ranks(); ++rank) {
      const int next = transfer.posted[static_cast<size_t>(layer * plan.target_ranks() + rank)];
      if (next < complete) {
        *run = {layer, rank, next, std::min(complete - next, plan.max_run(rank))};
        return true;
      }
    }
  }
  return false;
}

bool SenderTable::post_next(Transfer& transfer, Session& session, TimePoint now) {
  PieceRun run;
  if (!next_run(transfer, session.link->plan, &run)) {
    return false;
  }
  if (transfer.state == SenderState::kGranted) {
    step(transfer, SenderEvent::kPost);
    transfer.first_posted = now;
  }
  if (busy_since_ == TimePoint{}) {
    busy_since_ = now;
  }
  post(transfer, session, run);
  transfer.last_progress = now;
  return true;
}

void SenderTable::post(Transfer& transfer, Session& session, const PieceRun& run) {
  const PiecePlan& plan = session.link->plan;
  Post made;
  made.transfer = transfer.id;
  made.session = session.id;
  const SequenceBlocks from{context_.options.pools, transfer.request.blocks,
                            transfer.request.kv_tokens, transfer.request.window_blocks};
  const std::vector<IoSlice> slices = plan.gather(run, from, made.staging);
  made.bytes = plan.piece_bytes(run.dst_rank) * static_cast<size_t>(run.count);

  DataHeader header;
  header.slot = transfer.slot;
  header.generation = transfer.generation;
  header.seq = transfer.seq++;
  header.dst_rank = static_cast<uint8_t>(run.dst_rank);
  header.layer = static_cast<uint16_t>(run.layer);
  header.group = static_cast<uint8_t>(plan.group_of(run.layer));
  const kv_cache::HeadRange heads = plan.target_heads(run.dst_rank);
  header.head_lo = static_cast<uint16_t>(heads.begin);
  header.head_hi = static_cast<uint16_t>(heads.end);
  header.token_lo = static_cast<uint32_t>(run.first * plan.unit_tokens());
  header.token_hi = static_cast<uint32_t>((run.first + run.count) * plan.unit_tokens());
  header.digest = session.link->digest ? payload_digest(slices) : 0;

  transfer.posted[static_cast<size_t>(run.layer * plan.target_ranks() + run.dst_rank)] += run.count;
  transfer.digest.add({static_cast<uint32_t>(run.layer), static_cast<uint32_t>(run.first),
                       static_cast<uint32_t>(run.dst_rank), static_cast<uint32_t>(run.count),
                       header.digest});
  transfer.bytes += made.bytes;
  ++transfer.outstanding;
  session.in_flight_bytes += made.bytes;
  const uint64_t cookie = next_cookie_++;
  made.header = encode_header(header);
  const Post& kept = posts_.emplace(cookie, std::move(made)).first->second;
  session.path->send(session.path_peer, kept.header, slices, targets_of(session, transfer, run),
                     cookie);
}

// Tables of the receiver lead to memory of the receiver: each id that will be used is looked at.
Status SenderTable::take_tables(const Session& session, Transfer& transfer,
                                const wire::Grant& grant) {
  const PiecePlan& plan = session.link->plan;
  const kv_cache::KvPool& pool = *session.put_pools.front();
  const auto block_tokens = static_cast<size_t>(pool.layout().block_tokens);
  bool good = true;
  for (int group = 0; group < plan.cache_groups(); ++group) {
    const std::vector<BlockId>& table = group == 0 ? grant.blocks : grant.window_blocks;
    const auto first = static_cast<size_t>(transfer.first_piece[static_cast<size_t>(group)]) *
                       static_cast<size_t>(plan.unit_tokens()) / block_tokens;
    good = good && table.size() * block_tokens >= static_cast<size_t>(transfer.request.kv_tokens);
    for (size_t i = first; i < table.size(); ++i) {
      good = good && table[i] < static_cast<BlockId>(pool.blocks(group));
    }
  }
  if (!good) {
    return internal_error("GRANT of " + session.name + " names blocks that it does not have");
  }
  transfer.target_blocks = grant.blocks;
  transfer.target_window_blocks = grant.window_blocks;
  return Status();
}

// Nothing where the receiver places.
std::vector<IoSlice> SenderTable::targets_of(const Session& session, const Transfer& transfer,
                                             const PieceRun& run) {
  if (!session.puts()) {
    return {};
  }
  const SequenceBlocks to{session.put_pools, transfer.target_blocks, transfer.request.kv_tokens,
                          transfer.target_window_blocks};
  return session.link->plan.scatter(run, to, spill_);
}

int SenderTable::pump(TimePoint now) {
  int posted = 0;
  sessions_.for_each([&](Session& session) {
    // Round robin over the transfers of a session, a message each.
    while (session.is_ready() && !session.ready.empty() &&
           session.in_flight_bytes + PiecePlan::kMaxMessageBytes <= kWindowBytes) {
      const TransferId id = session.ready.front();
      session.ready.pop_front();
      Transfer* transfer = find(id);
      if (transfer == nullptr) {
        continue;
      }
      transfer->in_ready = false;
      if (transfer->state != SenderState::kGranted && transfer->state != SenderState::kPushing) {
        continue;
      }
      if (post_next(*transfer, session, now)) {
        ++posted;
        mark_ready(*transfer);
      } else {
        check_posted(*transfer, now);
      }
    }
  });
  return posted;
}

// Once commit() was called and nothing is left to post, the rest is waiting.
void SenderTable::check_posted(Transfer& transfer, TimePoint now) {
  if (!transfer.commit_called ||
      (transfer.state != SenderState::kGranted && transfer.state != SenderState::kPushing)) {
    return;
  }
  PieceRun run;
  const Session* session = sessions_.find(transfer.session);
  if (next_run(transfer, session->link->plan, &run)) {
    return;
  }
  step(transfer, SenderEvent::kAllPosted);
  if (transfer.outstanding == 0) {
    drained(transfer, now);
  }
}

void SenderTable::sent(uint64_t cookie, const Status& status, TimePoint now) {
  const auto it = posts_.find(cookie);
  if (it == posts_.end()) {
    return;
  }
  const Post post = std::move(it->second);
  posts_.erase(it);
  if (Session* session = sessions_.find(post.session); session != nullptr) {
    session->in_flight_bytes -= post.bytes;
    if (status.ok()) {
      context_.metrics.sent_bytes(session->link->transport, post.bytes);
      busy_bytes_ += post.bytes;
      if (session->puts()) {
        const auto* header = reinterpret_cast<const char*>(post.header.data());
        sessions_.send(*session, wire::Written{{header, post.header.size()}});
      }
    }
    account_idle(*session, now);
  }
  Transfer* transfer = find(post.transfer);
  if (transfer == nullptr) {
    return;
  }
  --transfer->outstanding;
  transfer->last_progress = now;
  if (!status.ok() && transfer->state != SenderState::kAborting &&
      transfer->state != SenderState::kLosing) {
    // Whatever the transport or the receiver had against it is nobody's bad input: another try, or
    // another worker, may do.
    transfer->push_failed = true;
    transfer->data_lost = status.code() != StatusCode::kWorkerLost;
    cancel(*transfer,
           status.code() == StatusCode::kWorkerLost
               ? status.with_context("pushing KV")
               : unavailable("pushing KV: " + status.message()),
           now, true);
    return;
  }
  if (transfer->outstanding == 0) {
    drained(*transfer, now);
  }
}

// The rate is measured over the times in which something was under way.
void SenderTable::account_idle(const Session& session, TimePoint now) {
  if (session.in_flight_bytes != 0 || !posts_.empty() || busy_since_ == TimePoint{}) {
    return;
  }
  const double seconds = to_seconds(now - busy_since_);
  if (busy_bytes_ >= kSmallestSample && seconds > 0) {
    const double rate = static_cast<double>(busy_bytes_) / seconds;
    bytes_per_s_ = bytes_per_s_ == 0 ? rate : 0.8 * bytes_per_s_ + 0.2 * rate;
  }
  busy_since_ = TimePoint{};
  busy_bytes_ = 0;
}

}  // namespace baton::kv_transfer
