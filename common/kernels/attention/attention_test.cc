#include "common/kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/device/compute_team.h"
#include "common/device/cpu_info.h"
#include "common/kernels/attention/attention_levels.h"
#include "common/kernels/attention/test_sequence.h"
#include "common/kernels/small/small_ops.h"

namespace baton::kernels {
namespace {

using device::Isa;

class AttentionTest : public ::testing::TestWithParam<Isa> {
 protected:
  auto kernel() const {
    return [isa = GetParam()](const AttentionParams& p, int begin, int end, std::byte* scratch) {
      attention(isa, p, begin, end, scratch);
    };
  }

  device::FlushDenormals flush_;
  SeededRandom random_{99};
};

INSTANTIATE_TEST_SUITE_P(Levels, AttentionTest, ::testing::ValuesIn(device::available_isas()),
                         [](const auto& level) { return std::string(isa_name(level.param)); });

TEST_P(AttentionTest, GivesTheBitsOfTheDefinitionAtEdges) {
  for (const Shape& shape : kEdgeShapes) {
    Sequence s(shape, random_);
    expect_reference(s, s.run_all(kernel()));
  }
}

TEST_P(AttentionTest, GivesTheBitsOfTheDefinitionForRandomShapes) {
  for (int i = 0; i < 25; ++i) {
    Sequence s(random_shape(random_), random_);
    expect_reference(s, s.run_all(kernel()));
  }
}

TEST_P(AttentionTest, SeesNothingOutsideTheWindow) {
  for (const Shape& shape : kWindowShapes) {
    Sequence s(shape, random_);
    expect_reference(s, s.run_all(kernel()));
  }
  for (int i = 0; i < 25; ++i) {
    Sequence s(random_window_shape(random_), random_);
    expect_reference(s, s.run_all(kernel()));
  }
}

// What attention() takes at the AVX-512 level where the CPU has no bf16 dot product.
TEST(AttentionFmaTest, GivesTheBitsOfTheDefinition) {
  if (!device::cpu_info().avx512) {
    return;
  }
  const device::FlushDenormals flush;
  const auto kernel = [](const AttentionParams& p, int begin, int end, std::byte* scratch) {
    attention_with(kAttentionTileAvx512, p, begin, end, scratch);
  };
  SeededRandom random(98);
  std::vector<Shape> shapes(std::begin(kEdgeShapes), std::end(kEdgeShapes));
  shapes.insert(shapes.end(), std::begin(kWindowShapes), std::end(kWindowShapes));
  for (int i = 0; i < 25; ++i) {
    shapes.push_back(random_shape(random));
    shapes.push_back(random_window_shape(random));
  }
  for (const Shape& shape : shapes) {
    Sequence s(shape, random);
    expect_reference(s, s.run_all(kernel));
  }
}

TEST_P(AttentionTest, AWindowOfTheWholeContextChangesNothing) {
  Shape shape{6, 700, 64, 3, 32};
  SeededRandom same(5);
  const std::vector<uint16_t> full = Sequence(shape, same).run_all(kernel());
  shape.window = 700;
  SeededRandom again(5);
  EXPECT_EQ(Sequence(shape, again).run_all(kernel()), full);
}

TEST_P(AttentionTest, RowsDoNotDependOnTheirCompany) {
  for (const Shape& shape : {Shape{40, 540, 64, 3, 32}, Shape{37, 37, 80, 5, 64},
                             Shape{40, 560, 64, 3, 32, 0.125f, 33}}) {
    Sequence s(shape, random_);
    const std::vector<uint16_t> all = s.run_all(kernel());
    std::vector<uint16_t> single(all.size(), 0x7FFF);
    std::vector<uint16_t> pieces(all.size(), 0x7FFF);
    std::vector<uint16_t> chunks(all.size(), 0x7FFF);
    for (int row = 0; row < shape.rows; ++row) {
      s.run(kernel(), row, 1, 0, 1, single);  // a decode step each
    }
    for (int row = 0; row < shape.rows; row += 7) {  // work items of one step
      s.run(kernel(), 0, shape.rows, row, std::min(row + 7, shape.rows), pieces);
    }
    for (int row = 0; row < shape.rows; row += 19) {  // prefill chunks
      const int rows = std::min(19, shape.rows - row);
      s.run(kernel(), row, rows, 0, rows, chunks);
    }
    EXPECT_EQ(single, all);
    EXPECT_EQ(pieces, all);
    EXPECT_EQ(chunks, all);
  }
}

// The splits of a tile as several work items, done in any order.
TEST_P(AttentionTest, PartsGiveTheSameBits) {
  for (const Shape& shape :
       {Shape{1, 1500, 64, 3, 32}, Shape{3, 514, 16, 5, 32}, Shape{2, 2100, 80, 8, 64},
        Shape{1, 30, 64, 3, 32}, Shape{2, 1030, 80, 5, 128, 0.125f, 600},
        Shape{1, 1025, 64, 3, 64, 0.125f, 64}}) {
    Sequence s(shape, random_);
    const int splits = attention_splits(shape.context);
    const int pairs = shape.rows * shape.heads;
    for (const int items : {1, 2, splits}) {
      const auto in_parts = [&](const AttentionParams& p, int begin, int end, std::byte* scratch) {
        const size_t size = attention_parts_size(shape.dim, pairs, shape.context);
        const Scratch memory(size * sizeof(float));
        auto* parts = reinterpret_cast<float*>(memory.data());
        for (int i = items - 1; i >= 0; --i) {
          attention_part(GetParam(), p,
                         {begin, end, {splits * i / items, splits * (i + 1) / items}}, parts,
                         scratch);
        }
        attention_merge(GetParam(), p, begin, end, parts);
      };
      EXPECT_EQ(s.run_all(in_parts), s.run_all(kernel())) << shape.text() << " items " << items;
    }
  }
}

// Softmax attention in double over the same bf16 inputs. Rounding the probabilities costs 2^-9 of
// each weight and of their sum, the output 2^-9 more; values are below 4.
TEST_P(AttentionTest, StaysCloseToSoftmaxInDouble) {
  const Shape shape{4, 1100, 64, 3, 32};
  Sequence s(shape, random_);
  const std::vector<uint16_t> out = s.run_all(kernel());
  double worst = 0;
  for (int row = 0; row < shape.rows; ++row) {
    for (int head = 0; head < shape.heads; ++head) {
      const int visible = s.first_position() + row + 1;
      std::vector<double> w(visible);
      double total = 0;
      for (int j = 0; j < visible; ++j) {
        double score = 0;
        for (int d = 0; d < shape.dim; ++d) {
          score += double{s.query(row, head, d)} * double{float_from_bf16(s.key(j, d))};
        }
        w[j] = std::exp(score * shape.scale);
        total += w[j];
      }
      for (int d = 0; d < shape.dim; ++d) {
        double o = 0;
        for (int j = 0; j < visible; ++j) {
          o += w[j] / total * double{float_from_bf16(s.value(j, d))};
        }
        const uint16_t got = out[size_t(row) * s.out_stride() + (1 + head) * shape.dim + d];
        worst = std::max(worst, std::fabs(o - double{float_from_bf16(got)}));
      }
    }
  }
  EXPECT_LT(worst, 4.0 * 3 / 512);
}

// At most the order of sums is another: a probability or an output may round to its neighbour.
TEST_P(AttentionTest, TheFastArithmeticStaysClose) {
  const auto fast = [](AttentionParams p, int begin, int end, std::byte* scratch) {
    p.arithmetic = Arithmetic::kFast;
    attention(GetParam(), p, begin, end, scratch);
  };
  std::vector<Shape> shapes(std::begin(kEdgeShapes), std::end(kEdgeShapes));
  shapes.insert(shapes.end(), std::begin(kWindowShapes), std::end(kWindowShapes));
  for (int i = 0; i < 25; ++i) {
    shapes.push_back(random_shape(random_));
  }
  double worst = 0;
  for (const Shape& shape : shapes) {
    Sequence s(shape, random_);
    const std::vector<uint16_t> expected = s.run_all(kernel());
    const std::vector<uint16_t> got = s.run_all(fast);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] != expected[i]) {
        worst = std::max(worst, std::fabs(double{float_from_bf16(got[i])} -
                                          double{float_from_bf16(expected[i])}));
        ASSERT_LT(worst, 4.0 * 3 / 512) << "value " << i;
      }
    }
  }
  EXPECT_EQ(worst > 0, GetParam() == Isa::kAvx512 && has_bf16_dot(Arithmetic::kFast) &&
                           !has_bf16_dot(Arithmetic::kCanonical));
}

TEST_P(AttentionTest, SurvivesScoresThatOverflowExp) {
  Shape shape{2, 700, 32, 2, 32};
  shape.scale = 1000.0f;
  Sequence s(shape, random_);
  expect_reference(s, s.run_all(kernel()));
}

TEST(AttentionDeathTest, RefusesABlockTableThatEndsTooEarly) {
  AttentionParams p{.rows = 1, .first_position = 32, .q_head_end = 1, .scale = 1.0f};
  const BlockId blocks[] = {0};
  p.blocks = blocks;
  p.kv = {.block_tokens = 32, .kv_heads = 1, .head_dim = 64};
  EXPECT_DEATH(attention(Isa::kScalar, p, 0, 1, nullptr), "ends before the last visible key");
}

TEST(AttentionGrainTest, IsATileOfPairs) {
  for (Isa isa : device::available_isas()) {
    EXPECT_GE(attention_row_grain(isa, 1), 16);
    EXPECT_GE(attention_row_grain(isa, 3), 1);
    EXPECT_EQ(attention_row_grain(isa, 100), 1);
  }
}

}  // namespace
}  // namespace baton::kernels
