#pragma once

// The loops of each instruction-set level; sources as in matmul/level_kernels.h.

#include <cstddef>
#include <cstdint>

namespace baton::kernels {

// Each does `rounds` rounds and returns the FLOPs of one.
double scalar_peak_loop(int64_t rounds);
double avx2_peak_loop(int64_t rounds);
double avx512_peak_loop(int64_t rounds);
double avx512_dot_peak_loop(int64_t rounds);  // needs AVX512_BF16
double amx_peak_loop(int64_t rounds);

// Reads all bytes (a multiple of 512 counts, the rest is left); the result depends on each.
uint64_t scalar_read(const std::byte* data, size_t bytes);
uint64_t avx2_read(const std::byte* data, size_t bytes);
uint64_t avx512_read(const std::byte* data, size_t bytes);

}  // namespace baton::kernels
