#include "common/model/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/model/source_type.h"
#include "common/model/testing/reference_logits.h"

namespace baton::model {
namespace {

using kernels::PackedMatrix;
using model_file::ModelFile;
using model_file::TensorInfo;

const char* const kTinyModels[] = {"tiny_f32",  "tiny_f16",  "tiny_bf16", "tiny_q8_0",
                                   "tiny_q4_1", "tiny_q4_0", "tiny_kmix"};

std::string tiny_path(const std::string& name) {
  return BATON_SOURCE_DIR "/tests/data/models/" + name + ".gguf";
}

std::unique_ptr<Weights> load(const std::string& path, WeightPool pool, int segments, int ranks) {
  auto file = ModelFile::open(path);
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  const auto description = describe(*file);
  EXPECT_TRUE(description.ok()) << description.status().to_string();
  const auto plan = SegmentPlan::create(*description, segments, ranks);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  auto weights = Weights::load(std::move(*file), *description, *plan, pool);
  EXPECT_TRUE(weights.ok()) << weights.status().to_string();
  return std::move(*weights);
}

float rounded(float v) { return kernels::float_from_bf16(kernels::bf16_from_float(v)); }

// The bf16 values of a tensor of the file, [rows][columns].
std::vector<std::vector<float>> values_of(const Weights& weights, const std::string& name) {
  const TensorInfo* tensor = weights.file().find_tensor(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<std::vector<float>> rows(tensor->rows());
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r].resize(tensor->row_elements());
    kernels::dequantize_row(source_type(tensor->type), tensor->row(r).data(),
                            static_cast<int>(rows[r].size()), rows[r].data());
    for (float& value : rows[r]) {
      value = rounded(value);
    }
  }
  return rows;
}

// Weights [n][column] of a packed matrix, by multiplying with the unit vector of that column.
std::vector<float> column_of(const PackedMatrix& matrix, int column) {
  std::vector<uint16_t> x(static_cast<size_t>(matrix.padded_k()), 0);
  x[static_cast<size_t>(column)] = kernels::bf16_from_float(1.0F);
  std::vector<float> y(static_cast<size_t>(matrix.panels()) * kernels::kPanelRows);
  kernels::MatmulParams params;
  params.weights = &matrix;
  params.x = x.data();
  params.x_stride = matrix.padded_k();
  params.rows = 1;
  params.y = y.data();
  params.y_stride = static_cast<int>(y.size());
  const auto isa = device::Isa::kScalar;
  const size_t bytes = kernels::matmul_scratch_bytes(isa, matrix.format(), 1, matrix.padded_k());
  std::vector<std::byte> scratch(bytes + 64);
  const auto misaligned = reinterpret_cast<uintptr_t>(scratch.data()) % 64;
  kernels::matmul(isa, params, 0, matrix.panels(), scratch.data() + (64 - misaligned));
  return y;
}

// Columns that lie at the edges of pairs, blocks and superblocks.
std::vector<int> probes(int k) {
  std::vector<int> out;
  for (const int column : {0, 1, 15, 16, 31, 32, 47, 63, 100, 129, 255, k - 1}) {
    if (column < k) {
      out.push_back(column);
    }
  }
  return out;
}

void expect_rows(const Projection& projection, int column, const std::vector<std::vector<float>>& w,
                 int first_row, int count, const std::string& what) {
  for (const int k : probes(projection.k)) {
    for (int i = 0; i < count;) {
      const ProjectionPart& part = projection.part_of((column + i) / kernels::kPanelRows);
      const auto y = column_of(part.weights, k);
      const int end = part.column + static_cast<int>(y.size());
      for (; i < count && column + i < end; ++i) {
        ASSERT_EQ(y[static_cast<size_t>(column + i - part.column)],
                  w[static_cast<size_t>(first_row + i)][static_cast<size_t>(k)])
            << what << " row " << first_row + i << " column " << k;
      }
    }
  }
}

void expect_segments(const std::vector<SegmentMatrix>& segments,
                     const std::vector<std::vector<float>>& w, const std::vector<Range>& ranges,
                     const std::string& what) {
  for (const SegmentMatrix& s : segments) {
    const Range range = ranges[static_cast<size_t>(s.segment)];
    ASSERT_EQ(s.weights.k(), range.count());
    ASSERT_EQ(s.x_column % kernels::kBlockK, 0);
    for (const int k : probes(range.count())) {
      const auto y = column_of(s.weights, k);
      for (size_t row = 0; row < w.size(); ++row) {
        ASSERT_EQ(y[row], w[row][static_cast<size_t>(range.begin + k)])
            << what << " segment " << s.segment << " row " << row << " column " << k;
      }
    }
  }
}

void expect_layer(const Weights& weights, int rank, int layer) {
  const ModelDescription& d = weights.description();
  const RankColumns& c = weights.rank(rank).columns;
  const LayerWeights& l = weights.rank(rank).layers[static_cast<size_t>(layer)];
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const auto w = [&](const char* name) { return values_of(weights, prefix + name + ".weight"); };
  const int dim = d.head_dim;
  expect_rows(l.qkv, c.q, w("attn_q"), c.query_heads.begin * dim, c.query_heads.count() * dim, "q");
  expect_rows(l.qkv, c.k, w("attn_k"), c.kv_heads.begin * dim, c.kv_heads.count() * dim, "k");
  expect_rows(l.qkv, c.v, w("attn_v"), c.kv_heads.begin * dim, c.kv_heads.count() * dim, "v");
  expect_rows(l.gate_up, c.gate, w("ffn_gate"), c.ffn.begin, c.ffn.count(), "gate");
  expect_rows(l.gate_up, c.up, w("ffn_up"), c.ffn.begin, c.ffn.count(), "up");
  std::vector<Range> heads;
  std::vector<Range> ffn;
  for (int s = 0; s < weights.plan().segments(); ++s) {
    const Range h = weights.plan().query_heads(s);
    heads.push_back({h.begin * dim, h.end * dim});
    ffn.push_back(weights.plan().ffn_columns(s));
  }
  expect_segments(l.attn_output, w("attn_output"), heads, "attn_output");
  expect_segments(l.ffn_down, w("ffn_down"), ffn, "ffn_down");
}

class WeightsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WeightsTest, EveryMatrixHoldsTheBf16ValuesOfTheFile) {
  for (const auto pool : {WeightPool::kPrefill, WeightPool::kDecode}) {
    for (const auto& [segments, ranks] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
      SCOPED_TRACE("pool " + std::to_string(static_cast<int>(pool)) + " S " +
                   std::to_string(segments) + " T " + std::to_string(ranks));
      const auto weights = load(tiny_path(GetParam()), pool, segments, ranks);
      const ModelDescription& d = weights->description();
      const auto head = values_of(*weights, d.tied ? "token_embd.weight" : "output.weight");
      for (int rank = 0; rank < ranks; ++rank) {
        const Range vocab = weights->rank(rank).columns.vocab;
        expect_rows(weights->rank(rank).head, 0, head, vocab.begin, vocab.count(), "head");
        for (int layer = 0; layer < d.layers; ++layer) {
          expect_layer(*weights, rank, layer);
        }
      }
    }
  }
}

TEST_P(WeightsTest, RowSplitMatricesCoverTheirInputOnceAtEveryDegree) {
  const auto file = ModelFile::open(tiny_path(GetParam()));
  ASSERT_TRUE(file.ok());
  const int most = describe(*file)->heads >= 4 ? 4 : 2;
  for (int ranks = 1; ranks <= most; ranks *= 2) {
    const auto weights = load(tiny_path(GetParam()), WeightPool::kDecode, most, ranks);
    const ModelDescription& d = weights->description();
    int heads = 0;
    int ffn = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const RankWeights& r = weights->rank(rank);
      EXPECT_EQ(static_cast<int>(r.columns.attention_head.size()), r.columns.query_heads.count());
      for (const SegmentMatrix& s : r.layers[0].attn_output) {
        EXPECT_EQ(s.x_column, r.columns.attention_head[static_cast<size_t>(
                                  heads / d.head_dim - r.columns.query_heads.begin)]);
        EXPECT_EQ(s.weights.n(), d.hidden);
        heads += s.weights.k();
        EXPECT_LE(s.x_column + s.weights.padded_k(), r.columns.attention_columns);
      }
      for (const SegmentMatrix& s : r.layers[0].ffn_down) {
        EXPECT_EQ(s.x_column, ffn - r.columns.ffn.begin);
        ffn += s.weights.k();
        EXPECT_LE(s.x_column + s.weights.padded_k(), r.columns.ffn_columns);
      }
    }
    EXPECT_EQ(heads, d.heads * d.head_dim);
    EXPECT_EQ(ffn, d.ffn);
  }
}

TEST_P(WeightsTest, EmbedsRoundedRowsAndKeepsNormsExact) {
  const auto weights = load(tiny_path(GetParam()), WeightPool::kDecode, 1, 1);
  const ModelDescription& d = weights->description();
  const auto table = values_of(*weights, "token_embd.weight");
  std::vector<float> row(static_cast<size_t>(d.hidden));
  for (const int token : {0, 17, d.vocab - 1}) {
    weights->embed(token, row.data());
    EXPECT_EQ(row, table[static_cast<size_t>(token)]);
  }
  const TensorInfo* norm = weights->file().find_tensor("blk.1.ffn_norm.weight");
  if (norm != nullptr) {
    EXPECT_EQ(
        std::memcmp(weights->vectors(1).ffn_norm.data(), norm->data.data(), norm->data.size()), 0);
  }
  const TensorInfo* last = weights->file().find_tensor("output_norm.weight");
  EXPECT_EQ(std::memcmp(weights->output_norm().data(), last->data.data(), last->data.size()), 0);
}

TEST_P(WeightsTest, ReferenceLogitsBelongToTheModel) {
  const auto weights = load(tiny_path(GetParam()), WeightPool::kDecode, 1, 1);
  const auto prompts = read_reference_logits(BATON_SOURCE_DIR "/tests/data/models/" +
                                             std::string(GetParam()) + ".logits");
  ASSERT_EQ(prompts.size(), 4u);
  EXPECT_EQ(prompts[1].tokens.size(), 19u);
  EXPECT_EQ(prompts[1].rows.size(), 19u);
  EXPECT_EQ(prompts[3].rows[0].position, 299);
  EXPECT_EQ(static_cast<int>(prompts[3].rows[0].logits.size()), weights->description().vocab);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, WeightsTest, ::testing::ValuesIn(kTinyModels),
                         [](const auto& test) { return std::string(test.param); });

TEST(WeightsFormatTest, TheDecodePoolKeepsTheFilesBlocks) {
  using kernels::WeightFormat;
  const auto decode = load(tiny_path("tiny_q4_1"), WeightPool::kDecode, 1, 1);
  EXPECT_EQ(decode->rank(0).layers[0].qkv.parts[0].weights.format(),
            kernels::decode_format(kernels::SourceType::kQ4_1));
  EXPECT_EQ(decode->rank(0).head.parts[0].weights.format(), WeightFormat::kQ8);
  const auto prefill = load(tiny_path("tiny_q4_1"), WeightPool::kPrefill, 1, 1);
  EXPECT_EQ(prefill->rank(0).layers[0].qkv.parts[0].weights.format(), WeightFormat::kBf16Panels);
  EXPECT_EQ(prefill->rank(0).head.parts[0].weights.format(), WeightFormat::kQ8);
  EXPECT_GT(prefill->rank(0).bytes, 2 * decode->rank(0).bytes);
}

TEST(WeightsFormatTest, MixedTypesBecomePartsOfOneProjection) {
  const auto weights = load(tiny_path("tiny_kmix"), WeightPool::kDecode, 1, 1);
  const Projection& qkv = weights->rank(0).layers[0].qkv;
  ASSERT_EQ(qkv.parts.size(), 3u);
  EXPECT_EQ(qkv.parts[2].column, weights->rank(0).columns.v);
  EXPECT_EQ(&qkv.part_of(qkv.panels - 1), &qkv.parts[2]);
  EXPECT_EQ(&qkv.part_of(0), &qkv.parts[0]);
  EXPECT_EQ(qkv.columns, qkv.panels * kernels::kPanelRows);
}

// Heads of 16 elements: segment 1 of 2 starts at column 48, inside a block of the file.
TEST(WeightsFormatTest, ASegmentThatCutsABlockIsKeptAsBf16) {
  using kernels::WeightFormat;
  const auto weights = load(tiny_path("tiny_q4_0"), WeightPool::kDecode, 2, 1);
  const auto& segments = weights->rank(0).layers[0].attn_output;
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].weights.format(), kernels::decode_format(kernels::SourceType::kQ4_0));
  EXPECT_EQ(segments[1].weights.format(), WeightFormat::kBf16Panels);
  EXPECT_EQ(segments[1].x_column, 64);
  EXPECT_EQ(weights->rank(0).columns.attention_head[3], 64);
}

TEST(WeightsFormatTest, RopeTablesAreRoundedFromDouble) {
  const auto weights = load(tiny_path("tiny_q4_1"), WeightPool::kDecode, 1, 1);
  const auto table = weights->rope(0);
  ASSERT_EQ(table.dims, 32);
  EXPECT_TRUE(table.interleaved);
  for (const int position : {0, 1, 100, 511}) {
    for (const int i : {0, 1, 15}) {
      const double angle = position * std::pow(100000.0, -2.0 * i / 32);
      EXPECT_EQ(table.cos[position * 16 + i], static_cast<float>(std::cos(angle)));
      EXPECT_EQ(table.sin[position * 16 + i], static_cast<float>(std::sin(angle)));
    }
  }
}

TEST(WeightsFormatTest, PackingIsSharedOutAndGivesTheSameBytes) {
  const auto serial = load(tiny_path("tiny_q8_0"), WeightPool::kDecode, 1, 1);
  auto file = ModelFile::open(tiny_path("tiny_q8_0"));
  ASSERT_TRUE(file.ok());
  const auto description = *describe(*file);
  const auto plan = *SegmentPlan::create(description, 1, 1);
  int calls = 0;
  const ParallelFor backwards = [&](int n, const std::function<void(int)>& body) {
    for (int i = n - 1; i >= 0; --i) {
      body(i);
      ++calls;
    }
  };
  const auto other =
      Weights::load(std::move(*file), description, plan, WeightPool::kDecode, backwards);
  ASSERT_TRUE(other.ok());
  EXPECT_GT(calls, 10);
  const auto& a = serial->rank(0).layers[1].gate_up.parts[0].weights;
  const auto& b = (*other)->rank(0).layers[1].gate_up.parts[0].weights;
  ASSERT_EQ(a.bytes(), b.bytes());
  EXPECT_EQ(std::memcmp(a.panel(0), b.panel(0), a.bytes()), 0);
}

TEST(WeightsResidencyTest, ARankHoldsItsShareAndWhatIsReplicated) {
  const std::string path = BATON_SOURCE_DIR "/models/smollm2-135m-instruct-q4_1.gguf";
  const size_t whole = load(path, WeightPool::kDecode, 2, 1)->rank(0).bytes;
  const auto halves = load(path, WeightPool::kDecode, 2, 2);
  for (int rank = 0; rank < 2; ++rank) {
    const RankWeights& r = halves->rank(rank);
    std::printf("rank %d of 2: %zu bytes, %zu of them replicated; whole %zu\n", rank, r.bytes,
                r.replicated_bytes, whole);
    EXPECT_LE(r.bytes, whole / 2 + r.replicated_bytes);
    EXPECT_GT(r.replicated_bytes, 0u);
  }
}

}  // namespace
}  // namespace baton::model
