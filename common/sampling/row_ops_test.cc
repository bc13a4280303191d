#include "common/sampling/row_ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/kernels/math/exp.h"

namespace baton::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_row(SeededRandom& random, int n, float magnitude) {
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) {
    x = magnitude * static_cast<float>(static_cast<int32_t>(random.next() >> 32)) * 0x1p-31f;
  }
  return row;
}

class RowOpsTest : public ::testing::TestWithParam<device::Isa> {
 protected:
  const RowOps& ops_ = row_ops(GetParam());
  SeededRandom random_{7};
};

INSTANTIATE_TEST_SUITE_P(Levels, RowOpsTest, ::testing::ValuesIn(device::available_isas()),
                         [](const auto& level) { return std::string(isa_name(level.param)); });

constexpr int kSizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 511, 512, 513, 1000, 4099};

TEST_P(RowOpsTest, FindsNanAndInfinityAnywhere) {
  for (const int n : kSizes) {
    std::vector<float> row = random_row(random_, n, 10.0f);
    row[0] = -kInf;
    EXPECT_TRUE(ops_.is_bounded(row.data(), n));
    for (const float bad : {kInf, std::numeric_limits<float>::quiet_NaN()}) {
      for (const int at : {0, n / 2, n - 1}) {
        std::vector<float> spoilt = row;
        spoilt[static_cast<size_t>(at)] = bad;
        EXPECT_FALSE(ops_.is_bounded(spoilt.data(), n)) << n << " " << at;
      }
    }
  }
}

TEST_P(RowOpsTest, KeepsThoseWhoseBitIsSet) {
  for (const int n : kSizes) {
    const std::vector<float> row = random_row(random_, n, 10.0f);
    std::vector<uint64_t> words(static_cast<size_t>(n + 63) / 64);
    for (uint64_t& word : words) {
      word = random_.next();
    }
    words[0] |= 1;
    std::vector<float> kept = row;
    ops_.keep(kept.data(), n, words.data());
    for (size_t i = 0; i < row.size(); ++i) {
      ASSERT_EQ(kept[i], (words[i / 64] >> (i % 64) & 1) != 0 ? row[i] : -kInf) << n << " " << i;
    }
  }
}

TEST_P(RowOpsTest, DividesAndTakesTheMaximumOfEveryChunk) {
  for (const int n : kSizes) {
    for (const float divisor : {1.0f, 0.7f, 3.0f}) {
      const std::vector<float> row = random_row(random_, n, 30.0f);
      std::vector<float> divided = row;
      std::vector<float> maxima(static_cast<size_t>(chunk_count(n)));
      ops_.divide_and_maxima(divided.data(), n, divisor, maxima.data());
      std::vector<float> expected(maxima.size(), -kInf);
      for (size_t i = 0; i < row.size(); ++i) {
        ASSERT_EQ(divided[i], row[i] / divisor);
        expected[i / kChunk] = std::max(expected[i / kChunk], divided[i]);
      }
      EXPECT_EQ(maxima, expected);
      std::vector<float> again(maxima.size());
      ops_.maxima_of(divided.data(), n, again.data());
      EXPECT_EQ(again, expected);
    }
  }
}

TEST_P(RowOpsTest, WeighsWithTheDefinedSums) {
  for (const int n : kSizes) {
    std::vector<float> row = random_row(random_, n, 60.0f);
    row[static_cast<size_t>(n / 2)] = -kInf;
    const float max = *std::max_element(row.begin(), row.end());
    if (max == -kInf) {
      continue;
    }
    std::vector<float> weights(row.size());
    std::vector<float> sums(static_cast<size_t>(block_count(n)));
    ops_.weigh(row.data(), n, max, weights.data(), sums.data());
    for (size_t block = 0; block < sums.size(); ++block) {
      float partial[16] = {};
      for (size_t j = 0; j < kBlock && block * kBlock + j < row.size(); ++j) {
        const size_t i = block * kBlock + j;
        ASSERT_EQ(std::bit_cast<uint32_t>(weights[i]),
                  std::bit_cast<uint32_t>(kernels::exp_canonical(row[i] - max)));
        partial[j % 16] += weights[i];
      }
      for (int half = 8; half >= 1; half /= 2) {
        for (int i = 0; i < half; ++i) {
          partial[i] += partial[i + half];
        }
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(sums[block]), std::bit_cast<uint32_t>(partial[0]));
    }
  }
}

}  // namespace
}  // namespace baton::sampling
