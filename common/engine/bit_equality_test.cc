// The same logits, bit for bit, however a request is computed (docs/numerics.md).

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <tuple>

#include "common/base/random.h"
#include "common/engine/engine_test_support.h"

namespace baton::engine {
namespace {

constexpr int kPromptTokens = 83;
constexpr int kOutputs = 6;

Request request_for(const Engine& engine, uint64_t seed = 7) {
  Request request;
  request.prompt = random_tokens(seed, kPromptTokens, engine.description().vocab);
  request.outputs = kOutputs;
  return request;
}

Trace trace_of(const EngineSetup& setup) {
  const std::unique_ptr<Engine> engine = make_engine(setup);
  return Driver(*engine).run(request_for(*engine));
}

std::string levels_ran() {
  std::string names;
  for (const device::Isa isa : device::available_isas()) {
    names += " " + std::string(device::isa_name(isa));
  }
  return names;
}

std::string tiny(const std::string& name) { return "tests/data/models/" + name + ".gguf"; }

class BitEqualityTest : public ::testing::TestWithParam<const char*> {
 protected:
  EngineSetup setup() const { return {.model = tiny(GetParam()), .segments = 4}; }
};

// Heads that fill blocks of 32 and heads that do not, odd groups, every weight format.
INSTANTIATE_TEST_SUITE_P(Tiny, BitEqualityTest,
                         ::testing::Values("tiny_f16", "tiny_bf16", "tiny_q8_0", "tiny_q4_1",
                                           "tiny_q4_0", "tiny_kmix"),
                         [](const auto& test) { return std::string(test.param); });

// Every architecture: biases, norms of heads and of results, windows, other activations.
INSTANTIATE_TEST_SUITE_P(Architectures, BitEqualityTest, ::testing::ValuesIn(kArchitectureModels),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(BitEqualityTest, AtEveryLevelAndInBothPools) {
  const Trace expected = trace_of(setup());
  std::printf("levels:%s\n", levels_ran().c_str());
  for (const device::Isa isa : device::available_isas()) {
    for (const auto pool : {EngineOptions::Pool::kDecode, EngineOptions::Pool::kPrefill}) {
      SCOPED_TRACE(device::isa_name(isa));
      EngineSetup other = setup();
      other.isa = isa;
      other.pool = pool;
      EXPECT_TRUE(same_bits(expected, trace_of(other)));
    }
  }
}

TEST_P(BitEqualityTest, AtEveryDegreeOfTensorParallel) {
  const Trace expected = trace_of(setup());
  const device::Isa isa = device::available_isas().back();
  for (const auto& [ranks, threads] : {std::tuple(1, 2), std::tuple(2, 1), std::tuple(4, 1)}) {
    EngineSetup other = setup();
    other.isa = isa;
    other.ranks = ranks;
    other.threads = threads;
    if (!Engine::create(options_of(other)).ok()) {
      EXPECT_EQ(ranks, 4) << "only too few heads for a rank excuse this";
      continue;
    }
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    EXPECT_TRUE(same_bits(expected, trace_of(other)));
  }
}

TEST_P(BitEqualityTest, HoweverTheRequestIsScheduled) {
  EngineSetup fast = setup();
  fast.isa = device::available_isas().back();
  const std::unique_ptr<Engine> engine = make_engine(fast);
  Request request = request_for(*engine);
  const Trace expected = Driver(*engine).run(request);
  for (const int chunk : {1, 17, 32, 64}) {
    SCOPED_TRACE("chunk " + std::to_string(chunk));
    request.chunk = chunk;
    EXPECT_TRUE(same_bits(expected, Driver(*engine, 2).run(request)));
  }
}

TEST_P(BitEqualityTest, AtEveryBlockSize) {
  EngineSetup fast = setup();
  fast.isa = device::available_isas().back();
  const Trace expected = trace_of(fast);
  for (const int block_tokens : {64, 128}) {
    fast.block_tokens = block_tokens;
    EXPECT_TRUE(same_bits(expected, trace_of(fast)));
  }
}

// The CPUs of an idle worker take part, and leave when it wakes up, at any moment.
TEST_P(BitEqualityTest, HoweverManyThreadsTakePart) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int first = 0, last = CPU_SETSIZE - 1;
  for (; !CPU_ISSET(first, &allowed); ++first) {
  }
  for (; !CPU_ISSET(last, &allowed); --last) {
  }
  device::StepTable steps = device::StepTable::create().value();
  constexpr int kOwner = 1;
  EngineSetup fast = setup();
  fast.isa = device::available_isas().back();
  EngineOptions options = options_of(fast);
  options.team = {.cpus = {{first}},
                  .wait = device::WaitPolicy::kSpin,
                  .steps = &steps,
                  .borrowed = {{.cpu = last, .idle = {kOwner}}}};
  const std::unique_ptr<Engine> engine = Engine::create(options).value();
  Request request = request_for(*engine);
  const Trace expected = trace_of(fast);

  std::atomic<bool> stop{false};
  std::jthread owner([&] {
    SeededRandom random(5);
    while (!stop) {
      steps.begin(kOwner);
      std::this_thread::sleep_for(random.next() % 200 * 1us);
      steps.release(kOwner);
      std::this_thread::sleep_for(random.next() % 500 * 1us);
    }
  });
  double borrowed = 0;
  const auto until = std::chrono::steady_clock::now() + 20s;
  for (int i = 0; i < 4 || (borrowed == 0 && std::chrono::steady_clock::now() < until); ++i) {
    request.chunk = i % 2 == 0 ? 1024 : 17;
    const Trace trace = Driver(*engine).run(request);
    EXPECT_TRUE(same_bits(expected, trace));
    borrowed += trace.borrowed_seconds;
  }
  stop = true;
  EXPECT_GT(borrowed, 0);
}

class BitEqualityOfBatchTest : public ::testing::TestWithParam<const char*> {
 protected:
  EngineSetup setup() const {
    return {.model = tiny(GetParam()), .isa = device::available_isas().back(), .segments = 4};
  }
};
// Windows of 24 and 40 keys, so that blocks lie before them.
INSTANTIATE_TEST_SUITE_P(Tiny, BitEqualityOfBatchTest,
                         ::testing::Values("tiny_q4_1", "tiny_qwen2", "tiny_gemma3",
                                           "tiny_mistral"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(BitEqualityOfBatchTest, AloneAndAmong31Others) {
  EngineSetup large = setup();
  large.threads = 2;
  large.blocks = 256;
  const std::unique_ptr<Engine> engine = make_engine(large);
  std::vector<Request> requests;
  for (int i = 0; i < 32; ++i) {
    Request request;
    request.prompt = random_tokens(100 + static_cast<uint64_t>(i), 1 + i * 13 % 130,
                                   engine->description().vocab);
    request.outputs = 4 + i % 9;
    request.chunk = i % 3 == 0 ? 17 : 1024;
    request.arrives = i % 5;
    requests.push_back(std::move(request));
  }
  const std::vector<Trace> together = Driver(*engine).run(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    EXPECT_TRUE(same_bits(Driver(*engine, 3).run(requests[i]), together[i]));
  }
}

TEST_P(BitEqualityOfBatchTest, WithAWarmPrefix) {
  const std::unique_ptr<Engine> engine = make_engine(setup());
  const Request request = request_for(*engine);
  const Trace cold = Driver(*engine).run(request);
  EXPECT_EQ(cold.computed_tokens, kPromptTokens + kOutputs - 1);
  Driver driver(*engine, 5, true);
  EXPECT_TRUE(same_bits(cold, driver.run(request)));
  const Trace warm = driver.run(request);
  EXPECT_TRUE(same_bits(cold, warm));
  EXPECT_EQ(warm.computed_tokens, cold.computed_tokens - 64);  // two blocks were there
}

TEST_P(BitEqualityOfBatchTest, WhenTheCacheIsDroppedInMidStream) {
  const std::unique_ptr<Engine> engine = make_engine(setup());
  Request request = request_for(*engine);
  request.prompt.resize(20);
  request.outputs = 70;
  const Trace expected = Driver(*engine).run(request);
  for (const int every : {1, 7, 31, 32, 33}) {
    SCOPED_TRACE("every " + std::to_string(every));
    request.drop_every = every;
    request.chunk = every == 7 ? 17 : 1024;
    EXPECT_TRUE(same_bits(expected, Driver(*engine, 4).run(request)));
  }
}

}  // namespace
}  // namespace baton::engine
