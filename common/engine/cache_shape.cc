#include "common/engine/cache_shape.h"

#include <algorithm>
#include <string>

namespace baton::engine {
namespace {

constexpr uint64_t kMaxBlocks = uint64_t{1} << 30;
constexpr int64_t kWindowsOfAverage = 4;  // tokens of the sequence that memory is shared out for

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// What sequences of the average length hold of each group, and what one alone needs of the window
// group: its window, wherever that begins in a block, and a block for new tokens.
struct Shares {
  uint64_t full = 1, window = 1, least = 1;
};

Shares shares(const kv_cache::KvLayout& layout, int max_context) {
  const auto block = static_cast<uint64_t>(layout.block_tokens);
  const int window = layout.groups.back().window;
  const auto average = static_cast<uint64_t>(
      std::min(kWindowsOfAverage * window, std::max<int64_t>(max_context, 1)));
  const uint64_t seen = ceil_div(static_cast<uint64_t>(window) - 1, block) + 1;
  Shares s;
  s.full = ceil_div(average, block);
  s.window = std::min(s.full, seen);
  s.least = std::min(seen + 1, ceil_div(static_cast<uint64_t>(std::max(max_context, 1)), block));
  return s;
}

Status bad_size(uint64_t bytes, uint64_t blocks, uint64_t block_bytes) {
  return invalid_argument("engine: " + std::to_string(bytes) + " bytes of KV memory are " +
                          std::to_string(blocks) + " blocks of " + std::to_string(block_bytes) +
                          " bytes, expected 1.." + std::to_string(kMaxBlocks));
}

// a * b / c of a product that may not fit.
uint64_t scaled(uint64_t a, uint64_t b, uint64_t c) { return a / c * b + a % c * b / c; }

// A model of windows alone: all memory is theirs, and must hold one.
Result<std::vector<int>> window_blocks_alone(const EngineOptions& options,
                                             const kv_cache::KvLayout& layout, uint64_t block_bytes,
                                             int max_context) {
  const uint64_t least = shares(layout, max_context).least;
  const uint64_t blocks = options.blocks != 0 ? static_cast<uint64_t>(std::max(options.blocks, 0))
                                              : options.kv_bytes / block_bytes;
  if (blocks < least || blocks > kMaxBlocks) {
    return invalid_argument("engine: KV memory of " + std::to_string(blocks) +
                            " blocks, expected " + std::to_string(least) + ".." +
                            std::to_string(kMaxBlocks) + " of " + std::to_string(block_bytes) +
                            " bytes for the model's window");
  }
  return std::vector<int>{static_cast<int>(blocks)};
}

}  // namespace

Result<kv_cache::KvLayout> cache_layout(const model::ModelDescription& model, int block_tokens) {
  kv_cache::CacheGroup full = {
      .kv_heads = model.kv_heads, .k_dim = model.head_dim, .v_dim = model.head_dim};
  kv_cache::CacheGroup windows = full;
  windows.kind = kv_cache::CacheKind::kWindow;
  kv_cache::KvLayout layout;
  layout.block_tokens = block_tokens;
  for (int layer = 0; layer < model.layers; ++layer) {
    const int window = model.window(layer);
    layout.layer_groups.push_back(window > 0 ? 1 : 0);
    ++(window > 0 ? windows : full).layers;
    if (window > 0 && windows.window > 0 && window != windows.window) {
      return unsupported("windows of " + std::to_string(windows.window) + " and of " +
                         std::to_string(window) + " tokens in one model");
    }
    windows.window = window > 0 ? window : windows.window;
  }
  for (const kv_cache::CacheGroup& group : {full, windows}) {
    if (group.layers > 0) {
      layout.groups.push_back(group);
    }
  }
  if (layout.groups.size() == 1) {
    layout.layer_groups.clear();
  }
  BATON_RETURN_IF_ERROR(kv_cache::validate(layout));
  return layout;
}

uint64_t group_block_bytes(const kv_cache::KvLayout& layout, int group,
                           const model::SegmentPlan& plan) {
  uint64_t bytes = 0;
  for (const kv_cache::HeadRange& heads : plan.head_map()) {
    bytes += layout.block_bytes(heads.count()) *
             static_cast<uint64_t>(layout.groups[static_cast<size_t>(group)].layers);
  }
  return bytes;
}

Result<std::vector<int>> cache_blocks(const EngineOptions& options,
                                      const kv_cache::KvLayout& layout,
                                      const model::SegmentPlan& plan, int max_context) {
  const bool two = layout.groups.size() == 2;
  const uint64_t first_bytes = group_block_bytes(layout, 0, plan);
  if (layout.groups.front().kind == kv_cache::CacheKind::kWindow) {
    return window_blocks_alone(options, layout, first_bytes, max_context);
  }
  if (options.blocks > 0) {
    std::vector<int> blocks = {options.blocks};
    if (two) {
      // A sequence holds no more blocks of its windows than of its full layers.
      const Shares s = shares(layout, max_context);
      const auto all = static_cast<uint64_t>(options.blocks);
      const uint64_t window = options.window_blocks > 0
                                  ? static_cast<uint64_t>(options.window_blocks)
                                  : std::max(s.least, ceil_div(all * s.window, s.full));
      blocks.push_back(static_cast<int>(std::min(all, window)));
    }
    return blocks;
  }
  if (options.blocks < 0 || options.kv_bytes < first_bytes ||
      options.kv_bytes / first_bytes > kMaxBlocks) {
    return bad_size(options.kv_bytes, options.kv_bytes / first_bytes, first_bytes);
  }
  if (!two) {
    return std::vector<int>{static_cast<int>(options.kv_bytes / first_bytes)};
  }
  const Shares s = shares(layout, max_context);
  const uint64_t window_bytes = group_block_bytes(layout, 1, plan);
  const uint64_t sequence_bytes = s.full * first_bytes + s.window * window_bytes;
  const uint64_t window = std::max(s.least, scaled(options.kv_bytes, s.window, sequence_bytes));
  if (options.kv_bytes < window * window_bytes + first_bytes * s.least) {
    return invalid_argument("engine: " + std::to_string(options.kv_bytes) +
                            " bytes of KV memory do not hold one window, which takes " +
                            std::to_string(s.least) + " blocks of " +
                            std::to_string(first_bytes + window_bytes) + " bytes");
  }
  const uint64_t full = (options.kv_bytes - window * window_bytes) / first_bytes;
  return std::vector<int>{static_cast<int>(full), static_cast<int>(std::min(full, window))};
}

}  // namespace baton::engine
