#include "kv_transfer/test_worker.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace baton::kv_transfer {
namespace {

using kv_cache::HeadRange;
using kv_cache::kGroupTokens;

uint16_t value_of(uint64_t seed, int layer, int head, int token, int index) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(layer) * 0xBF58476D1CE4E5B9ull +
               static_cast<uint64_t>(head) * 0x94D049BB133111EBull +
               static_cast<uint64_t>(token) * 0xD6E8FEB86659FD93ull + static_cast<uint64_t>(index);
  x ^= x >> 31;
  x *= 0x7FB5D329728EA185ull;
  return static_cast<uint16_t>(x >> 40) | 1;  // never zero
}

}  // namespace

std::vector<HeadRange> head_ranges(int query_heads, int kv_heads, int segments, int degree) {
  std::vector<HeadRange> ranges;
  const int per_kv = query_heads / kv_heads;
  for (int rank = 0; rank < degree; ++rank) {
    const int first = rank * segments / degree * query_heads / segments;
    const int last = (rank + 1) * segments / degree * query_heads / segments - 1;
    ranges.push_back({first / per_kv, last / per_kv + 1});
  }
  return ranges;
}

kv_cache::KvLayout TestShape::layout() const {
  kv_cache::KvLayout made;
  made.block_tokens = block_tokens;
  kv_cache::CacheGroup group;
  group.layers = layers;
  group.kv_heads = kv_heads;
  group.k_dim = group.v_dim = dim;
  made.groups = {group};
  if (!layer_groups.empty()) {
    made.layer_groups = layer_groups;
    made.groups.push_back(group);
    made.groups[1].kind = kv_cache::CacheKind::kWindow;
    made.groups[1].window = window;
    made.groups[1].layers =
        static_cast<int>(std::count(layer_groups.begin(), layer_groups.end(), 1));
    made.groups[0].layers -= made.groups[1].layers;
  }
  return made;
}

TestPools::TestPools(const TestShape& shape) : shape_(shape) {
  const kv_cache::KvLayout layout = shape.layout();
  std::vector<int> blocks = {shape.blocks};
  if (layout.groups.size() > 1) {
    blocks.push_back(shape.window_blocks);
  }
  for (const HeadRange& range : shape.ranks) {
    pools_.push_back(
        std::move(kv_cache::KvPool::create(
                      layout, range, blocks, kv_cache::Touch::kNow,
                      shape.shared ? kv_cache::Backing::kShared : kv_cache::Backing::kPrivate)
                      .value()));
    pools_.back().fill(0xFFFF);
  }
}

std::vector<const kv_cache::KvPool*> TestPools::pointers() const {
  std::vector<const kv_cache::KvPool*> pointers;
  for (const kv_cache::KvPool& pool : pools_) {
    pointers.push_back(&pool);
  }
  return pointers;
}

// visit(value*, layer, head, token, index): index counts K's then V's dimensions.
template <typename Visit>
void TestPools::for_each(const std::vector<BlockId>& table, int from, int to, int cache_group,
                         Visit visit) const {
  const int dim = shape_.dim;
  for (const kv_cache::KvPool& pool : pools_) {
    for (int layer = 0; layer < shape_.layers; ++layer) {
      if (pool.layout().group_of(layer) != cache_group) {
        continue;
      }
      for (int head = pool.heads().begin; head < pool.heads().end; ++head) {
        for (int token = from; token < to; ++token) {
          const BlockId id = table[static_cast<size_t>(token / shape_.block_tokens)];
          const int group = token % shape_.block_tokens / kGroupTokens;
          const int slot = token % kGroupTokens;
          auto* k = reinterpret_cast<uint16_t*>(pool.group(layer, id, false, head, group));
          auto* v = reinterpret_cast<uint16_t*>(pool.group(layer, id, true, head, group));
          for (int d = 0; d < dim; ++d) {
            visit(k + d / 2 * 2 * kGroupTokens + slot * 2 + d % 2, layer, head, token, d);
            visit(v + slot / 2 * dim * 2 + d * 2 + slot % 2, layer, head, token, dim + d);
          }
        }
      }
    }
  }
}

void TestPools::write(const std::vector<BlockId>& table, uint64_t seed, int from, int to,
                      int group) {
  for_each(table, from, to, group, [&](uint16_t* value, int layer, int head, int token, int index) {
    *value = value_of(seed, layer, head, token, index);
  });
}

size_t TestPools::mismatches(const std::vector<BlockId>& table, uint64_t seed, int from, int to,
                             int group) const {
  size_t wrong = 0;
  for_each(table, from, to, group,
           [&](const uint16_t* value, int layer, int head, int token, int index) {
             wrong += *value != value_of(seed, layer, head, token, index) ? 1 : 0;
           });
  return wrong;
}

size_t TestPools::nonzero_after(const std::vector<BlockId>& table, int tokens) const {
  size_t found = 0;
  const int end = static_cast<int>(table.size()) * shape_.block_tokens;
  for_each(table, tokens, end, 0,
           [&](const uint16_t* value, int, int, int, int) { found += *value != 0 ? 1 : 0; });
  return found;
}

void TestPools::zero_values(const std::vector<BlockId>& table, int group) {
  for (const kv_cache::KvPool& pool : pools_) {
    for (int layer = 0; layer < shape_.layers; ++layer) {
      for (const BlockId id : table) {
        if (pool.layout().group_of(layer) == group && id != kNoBlock) {
          pool.zero_values(layer, id);
        }
      }
    }
  }
}

uint64_t TestPools::checksum(BlockId id) const {
  uint64_t sum = 0;
  for (const kv_cache::KvPool& pool : pools_) {
    for (int layer = 0; layer < shape_.layers; ++layer) {
      const std::byte* block = pool.block(layer, id);
      for (size_t i = 0; i < pool.block_bytes(); ++i) {
        sum = sum * 31 + static_cast<uint64_t>(block[i]);
      }
    }
  }
  return sum;
}

AgentOptions test_options(const TestPools& pools, wire::Role role, const std::string& name,
                          uint64_t incarnation) {
  AgentOptions options;
  options.role = role;
  options.name = name;
  options.incarnation = Incarnation{incarnation};
  options.transports = {"inproc"};
  options.model_hash = U128{1, 2};
  options.numerics = "inv-1:split512:2";
  options.segments = 2;
  options.pools = pools.pointers();
  if (role == wire::Role::kDecode) {
    options.listen = "tcp://127.0.0.1:0";
  }
  return options;
}

wire::RunBody test_body(int tokens, uint64_t request) {
  wire::RunBody body;
  body.key.request = RequestId{U128{7, request}};
  body.prompt.resize(static_cast<size_t>(tokens));
  for (int i = 0; i < tokens; ++i) {
    body.prompt[static_cast<size_t>(i)] = i;
  }
  body.sampling.max_tokens = 10;
  return body;
}

}  // namespace baton::kv_transfer
