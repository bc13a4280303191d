#include "common/engine/memory_need.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "common/engine/engine_test_support.h"

namespace baton::engine {
namespace {

uint64_t kv_bytes_of(const Engine& engine) {
  uint64_t bytes = 0;
  for (int rank = 0; rank < engine.ranks(); ++rank) {
    bytes += engine.pool(rank).bytes();
  }
  return bytes;
}

TEST(MemoryNeedTest, ForeseesWeightsAndPoolOfTheEngine) {
  for (const EngineOptions::Pool pool :
       {EngineOptions::Pool::kPrefill, EngineOptions::Pool::kDecode}) {
    for (const char* model :
         {"tests/data/models/tiny_q4_1.gguf", "tests/data/models/tiny_llama3.gguf",
          "tests/data/models/tiny_qwen2.gguf", "tests/data/models/tiny_gemma3.gguf", kRealModel}) {
      EngineSetup setup;
      setup.model = model;
      setup.pool = pool;
      setup.blocks = 8;
      const Result<MemoryNeed> need = memory_need(options_of(setup));
      ASSERT_TRUE(need.ok()) << need.status().message();
      const std::unique_ptr<Engine> engine = make_engine(setup);
      EXPECT_EQ(need->kv_cache, kv_bytes_of(*engine)) << model;
      EXPECT_EQ(need->weights, engine->weight_bytes(0)) << model;
      EXPECT_GT(need->rest, 64u << 20);
    }
  }
}

TEST(MemoryNeedTest, KnowsTheFormOfWeightsInTheFastArithmetic) {
  EngineSetup setup;
  setup.isa = device::available_isas().back();
  setup.arithmetic = Arithmetic::kFast;
  setup.pool = EngineOptions::Pool::kPrefill;
  const EngineOptions options = options_of(setup);
  const std::unique_ptr<Engine> engine = make_engine(setup);
  EXPECT_EQ(memory_need(options)->weights, engine->weight_bytes(0));
  const bool tiles = setup.isa == device::Isa::kAmx;
  EXPECT_EQ(weight_pool(options), kernels::has_fast_arithmetic(setup.isa) && !tiles
                                      ? model::WeightPool::kDecode
                                      : model::WeightPool::kPrefill);
}

TEST(MemoryNeedTest, LeavesOutWeightsThatLieInAPackedFile) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::path(testing::TempDir()) / ("memory_need_test." + std::to_string(getpid()));
  fs::create_directories(folder);
  for (const int ranks : {1, 2}) {
    EngineSetup setup;
    setup.model = kRealModel;
    setup.ranks = ranks;
    setup.segments = 2;
    setup.blocks = 8;
    EngineOptions options = options_of(setup);
    const uint64_t whole = memory_need(options)->weights;
    options.packed_folders = {(folder / "none").string(), folder.string()};
    EXPECT_EQ(memory_need(options)->weights, whole) << "nothing is packed";
    options.packed_folders = {folder.string()};
    ASSERT_TRUE(Engine::create(options).ok());
    EXPECT_LT(memory_need(options)->weights, whole / 100) << "norms only, ranks: " << ranks;
    options.pool = EngineOptions::Pool::kPrefill;
    EXPECT_GT(memory_need(options)->weights, whole) << "of the other role";
    options.pool = EngineOptions::Pool::kDecode;
    for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
      fs::resize_file(file.path(), 5000);
    }
    EXPECT_EQ(memory_need(options)->weights, whole) << "not the file that it should be";
  }
  fs::remove_all(folder);
}

TEST(MemoryNeedTest, TakesTheBytesOfThePoolWhereTheyAreGiven) {
  EngineOptions options = options_of({});
  options.blocks = 0;
  options.kv_bytes = 123'456'789;
  EXPECT_EQ(memory_need(options)->kv_cache, 123'456'789u);
}

TEST(MemoryNeedTest, TellsWhatIsWrongWithTheModel) {
  EngineOptions options = options_of({});
  options.model_path = "no/such.gguf";
  EXPECT_EQ(memory_need(options).status().message(),
            "no/such.gguf: no such file; give the path of a .gguf file or a model folder");
}

TEST(MemoryNeedTest, RefusesASumThatDoesNotFit) {
  constexpr uint64_t kMiB = 1 << 20;
  const std::vector<ProgramNeed> programs = {
      {"p0", {.weights = 200 * kMiB, .kv_cache = 64 * kMiB, .rest = 30 * kMiB - 1}},
      {"router", {.rest = 40 * kMiB}}};
  EXPECT_TRUE(check_memory("the cluster", programs, 334 * kMiB).ok());
  const Status status = check_memory("the cluster", programs, 333 * kMiB);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "the cluster needs 334 MiB of memory, 333 MiB are available (p0 weights 200 + KV pool "
            "64 + rest "
            "30; router 40); take a smaller model or lower kv_cache");
}

}  // namespace
}  // namespace baton::engine
