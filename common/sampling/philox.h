#pragma once

// Philox4x32-10, a counter-based generator: the same key and counter give the same four words on
// every machine, in any order of calls, with no state to ship or to replay.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011),
// https://doi.org/10.1145/2063384.2063405; reference vectors: Random123, tests/kat_vectors.

#include <array>
#include <cstdint>

namespace baton::sampling {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// In [0, 1), a multiple of 2^-24: draw `draw` of output `output_index` of choice `choice`.
constexpr double uniform_of(uint64_t seed, uint32_t choice, uint32_t output_index, uint32_t draw) {
  const PhiloxKey key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  return (philox4x32_10({choice, output_index, draw, 0}, key)[0] >> 8) * 0x1p-24;
}

}  // namespace baton::sampling
