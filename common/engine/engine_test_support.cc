#include "common/engine/engine_test_support.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "common/base/check.h"

namespace baton::engine {

const char* const kRealModel = BATON_SOURCE_DIR "/models/smollm2-135m-instruct-q4_1.gguf";

EngineOptions options_of(const EngineSetup& setup) {
  EngineOptions options;
  options.model_path = setup.model.starts_with('/')
                           ? setup.model
                           : std::string(BATON_SOURCE_DIR) + "/" + setup.model;
  options.pool = setup.pool;
  options.isa = setup.isa;
  options.team.cpus.assign(static_cast<size_t>(setup.ranks),
                           std::vector<int>(static_cast<size_t>(setup.threads), -1));
  // Tests share the machine with each other.
  options.team.wait = device::WaitPolicy::kYield;
  options.segments = setup.segments;
  options.block_tokens = setup.block_tokens;
  options.blocks = setup.blocks;
  options.window_blocks = setup.blocks;
  options.max_batch_tokens = setup.max_batch_tokens;
  options.max_context = setup.max_context;
  options.arithmetic = setup.arithmetic;
  return options;
}

std::unique_ptr<Engine> make_engine(const EngineSetup& setup) {
  Result<std::unique_ptr<Engine>> engine = Engine::create(options_of(setup));
  BATON_CHECK(engine.ok(), engine.status().to_string());
  return std::move(engine).value();
}

std::vector<TokenId> random_tokens(uint64_t seed, int count, int vocab) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random() % static_cast<uint64_t>(vocab));
  }
  return tokens;
}

TokenId arg_max(const std::vector<float>& logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

Driver::Driver(Engine& engine, uint64_t seed, bool prefix_cache)
    : engine_(engine),
      prefix_cache_(prefix_cache),
      pools_({.groups = engine.pool(0).layout().groups,
              .blocks = engine.pool(0).group_blocks(),
              .block_tokens = engine.pool(0).layout().block_tokens,
              .prefix_cache = prefix_cache,
              .root = {}}) {
  for (int rank = 0; rank < engine.ranks(); ++rank) {
    engine.pool(rank).fill(0xFFFF);
  }
  // Blocks come back in random order, and go out in that order again.
  for (int g = 0; g < pools_.groups(); ++g) {
    std::vector<kv_cache::BlockLease> leases;
    for (int i = 0; i < pools_.pool(g).total(); ++i) {
      leases.push_back(pools_.pool(g).allocate(1).value());
    }
    std::ranges::shuffle(leases, std::mt19937_64(seed + static_cast<uint64_t>(g)));
  }
}

Trace Driver::run(const Request& request) { return run(std::vector<Request>{request}).front(); }

std::vector<Trace> Driver::run(const std::vector<Request>& requests) {
  std::vector<Trace> traces(requests.size());
  std::vector<Running> all(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    all[i].request = &requests[i];
    all[i].trace = &traces[i];
    all[i].id = SequenceId{i + 1};
    all[i].tokens = requests[i].prompt;
  }
  for (int step = 0; std::ranges::any_of(all, [](const Running& r) { return !r.done; }); ++step) {
    auto batch = std::make_unique<BatchPlan>();
    std::vector<Running*> planned;
    for (Running& running : all) {
      if (!running.done && running.request->arrives <= step) {
        plan(running, 1024 - batch->total_tokens(), *batch);
        planned.push_back(&running);
      }
    }
    if (planned.empty()) {
      continue;
    }
    StepOutput output = engine_.run(std::move(batch));
    for (size_t i = 0; i < planned.size(); ++i) {
      planned[i]->trace->borrowed_seconds += output.borrowed_seconds;
      take(*planned[i], static_cast<int>(output.plan->sequences[i].tokens.size()),
           output.sequences[i]);
    }
  }
  return traces;
}

void Driver::plan(Running& running, int room, BatchPlan& batch) {
  if (running.computed == 0 && prefix_cache_) {
    kv_cache::BlockPools::Hit hit =
        pools_.match(running.tokens, static_cast<int>(running.tokens.size()) - 1);
    running.computed = hit.tokens;
    running.blocks = std::move(hit.blocks);
  }
  const int count = std::min(
      {static_cast<int>(running.tokens.size()) - running.computed, running.request->chunk, room});
  BATON_CHECK(count > 0, "the test's batch is too large");
  SequencePlan sequence;
  for (int g = 0; g < pools_.groups(); ++g) {
    kv_cache::BlockLease& lease = running.blocks[static_cast<size_t>(g)];
    const int needed = pools_.blocks_for(running.computed + count) - static_cast<int>(lease.size());
    kv_cache::BlockLease fresh = pools_.pool(g).allocate(needed).value();
    std::vector<BlockId>& zero = g == 0 ? batch.zero_values : batch.window_zero_values;
    zero.insert(zero.end(), fresh.ids().begin(), fresh.ids().end());
    lease.append(std::move(fresh));
    (g == 0 ? sequence.blocks : sequence.window_blocks)
        .assign(lease.ids().begin(), lease.ids().end());
  }
  sequence.id = running.id;
  sequence.tokens.assign(running.tokens.begin() + running.computed,
                         running.tokens.begin() + running.computed + count);
  sequence.first_position = running.computed;
  if (running.computed + count == static_cast<int>(running.tokens.size())) {
    sequence.logits = LogitsWanted::kLast;
    sequence.return_logits = true;
  }
  batch.sequences.push_back(std::move(sequence));
}

void Driver::take(Running& running, int count, SequenceOutput& output) {
  BATON_CHECK(output.error.ok(), output.error.to_string());
  running.computed += count;
  running.trace->computed_tokens += count;
  pools_.publish(std::span(running.tokens).first(static_cast<size_t>(running.computed)),
                 running.blocks, 0);
  for (int g = 0; g < pools_.groups(); ++g) {
    kv_cache::BlockLease& lease = running.blocks[static_cast<size_t>(g)];
    const auto first = static_cast<size_t>(pools_.first_block(g, running.computed));
    wipe(g, lease.ids().first(first));
    lease.vacate_front(first);
    if (pools_.group(g).kind == kv_cache::CacheKind::kWindow) {
      most_window_blocks = std::max(most_window_blocks, static_cast<int>(lease.held()));
    }
  }
  if (output.logits.empty()) {
    return;
  }
  running.trace->tokens.push_back(arg_max(output.logits));
  running.trace->logits.push_back(std::move(output.logits));
  const auto outputs = static_cast<int>(running.trace->tokens.size());
  running.done = outputs == running.request->outputs;
  const int drop_every = running.request->drop_every;
  if (running.done || (drop_every > 0 && outputs % drop_every == 0)) {
    free_blocks(running);
    running.computed = 0;
  }
  running.tokens.push_back(running.trace->tokens.back());
}

// Whoever still reads a block that is given back shall notice.
void Driver::wipe(int group, std::span<const BlockId> ids) {
  for (int rank = 0; !prefix_cache_ && rank < engine_.ranks(); ++rank) {
    const kv_cache::KvPool& pool = engine_.pool(rank);
    for (int layer = 0; layer < pool.layers(); ++layer) {
      for (const BlockId id : ids) {
        if (pool.layout().group_of(layer) == group && id != kNoBlock) {
          std::memset(pool.block(layer, id), 0xFF, pool.block_bytes());
        }
      }
    }
  }
}

void Driver::free_blocks(Running& running) {
  for (int g = 0; g < pools_.groups(); ++g) {
    kv_cache::BlockLease& lease = running.blocks[static_cast<size_t>(g)];
    wipe(g, lease.ids());
    lease.release();
  }
}

::testing::AssertionResult same_bits(const Trace& a, const Trace& b) {
  if (a.tokens.size() != b.tokens.size()) {
    return ::testing::AssertionFailure()
           << a.tokens.size() << " and " << b.tokens.size() << " outputs";
  }
  for (size_t step = 0; step < a.logits.size(); ++step) {
    const std::vector<float>& x = a.logits[step];
    const std::vector<float>& y = b.logits[step];
    // NaN is unequal to itself, so a NaN anywhere fails.
    const auto [at, other] = std::ranges::mismatch(x, y);
    if (at != x.end() || other != y.end()) {
      return ::testing::AssertionFailure() << "output " << step << ", logit " << (at - x.begin())
                                           << ": " << *at << " and " << *other;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace baton::engine
