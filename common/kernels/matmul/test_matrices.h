#pragma once

// Random matrices in every source type, for tests and the benchmark.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/kernels/matmul/matmul.h"

namespace baton::kernels {

// In the order in which Baton learned them: packed bytes of the earlier ones do not change.
inline constexpr std::array kAllSourceTypes = {
    SourceType::kF32,  SourceType::kF16,   SourceType::kBf16,  SourceType::kQ4_0, SourceType::kQ4_1,
    SourceType::kQ8_0, SourceType::kQ4_K,  SourceType::kQ5_K,  SourceType::kQ6_K, SourceType::kQ5_0,
    SourceType::kQ5_1, SourceType::kIq4Nl, SourceType::kIq4Xs, SourceType::kMxfp4};

inline std::string source_type_name(SourceType type) {
  constexpr std::array kNames = {"F32",  "F16",  "BF16", "Q4_0", "Q4_1",   "Q5_0",   "Q5_1",
                                 "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};
  return kNames[static_cast<size_t>(type)];
}

// splitmix64 (https://prng.di.unimi.it/splitmix64.c).
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
  float unit() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f; }  // [-1, 1)

 private:
  uint64_t state_;
};

struct TestMatrix {
  SourceType type;
  int n;
  int k;
  std::vector<std::byte> bytes;

  const std::byte* row(int i) const {
    return bytes.data() + source_row_bytes(type, k) * static_cast<size_t>(i);
  }
  std::vector<const std::byte*> rows() const {
    std::vector<const std::byte*> out;
    for (int i = 0; i < n; ++i) {
      out.push_back(row(i));
    }
    return out;
  }
};

// A finite f16 of moderate size, denormal now and then.
inline uint16_t random_half(TestRandom& random) {
  const auto sign_and_fraction = static_cast<uint16_t>(random.next() & 0x83FF);
  return static_cast<uint16_t>(sign_and_fraction | (random.below(20) << 10));
}

// Where a block of the type holds f16 values; every other byte is a code and may be anything.
inline std::vector<size_t> half_offsets(SourceType type) {
  switch (type) {
    case SourceType::kQ4_0:
    case SourceType::kQ5_0:
    case SourceType::kQ8_0:
    case SourceType::kIq4Nl:
    case SourceType::kIq4Xs:
      return {0};
    case SourceType::kQ4_1:
    case SourceType::kQ5_1:
    case SourceType::kQ4_K:
    case SourceType::kQ5_K:
      return {0, 2};
    case SourceType::kQ6_K:
      return {208};
    case SourceType::kF32:
    case SourceType::kF16:
    case SourceType::kBf16:
    case SourceType::kMxfp4:
      return {};
  }
  return {};
}

inline void store_element(std::byte* p, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    p[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

inline TestMatrix random_matrix(TestRandom& random, SourceType type, int n, int k) {
  TestMatrix m{type, n, k, {}};
  m.bytes.resize(source_row_bytes(type, k) * static_cast<size_t>(n));
  for (std::byte& b : m.bytes) {
    b = static_cast<std::byte>(random.next());
  }
  const size_t element = source_row_bytes(type, source_block_elements(type));
  for (size_t at = 0; at < m.bytes.size(); at += element) {
    for (const size_t offset : half_offsets(type)) {
      store_element(m.bytes.data() + at + offset, random_half(random), 2);
    }
    const auto bits = std::bit_cast<uint32_t>(random.unit());
    if (type == SourceType::kF32) {
      store_element(m.bytes.data() + at, bits, 4);
    } else if (type == SourceType::kMxfp4) {
      // Scales around one: 2^(e - 128).
      m.bytes[at] = static_cast<std::byte>(100 + random.below(40));
    } else if (type == SourceType::kF16) {
      store_element(m.bytes.data() + at, random_half(random), 2);
    } else if (type == SourceType::kBf16) {
      store_element(m.bytes.data() + at, bits >> 16, 2);
    }
  }
  return m;
}

// [rows, stride] bf16 in [-1, 1), zero from k up to the next multiple of 32, poison beyond.
inline std::vector<uint16_t> random_activations(TestRandom& random, int rows, int k, int stride) {
  std::vector<uint16_t> x(static_cast<size_t>(rows) * static_cast<size_t>(stride), 0xFFFF);
  const int padded = (k + 31) / 32 * 32;
  for (int r = 0; r < rows; ++r) {
    uint16_t* row = x.data() + static_cast<size_t>(r) * static_cast<size_t>(stride);
    for (int i = 0; i < padded; ++i) {
      row[i] =
          i < k ? static_cast<uint16_t>(std::bit_cast<uint32_t>(random.unit()) >> 16) : uint16_t{0};
    }
  }
  return x;
}

// Finite, of any exponent; a quarter of them denormal, some at the far ends.
inline uint16_t random_extreme_bf16(TestRandom& random) {
  const auto sign_and_fraction = static_cast<uint16_t>(random.next() & 0x807F);
  const int exponents[] = {0, random.below(255), 60 + random.below(10), 1 + random.below(4)};
  return static_cast<uint16_t>(sign_and_fraction | (exponents[random.below(4)] << 7));
}

inline void fill_with_extreme_values(TestRandom& random, TestMatrix& m) {
  const size_t size = source_row_bytes(m.type, 1);
  for (size_t at = 0; at < m.bytes.size(); at += size) {
    const uint64_t bf16 = random_extreme_bf16(random);
    const uint64_t bits = size == 4 ? (bf16 << 16) | (random.next() & 0xFFFF) : bf16;
    store_element(m.bytes.data() + at, bits, size);
  }
}

}  // namespace baton::kernels
