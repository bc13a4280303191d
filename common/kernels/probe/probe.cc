#include "common/kernels/probe/probe.h"

#include <array>
#include <cmath>
#include <cstring>

#include "common/kernels/math/arithmetic.h"
#include "common/kernels/probe/probe_levels.h"

namespace baton::kernels {
namespace {

using PeakLoop = double (*)(int64_t rounds);
using ReadLoop = uint64_t (*)(const std::byte* data, size_t bytes);

PeakLoop peak_loop_of(device::Isa isa) {
  switch (isa) {
    case device::Isa::kScalar:
      return scalar_peak_loop;
    case device::Isa::kAvx2:
      return avx2_peak_loop;
    case device::Isa::kAvx512:
      return has_bf16_dot(Arithmetic::kCanonical) ? avx512_dot_peak_loop : avx512_peak_loop;
    case device::Isa::kAmx:
      return amx_peak_loop;
  }
  return scalar_peak_loop;
}

ReadLoop read_loop_of(device::Isa isa) {
  switch (isa) {
    case device::Isa::kScalar:
      return scalar_read;
    case device::Isa::kAvx2:
      return avx2_read;
    case device::Isa::kAvx512:
    case device::Isa::kAmx:
      return avx512_read;
  }
  return scalar_read;
}

// Keeps the compiler from seeing that nobody reads the value.
void consume(uint64_t value) { asm volatile("" : : "r"(value)); }

}  // namespace

double scalar_peak_loop(int64_t rounds) {
  std::array<float, 8> sums{};
  float one = 1.0f;
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(one));
    for (float& sum : sums) {
      sum = std::fma(one, one, sum);
    }
  }
  for (const float sum : sums) {
    asm volatile("" : : "x"(sum));
  }
  return 2.0 * static_cast<double>(sums.size());
}

uint64_t scalar_read(const std::byte* data, size_t bytes) {
  std::array<uint64_t, 8> sums{};
  for (size_t at = 0; at + 64 <= bytes; at += 64) {
    std::array<uint64_t, 8> words;
    std::memcpy(words.data(), data + at, sizeof(words));
    for (size_t i = 0; i < words.size(); ++i) {
      sums[i] ^= words[i];
    }
  }
  uint64_t all = 0;
  for (const uint64_t sum : sums) {
    all ^= sum;
  }
  return all;
}

double probe_peak_flops(device::Isa isa, const Clock& clock, Duration time) {
  constexpr int64_t kRounds = 2000;
  const PeakLoop loop = peak_loop_of(isa);
  const TimePoint begin = clock.now();
  double flops = 0;
  TimePoint end = begin;
  do {
    flops += loop(kRounds) * static_cast<double>(kRounds);
    end = clock.now();
  } while (end - begin < time);
  return flops / to_seconds(end - begin);
}

double probe_read_bytes(device::Isa isa, const Clock& clock, std::span<const std::byte> data,
                        Duration time) {
  const ReadLoop loop = read_loop_of(isa);
  const TimePoint begin = clock.now();
  double bytes = 0;
  TimePoint end = begin;
  do {
    consume(loop(data.data(), data.size()));
    bytes += static_cast<double>(data.size());
    end = clock.now();
  } while (end - begin < time);
  return bytes / to_seconds(end - begin);
}

}  // namespace baton::kernels
