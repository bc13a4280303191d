#include "common/model/packed_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/model/weights.h"
#include "common/model_file/model_hash.h"

namespace baton::model {
namespace {

namespace fs = std::filesystem;
using kernels::PackedMatrix;
using kernels::WeightFormat;
using model_file::ModelFile;
using model_file::PackedFile;
using model_file::PackedFileWriter;
using model_file::PackedKey;

const char* const kModel = BATON_SOURCE_DIR "/tests/data/models/tiny_q4_1.gguf";

// Fills each matrix with a pattern of its own and counts the calls.
class FakePacker final : public WeightPacker {
 public:
  explicit FakePacker(const std::vector<PackedMatrix*>& matrices) : matrices_(matrices) {}
  void pack(size_t first, size_t last, const ParallelFor& parallel_for) override {
    calls += first == 0 ? 1 : 0;
    parallel_for(static_cast<int>(last - first), [&](int i) {
      PackedMatrix& matrix = *matrices_[first + static_cast<size_t>(i)];
      for (size_t at = 0; at < matrix.bytes(); ++at) {
        ok = ok && matrix.panel(0)[at] == std::byte{0};
        matrix.mutable_panel(0)[at] =
            static_cast<std::byte>(at * 7 + first + static_cast<size_t>(i));
      }
    });
  }
  int calls = 0;
  bool ok = true;  // memory was zero

 private:
  const std::vector<PackedMatrix*>& matrices_;
};

// One start of a process.
struct Start {
  Start() {
    for (const int n : {40, 16, 3000}) {
      owned.push_back(PackedMatrix::unplaced(WeightFormat::kBf16Panels, n, 70));
    }
    for (PackedMatrix& matrix : owned) {
      matrices.push_back(&matrix);
    }
  }
  Status load(const KeptWeights& kept, const std::string& model = kModel) {
    BATON_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::open(model));
    BATON_ASSIGN_OR_RETURN(packed, load_packed(file, "x", matrices, packer, kept, serial_for));
    return Status();
  }
  bool right() const {
    bool same = packer.ok;
    for (size_t i = 0; i < owned.size(); ++i) {
      for (size_t at = 0; at < owned[i].bytes(); ++at) {
        same = same && owned[i].panel(0)[at] == static_cast<std::byte>(at * 7 + i);
      }
    }
    return same;
  }
  std::vector<PackedMatrix> owned;
  std::vector<PackedMatrix*> matrices;
  FakePacker packer{matrices};
  PackedWeights packed;
};

class PackedStoreTest : public ::testing::Test {
 protected:
  PackedStoreTest()
      : folder_(fs::path(::testing::TempDir()) /
                ("packed_store_test." + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    kept_ = {.folders = {folder_.string()}, .least_bytes = 0, .wait = 60s};
    path_ = model_file::packed_file_path(folder_.string(), kModel, "x");
  }
  ~PackedStoreTest() override { fs::remove_all(folder_); }

  void expect_start(bool packs, const std::string& model = kModel) {
    Start start;
    const Status status = start.load(kept_, model);
    ASSERT_TRUE(status.ok()) << status.to_string();
    // A start that packs into a file asks for the first matrix once.
    EXPECT_EQ(start.packer.calls, packs ? 1 : 0);
    EXPECT_TRUE(start.packed.file);
    EXPECT_TRUE(start.packer.ok);
    EXPECT_TRUE(start.right());
    const ModelFile file = std::move(ModelFile::open(model)).value();
    EXPECT_EQ(start.packed.model_hash, model_file::model_hash(file).value());
  }
  void overwrite(size_t at, char byte) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  fs::path folder_;
  std::string path_;
  KeptWeights kept_;
};

TEST_F(PackedStoreTest, PacksOnceAndThenMapsTheFile) {
  EXPECT_FALSE(has_packed_file(kept_.folders, kModel, "x", 0, 1 << 30));
  expect_start(true);
  expect_start(false);
  EXPECT_TRUE(fs::exists(path_));
  const uint64_t bytes = fs::file_size(path_) - PackedFile::kContentAt;
  EXPECT_TRUE(has_packed_file(kept_.folders, kModel, "x", bytes, bytes));
  EXPECT_FALSE(has_packed_file(kept_.folders, kModel, "x", bytes + 1, bytes + 2));
  EXPECT_FALSE(has_packed_file(kept_.folders, kModel, "x", 0, bytes - 1));
}

TEST_F(PackedStoreTest, KeepsNothingWithoutAFolderOrForSmallModels) {
  for (const KeptWeights& kept :
       {KeptWeights{}, KeptWeights{.folders = {folder_.string()}, .least_bytes = 1'000'000'000}}) {
    Start start;
    ASSERT_TRUE(start.load(kept).ok());
    EXPECT_EQ(start.packer.calls, 1);
    EXPECT_FALSE(start.packed.file);
    EXPECT_TRUE(start.right());
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PackedStoreTest, ReplacesADamagedFile) {
  expect_start(true);
  overwrite(PackedFile::kContentAt + 5000, 'x');
  expect_start(true);
  expect_start(false);
  overwrite(3, 'x');  // of the head
  expect_start(true);
  fs::resize_file(path_, fs::file_size(path_) - 1);
  expect_start(true);
  expect_start(false);
}

TEST_F(PackedStoreTest, ReplacesTheFileOfAnotherLayout) {
  PackedFileWriter writer =
      std::move(PackedFileWriter::create(path_, {.layout = 1, .bytes = 4})).value();
  ASSERT_TRUE(writer.append(std::vector<std::byte>(4)).ok());
  ASSERT_TRUE(writer.finish({1, 2}, serial_for).ok());
  expect_start(true);
  expect_start(false);
}

TEST_F(PackedStoreTest, ReplacesTheFileOfAModelThatHasChanged) {
  const std::string model = (folder_ / "m.gguf").string();
  fs::copy_file(kModel, model);
  expect_start(true, model);
  expect_start(false, model);  // found by its hash: it has just been written
  {
    std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('x');  // a weight; the file keeps its name and size
  }
  expect_start(true, model);
  expect_start(false, model);
}

TEST_F(PackedStoreTest, KnowsAnUnchangedModelWithoutReadingIt) {
  expect_start(true);
  const ModelFile model = std::move(ModelFile::open(kModel)).value();
  const auto noted = [&] {
    Start start;
    EXPECT_TRUE(start.load(kept_).ok());
    return start.packed.file->model();
  };
  EXPECT_EQ(noted(), model.identity());
  // A note about another file is no more than that: the hash decides, and the note is renewed.
  PackedFile::note_model(path_, {.bytes = 1, .modified_ns = 2, .changed_ns = 3, .inode = 4});
  expect_start(false);
  EXPECT_EQ(noted(), model.identity());
}

TEST_F(PackedStoreTest, TakesTheFirstFolderThatItCanWrite) {
  kept_.folders.insert(kept_.folders.begin(), std::string(kModel) + "/no_folder");
  expect_start(true);
  EXPECT_TRUE(fs::exists(path_));
  expect_start(false);
}

TEST_F(PackedStoreTest, PacksInMemoryWhenNoFolderCanBeWritten) {
  kept_.folders = {"/proc/none", std::string(kModel) + "/no_folder"};
  Start start;
  ASSERT_TRUE(start.load(kept_).ok());
  EXPECT_FALSE(start.packed.file);
  EXPECT_TRUE(start.right());
}

TEST_F(PackedStoreTest, TwoThatStartTogetherPackOnce) {
  Start starts[2];
  {
    std::vector<std::jthread> threads;
    for (Start& start : starts) {
      threads.emplace_back([&] { EXPECT_TRUE(start.load(kept_).ok()); });
    }
  }
  EXPECT_EQ(starts[0].packer.calls + starts[1].packer.calls, 1);
  for (const Start& start : starts) {
    EXPECT_TRUE(start.packed.file);
    EXPECT_TRUE(start.right());
  }
  EXPECT_FALSE(fs::exists(path_ + ".part"));
}

TEST_F(PackedStoreTest, WaitsForAnotherProcessNoLongerThanItShould) {
  const Result<PackedFileWriter> other = PackedFileWriter::create(path_, {.layout = 1, .bytes = 4});
  ASSERT_TRUE(other.ok());
  kept_.wait = 50ms;
  Start start;
  ASSERT_TRUE(start.load(kept_).ok());
  EXPECT_FALSE(start.packed.file);
  EXPECT_TRUE(start.right());
}

struct Shape {
  const char* model;
  WeightPool pool;
  int segments;
  int ranks;
};

std::unique_ptr<Weights> load(const Shape& shape, const KeptWeights& kept) {
  const std::string path = BATON_SOURCE_DIR "/tests/data/models/" + std::string(shape.model);
  ModelFile file = std::move(ModelFile::open(path)).value();
  const ModelDescription description = describe(file).value();
  const SegmentPlan plan = SegmentPlan::create(description, shape.segments, shape.ranks).value();
  return std::move(Weights::load(std::move(file), description, plan, shape.pool, serial_for, kept))
      .value();
}

TEST_F(PackedStoreTest, BytesFromAFileAreThosePackedInMemory) {
  int files = 0;
  for (const char* model :
       {"tiny_f32.gguf", "tiny_q8_0.gguf", "tiny_q4_1.gguf", "tiny_kmix.gguf"}) {
    for (const WeightPool pool : {WeightPool::kPrefill, WeightPool::kDecode}) {
      for (const auto& [segments, ranks] : {std::pair(1, 1), std::pair(2, 2), std::pair(4, 2)}) {
        const Shape shape = {model, pool, segments, ranks};
        const auto fresh = load(shape, {});
        const auto written = load(shape, kept_);
        const auto mapped = load(shape, kept_);
        ++files;
        for (const Weights* kept : {written.get(), mapped.get()}) {
          EXPECT_TRUE(std::ranges::equal(kept->packed(), fresh->packed())) << model;
          EXPECT_EQ(kept->model_hash(), fresh->model_hash());
          EXPECT_EQ(kept->rank(0).bytes, fresh->rank(0).bytes);
        }
        EXPECT_EQ(mapped->packed().data() == written->packed().data(), false);
      }
    }
  }
  // One file a model, pool, number of ranks and of segments.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), files);
}

}  // namespace
}  // namespace baton::model
