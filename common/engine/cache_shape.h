#pragma once

// The KV cache that an engine makes for a model: its groups, and how many blocks each gets.

#include <cstdint>
#include <vector>

#include "common/engine/engine.h"
#include "common/kv_cache/layout.h"

namespace baton::engine {

// Full layers are a group, layers with a window another. unsupported when windows differ.
Result<kv_cache::KvLayout> cache_layout(const model::ModelDescription& model, int block_tokens);

// Blocks of each group on every rank, by options.blocks or else options.kv_bytes. Both groups then
// hold equally many sequences of four windows' length (docs/capacity.md), and the window group at
// least what one sequence needs.
Result<std::vector<int>> cache_blocks(const EngineOptions& options,
                                      const kv_cache::KvLayout& layout,
                                      const model::SegmentPlan& plan, int max_context);

// Bytes of one block in all layers of a group, all ranks together.
uint64_t group_block_bytes(const kv_cache::KvLayout& layout, int group,
                           const model::SegmentPlan& plan);

}  // namespace baton::engine
