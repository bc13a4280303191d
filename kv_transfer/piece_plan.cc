#include "kv_transfer/piece_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "common/base/check.h"

namespace baton::kv_transfer {
namespace {

using kv_cache::HeadRange;
using kv_cache::kGroupTokens;

Status check_side(const char* what, const PlanSide& side, int kv_heads) {
  const std::string who(what);
  if (side.block_tokens < kGroupTokens ||
      !std::has_single_bit(static_cast<unsigned>(side.block_tokens))) {
    return incompatible(who + " has blocks of " + std::to_string(side.block_tokens) +
                        " tokens; a power of two from 32 on is needed");
  }
  if (side.ranks.empty()) {
    return incompatible(who + " has no ranks");
  }
  for (const HeadRange& range : side.ranks) {
    if (range.begin < 0 || range.begin >= range.end || range.end > kv_heads) {
      return incompatible(who + " names KV heads [" + std::to_string(range.begin) + ", " +
                          std::to_string(range.end) + ") of " + std::to_string(kv_heads));
    }
  }
  return Status();
}

void append(std::vector<IoSlice>& slices, std::byte* data, size_t bytes) {
  if (!slices.empty() && slices.back().data + slices.back().bytes == data) {
    slices.back().bytes += bytes;
    return;
  }
  slices.push_back({data, bytes});
}

// A K group is [dim / 2][32 slots][2 values]: copies the first `slots` of each row, zeroes the
// rest.
void copy_key_slots(std::byte* to, const std::byte* from, size_t bytes, int slots) {
  constexpr size_t kSlotBytes = 2 * sizeof(uint16_t);
  constexpr size_t kRowBytes = kSlotBytes * kGroupTokens;
  const size_t used = kSlotBytes * static_cast<size_t>(slots);
  for (size_t row = 0; row < bytes; row += kRowBytes) {
    std::memcpy(to + row, from + row, used);
    std::memset(to + row + used, 0, kRowBytes - used);
  }
}

// One contiguous part of a piece: 32 tokens of K or V of one head.
struct Part {
  bool value = false;
  int head = 0;
  int token = 0;  // the first of its 32
};

// The parts of the piece that begins at `first_token`, in wire order.
template <typename Visit>
void for_each_part_of_piece(int first_token, HeadRange heads, int unit_tokens, Visit& visit) {
  for (const bool value : {false, true}) {
    for (int head = heads.begin; head < heads.end; ++head) {
      for (int offset = 0; offset < unit_tokens; offset += kGroupTokens) {
        visit(Part{value, head, first_token + offset});
      }
    }
  }
}

template <typename Visit>
void for_each_part(const PieceRun& run, HeadRange heads, int unit_tokens, Visit visit) {
  for (int piece = run.first; piece < run.first + run.count; ++piece) {
    for_each_part_of_piece(piece * unit_tokens, heads, unit_tokens, visit);
  }
}

}  // namespace

Result<PiecePlan> PiecePlan::make(const kv_cache::KvLayout& layout, PlanSide source,
                                  PlanSide target) {
  const kv_cache::CacheGroup& group = layout.groups.front();
  BATON_RETURN_IF_ERROR(check_side("the prefill worker", source, group.kv_heads));
  BATON_RETURN_IF_ERROR(check_side("the decode worker", target, group.kv_heads));
  if (layout.groups.back().kind == kv_cache::CacheKind::kWindow &&
      source.block_tokens != target.block_tokens) {
    return incompatible("block_tokens differ: prefill worker has " +
                        std::to_string(source.block_tokens) + ", decode worker has " +
                        std::to_string(target.block_tokens) +
                        "; a model with sliding windows needs equal ones");
  }
  PiecePlan plan;
  plan.layout_ = layout;
  plan.unit_tokens_ = std::max(source.block_tokens, target.block_tokens);
  const size_t token_bytes = sizeof(uint16_t) * static_cast<size_t>(group.k_dim + group.v_dim);
  plan.bytes_per_head_ = token_bytes * static_cast<size_t>(plan.unit_tokens_);
  plan.source_of_head_.assign(static_cast<size_t>(group.kv_heads), -1);
  for (size_t rank = source.ranks.size(); rank-- > 0;) {
    for (int head = source.ranks[rank].begin; head < source.ranks[rank].end; ++head) {
      plan.source_of_head_[static_cast<size_t>(head)] = static_cast<int>(rank);
    }
  }
  for (const HeadRange& range : target.ranks) {
    for (int head = range.begin; head < range.end; ++head) {
      if (plan.source_of_head_[static_cast<size_t>(head)] < 0) {
        return incompatible("KV head " + std::to_string(head) +
                            " is on no rank of the prefill worker");
      }
    }
  }
  plan.source_ = std::move(source);
  plan.target_ = std::move(target);
  plan.zeros_.assign(plan.group_bytes(), std::byte{0});
  return plan;
}

int PiecePlan::count(const kv_cache::PerGroup<int>& first, int end) const {
  int sum = 0;
  for (int group = 0; group < cache_groups(); ++group) {
    sum += end - first[static_cast<size_t>(group)];
  }
  return sum;
}

uint64_t PiecePlan::total_bytes(const kv_cache::PerGroup<int>& first, int end) const {
  uint64_t bytes = 0;
  for (int rank = 0; rank < target_ranks(); ++rank) {
    bytes += piece_bytes(rank);
  }
  uint64_t pieces = 0;
  for (int layer = 0; layer < layers(); ++layer) {
    pieces += static_cast<uint64_t>(end - first[static_cast<size_t>(group_of(layer))]);
  }
  return bytes * pieces;
}

int PiecePlan::max_run(int dst_rank) const {
  const int by_bytes = static_cast<int>(kMaxMessageBytes / piece_bytes(dst_rank));
  const int blocks = unit_tokens_ / std::min(source_.block_tokens, target_.block_tokens);
  return std::max(1, std::min(by_bytes, kMaxMessageBlocks / blocks));
}

std::vector<IoSlice> PiecePlan::gather(const PieceRun& run, const SequenceBlocks& from,
                                       std::vector<std::byte>& staging) const {
  std::vector<IoSlice> slices;
  const size_t bytes = group_bytes();
  const int tail = from.tokens % kGroupTokens;
  const int tail_begin = from.tokens - tail;
  const std::span<const BlockId> table = group_of(run.layer) == 0 ? from.table : from.window_table;
  const int end = std::min((run.first + run.count) * unit_tokens_, from.tokens);
  BATON_CHECK(table.size() * static_cast<size_t>(source_.block_tokens) >= static_cast<size_t>(end),
              "what is pushed has blocks");
  const HeadRange heads = target_heads(run.dst_rank);
  if (tail != 0 && (run.first + run.count) * unit_tokens_ > tail_begin) {
    staging.resize(bytes * static_cast<size_t>(heads.count()));
  }
  for_each_part(run, heads, unit_tokens_, [&](const Part& part) {
    if (part.token >= from.tokens) {
      // The page of zeros is only read; the type is shared with targets.
      append(slices, const_cast<std::byte*>(zeros_.data()), bytes);
      return;
    }
    const auto index = static_cast<size_t>(part.token / source_.block_tokens);
    const int group = part.token % source_.block_tokens / kGroupTokens;
    const kv_cache::KvPool& pool = *from.pools[static_cast<size_t>(source_rank(part.head))];
    std::byte* data = pool.group(run.layer, table[index], part.value, part.head, group);
    if (!part.value && tail != 0 && part.token == tail_begin) {
      std::byte* copy = staging.data() + bytes * static_cast<size_t>(part.head - heads.begin);
      copy_key_slots(copy, data, bytes, tail);
      data = copy;
    }
    append(slices, data, bytes);
  });
  return slices;
}

std::vector<IoSlice> PiecePlan::scatter(const PieceRun& run, const SequenceBlocks& to,
                                        std::span<std::byte> spill) const {
  std::vector<IoSlice> slices;
  const size_t bytes = group_bytes();
  const kv_cache::KvPool& pool = *to.pools[static_cast<size_t>(run.dst_rank)];
  const std::span<const BlockId> table = group_of(run.layer) == 0 ? to.table : to.window_table;
  for_each_part(run, target_heads(run.dst_rank), unit_tokens_, [&](const Part& part) {
    const auto index = static_cast<size_t>(part.token / target_.block_tokens);
    if (index >= table.size()) {
      slices.push_back({spill.data(), bytes});
      return;
    }
    const int group = part.token % target_.block_tokens / kGroupTokens;
    append(slices, pool.group(run.layer, table[index], part.value, part.head, group), bytes);
  });
  return slices;
}

}  // namespace baton::kv_transfer
