#include "common/kernels/small/small_ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/device/compute_team.h"
#include "common/kernels/math/exp.h"

namespace baton::kernels {
namespace {

using device::Isa;

std::vector<float> random_floats(SeededRandom& random, size_t n, float magnitude) {
  std::vector<float> v(n);
  for (float& x : v) {
    const auto bits = static_cast<int32_t>(random.next() >> 32);
    x = magnitude * static_cast<float>(bits) * 0x1p-31f;
  }
  return v;
}

class SmallOpsTest : public ::testing::TestWithParam<Isa> {
 protected:
  device::FlushDenormals flush_;
  SeededRandom random_{20240607};
};

INSTANTIATE_TEST_SUITE_P(Levels, SmallOpsTest, ::testing::ValuesIn(device::available_isas()),
                         [](const auto& level) { return std::string(isa_name(level.param)); });

float fold(float (&partial)[16]) {
  for (int half : {8, 4, 2, 1}) {
    for (int i = 0; i < half; ++i) {
      partial[i] = partial[i] + partial[i + half];
    }
  }
  return partial[0];
}

float reference_inverse(const float* x, size_t n, float eps) {
  float partial[16] = {};
  for (size_t j = 0; j < n; ++j) {
    partial[j % 16] = std::fma(x[j], x[j], partial[j % 16]);
  }
  return 1.0f / std::sqrt(fold(partial) / static_cast<float>(n) + eps);
}

// Straight from docs/numerics.md. `part_weight` may be empty.
void reference_norm(std::vector<float>& residual, const std::vector<std::vector<float>>& parts,
                    const std::vector<float>& part_weight, const std::vector<float>& weight,
                    float eps, std::vector<uint16_t>& x) {
  const size_t n = residual.size();
  if (!parts.empty()) {
    std::vector<float> sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      for (size_t j = 0; j < n; ++j) {
        sum[j] = sum[j] + parts[i][j];
      }
    }
    const float inverse = reference_inverse(sum.data(), n, eps);
    for (size_t j = 0; j < n; ++j) {
      residual[j] =
          residual[j] + (part_weight.empty() ? sum[j] : (sum[j] * inverse) * part_weight[j]);
    }
  }
  const float inverse = reference_inverse(residual.data(), n, eps);
  for (size_t j = 0; j < n; ++j) {
    x[j] = bf16_from_float((residual[j] * inverse) * weight[j]);
  }
}

TEST_P(SmallOpsTest, NormAddsPartsInOrderAndRoundsOnce) {
  for (int n : {1, 7, 16, 31, 64, 100, 576, 1536}) {
    // Negative: that many parts, whose sum is normed before it is added.
    for (int kind : {0, 1, 4, -1, -4}) {
      const int part_count = std::abs(kind);
      const std::vector<float> part_weight =
          kind < 0 ? random_floats(random_, n, 2.0f) : std::vector<float>();
      const int rows = 3;
      const int x_stride = n + 9;
      const int part_stride = n + 5;
      std::vector<float> residual = random_floats(random_, size_t(rows) * n, 4.0f);
      const std::vector<float> weight = random_floats(random_, n, 2.0f);
      std::vector<std::vector<float>> parts;
      std::vector<const float*> pointers;
      for (int i = 0; i < part_count; ++i) {
        parts.push_back(random_floats(random_, size_t(rows) * part_stride, 1.0f));
      }
      for (const auto& part : parts) {
        pointers.push_back(part.data());
      }
      std::vector<float> got = residual;
      std::vector<uint16_t> x(size_t(rows) * x_stride, 0xFFFF);
      ResidualNormParams p{.residual = got.data(),
                           .parts = pointers,
                           .part_stride = part_stride,
                           .part_weight = kind < 0 ? part_weight.data() : nullptr,
                           .weight = weight.data(),
                           .x = x.data(),
                           .x_stride = x_stride,
                           .n = n,
                           .eps = 1e-5f};
      residual_norm(GetParam(), p, 1, rows);  // row 0 stays
      EXPECT_EQ(x[0], 0xFFFF);
      EXPECT_EQ(got[0], residual[0]);
      for (int row = 1; row < rows; ++row) {
        std::vector<float> expected(residual.begin() + row * n, residual.begin() + (row + 1) * n);
        std::vector<std::vector<float>> row_parts;
        for (const auto& part : parts) {
          const auto begin = part.begin() + row * part_stride;
          row_parts.emplace_back(begin, begin + n);
        }
        std::vector<uint16_t> expected_x(x_stride, 0);
        reference_norm(expected, row_parts, part_weight, weight, p.eps, expected_x);
        EXPECT_EQ(std::memcmp(expected.data(), got.data() + row * n, sizeof(float) * n), 0);
        EXPECT_EQ(std::memcmp(expected_x.data(), x.data() + row * x_stride, 2 * x_stride), 0)
            << "n " << n << " parts " << kind;
      }
    }
  }
}

TEST_P(SmallOpsTest, NormWithoutWeightOnlyAdds) {
  const int n = 37;
  std::vector<float> residual = random_floats(random_, n, 1.0f);
  const std::vector<float> part = random_floats(random_, n, 1.0f);
  std::vector<float> expected(n);
  for (int j = 0; j < n; ++j) {
    expected[j] = residual[j] + part[j];
  }
  const float* parts[] = {part.data()};
  ResidualNormParams p{.residual = residual.data(), .parts = parts, .part_stride = n, .n = n};
  residual_norm(GetParam(), p, 0, 1);
  EXPECT_EQ(residual, expected);
}

TEST_P(SmallOpsTest, GatedFollowsItsDefinition) {
  for (int n : {1, 5, 8, 16, 45, 1536}) {
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      const int rows = 2;
      const int stride = n + 3;
      const int h_stride = n + 11;
      std::vector<float> gate = random_floats(random_, size_t(rows) * stride, 20.0f);
      gate[0] = -200.0f;
      const std::vector<float> up = random_floats(random_, size_t(rows) * stride, 3.0f);
      std::vector<uint16_t> h(size_t(rows) * h_stride, 0xFFFF);
      GatedParams p{.activation = activation,
                    .gate = gate.data(),
                    .up = up.data(),
                    .stride = stride,
                    .h = h.data(),
                    .h_stride = h_stride,
                    .n = n};
      gated(GetParam(), p, 0, rows);
      for (int row = 0; row < rows; ++row) {
        for (int j = 0; j < h_stride; ++j) {
          float expected = 0;
          if (j < n) {
            const float g = gate[row * stride + j];
            const float silu = g / (1.0f + exp_canonical(-g));
            const float gelu = gelu_canonical<ScalarLanes>(g);
            expected = (activation == Activation::kSilu ? silu : gelu) * up[row * stride + j];
          }
          EXPECT_EQ(float_from_bf16(h[row * h_stride + j]),
                    float_from_bf16(bf16_from_float(expected)))
              << "n " << n << " row " << row << " column " << j;
        }
      }
    }
  }
}

TEST_P(SmallOpsTest, ExpGivesTheBitsOfTheScalarOne) {
  std::vector<float> x = random_floats(random_, 20011, 95.0f);
  const float inf = std::numeric_limits<float>::infinity();
  const float special[] = {0.0f, -0.0f, inf, -inf, kExpLowest, kExpHighest, -88.0f, 89.0f};
  x.insert(x.end(), std::begin(special), std::end(special));
  for (float shift : {0.0f, 3.25f}) {
    std::vector<float> out(x.size());
    exp_minus(GetParam(), x.data(), shift, out.data(), static_cast<int>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]),
                std::bit_cast<uint32_t>(exp_canonical(x[i] - shift)))
          << x[i];
    }
  }
  float nan = std::numeric_limits<float>::quiet_NaN();
  exp_minus(GetParam(), &nan, 0.0f, &nan, 1);
  EXPECT_TRUE(std::isnan(nan));
}

struct RopeCase {
  int dim, rotated, block_tokens, q_heads, kv_heads;
  bool interleaved;
  bool bias = false;
  bool norm = false;
};

class RopeData {
 public:
  static constexpr int kRows = 5;
  static constexpr int kPositions = 130;
  static constexpr int kBlocks = 6;

  RopeData(const RopeCase& c, SeededRandom& random) : shape_(c) {
    stride_ = (c.q_heads + 2 * c.kv_heads) * c.dim + 7;
    qkv_ = random_floats(random, size_t(kRows) * stride_, 8.0f);
    cos_ = random_floats(random, size_t(kPositions) * c.rotated / 2, 1.0f);
    sin_ = random_floats(random, size_t(kPositions) * c.rotated / 2, 1.0f);
    bias_ = random_floats(random, size_t(c.q_heads + 2 * c.kv_heads) * c.dim, 2.0f);
    norm_ = random_floats(random, size_t(2) * c.dim, 2.0f);
    view_ = {.block_tokens = c.block_tokens, .kv_heads = c.kv_heads, .head_dim = c.dim};
    view_.block_stride = 2 * view_.half_bytes() + 64;
    pool_.assign(view_.block_stride * kBlocks, std::byte{0xFF});
    view_.base = pool_.data();
    q_.assign(size_t(kRows) * c.q_heads * c.dim, 0xFFFF);
  }

  void store(Isa isa) {
    QkvParams p{.qkv = qkv_.data(),
                .qkv_stride = stride_,
                .q_column = 0,
                .k_column = shape_.q_heads * shape_.dim,
                .v_column = (shape_.q_heads + shape_.kv_heads) * shape_.dim + 7,
                .q_heads = shape_.q_heads,
                .q_bias = shape_.bias ? bias_.data() : nullptr,
                .k_bias = shape_.bias ? bias_.data() + shape_.q_heads * shape_.dim : nullptr,
                .v_bias = shape_.bias
                              ? bias_.data() + (shape_.q_heads + shape_.kv_heads) * shape_.dim
                              : nullptr,
                .q_norm = shape_.norm ? norm_.data() : nullptr,
                .k_norm = shape_.norm ? norm_.data() + shape_.dim : nullptr,
                .eps = 1e-5f,
                .q_out = q_.data(),
                .q_stride = shape_.q_heads * shape_.dim,
                .kv = view_,
                .rope = {.cos = cos_.data(),
                         .sin = sin_.data(),
                         .dims = shape_.rotated,
                         .interleaved = shape_.interleaved},
                .positions = positions_,
                .slot_block = blocks_};
    rope_and_store(isa, p, 0, kRows);
  }

  // Value d of a head of q or k, heads counted through both, rotated.
  uint16_t rotated(int row, int head, int d) const {
    const std::vector<float> x = prepared(row, head);
    const int half = shape_.rotated / 2;
    if (d >= shape_.rotated) {
      return bf16_from_float(x[d]);
    }
    const int pair = shape_.interleaved ? d / 2 : d % half;
    const bool second = shape_.interleaved ? d % 2 == 1 : d >= half;
    const float x0 = x[shape_.interleaved ? 2 * pair : pair];
    const float x1 = x[shape_.interleaved ? 2 * pair + 1 : pair + half];
    const float c = cos_[positions_[row] * half + pair];
    const float s = sin_[positions_[row] * half + pair];
    return bf16_from_float(second ? std::fma(x1, c, x0 * s) : std::fma(x0, c, -(x1 * s)));
  }

  // The same before RoPE.
  std::vector<float> prepared(int row, int head) const {
    const float* in = qkv_.data() + row * stride_ + head * shape_.dim;
    std::vector<float> x(in, in + shape_.dim);
    for (int d = 0; d < shape_.dim && shape_.bias; ++d) {
      x[d] = x[d] + bias_[head * shape_.dim + d];
    }
    if (shape_.norm) {
      const float* weight = norm_.data() + (head < shape_.q_heads ? 0 : shape_.dim);
      const float inverse = reference_inverse(x.data(), x.size(), 1e-5f);
      for (int d = 0; d < shape_.dim; ++d) {
        x[d] = (x[d] * inverse) * weight[d];
      }
    }
    return x;
  }

  void check() const {
    size_t touched = 0;
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < shape_.q_heads * shape_.dim; ++i) {
        ASSERT_EQ(q_[row * shape_.q_heads * shape_.dim + i],
                  rotated(row, i / shape_.dim, i % shape_.dim));
      }
      for (int head = 0; head < shape_.kv_heads; ++head) {
        check_slot(row, head);
        touched += 4 * shape_.dim;
      }
    }
    size_t written = 0;
    for (std::byte b : pool_) {
      written += b != std::byte{0xFF};
    }
    EXPECT_LE(written, touched);  // nothing else was written
  }

 private:
  void check_slot(int row, int head) const {
    const int slot = positions_[row] % shape_.block_tokens;
    const auto* k = reinterpret_cast<const uint16_t*>(view_.k_group(blocks_[row], head, slot / 32));
    const auto* v = reinterpret_cast<const uint16_t*>(view_.v_group(blocks_[row], head, slot / 32));
    const int s = slot % 32;
    for (int d = 0; d < shape_.dim; ++d) {
      const int v_head = shape_.q_heads + shape_.kv_heads + head;
      ASSERT_EQ(k[(d / 2) * 64 + s * 2 + d % 2], rotated(row, shape_.q_heads + head, d));
      const float v_in = qkv_[row * stride_ + v_head * shape_.dim + 7 + d];
      const float bias = shape_.bias ? bias_[v_head * shape_.dim + d] : 0.0f;
      ASSERT_EQ(v[(s / 2) * shape_.dim * 2 + d * 2 + s % 2], bf16_from_float(v_in + bias));
    }
  }

  RopeCase shape_;
  int stride_ = 0;
  std::vector<float> qkv_, cos_, sin_, bias_, norm_;
  KvLayerView view_;
  std::vector<std::byte> pool_;
  std::vector<uint16_t> q_;
  int32_t positions_[kRows] = {0, 1, 31, 66, 129};
  BlockId blocks_[kRows] = {5, 5, 5, 0, 3};
};

TEST_P(SmallOpsTest, RopeWritesQueriesAndPairedKeysAndValues) {
  const RopeCase cases[] = {{64, 64, 32, 3, 1, true},
                            {64, 64, 64, 2, 2, false},
                            {80, 20, 32, 1, 2, true},
                            {80, 36, 32, 1, 1, false},
                            {2, 2, 32, 2, 1, true},
                            {256, 256, 128, 2, 1, true},
                            {128, 128, 32, 4, 2, false},
                            {64, 64, 32, 3, 1, false, true, false},
                            {50, 50, 32, 2, 1, true, true, true},
                            {256, 256, 32, 2, 1, false, false, true},
                            {38, 38, 32, 2, 2, false, true, true},
                            {2, 2, 32, 2, 1, true, true, true}};
  for (const RopeCase& c : cases) {
    SCOPED_TRACE(std::to_string(c.dim) + " rotated " + std::to_string(c.rotated));
    RopeData data(c, random_);
    data.store(GetParam());
    data.check();
  }
}

TEST(SmallOpsDeathTest, RefusesShapesThatDoNotFit) {
  const ResidualNormParams odd{.n = 0};
  EXPECT_DEATH(residual_norm(Isa::kScalar, odd, 0, 1), "n must be positive");
  const QkvParams wide{.kv = {.kv_heads = 1, .head_dim = 2 * kMaxHeadDim}};
  EXPECT_DEATH(rope_and_store(Isa::kScalar, wide, 0, 1), "at most kMaxHeadDim");
  const GatedParams narrow{.h_stride = 1, .n = 2};
  EXPECT_DEATH(gated(Isa::kScalar, narrow, 0, 1), "shorter than n");
}

TEST(Bf16Test, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(bf16_from_float(1.0f), 0x3F80);
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0x3F808000u)), 0x3F80);  // half, down to even
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0x3F818000u)), 0x3F82);  // half, up to even
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(bf16_from_float(-std::numeric_limits<float>::infinity()), 0xFF80);
  EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_EQ(float_from_bf16(0xC040), -3.0f);
}

}  // namespace
}  // namespace baton::kernels
