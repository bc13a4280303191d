#pragma once

// What an instruction-set level gives to the product; matmul.cc puts the loops around it. The
// sources of a level are compiled with its flags and include nothing that has inline functions of
// the standard library: the linker keeps one copy of those, and it must not be the one with
// AVX-512 in it.

#include <cstddef>
#include <cstdint>

#include "common/kernels/matmul/packed_formats.h"

namespace baton::kernels {

struct MatmulParams;

// Activations are arranged once per call as a level reads them, [chunks][rows], so that the rows of
// a chunk of K have constant distances; only the first 32 * blocks elements of a chunk count. The
// padding keeps rows of a power-of-two length from meeting in one cache set.
inline constexpr int kChunkBlocks = 8;
inline constexpr int kChunkK = 32 * kChunkBlocks;
// Most levels widen them to f32.
inline constexpr int kWideRow = kChunkK + 16;  // floats
inline constexpr size_t kWideRowBytes = kWideRow * sizeof(float);

struct MultiplyArgs {
  const uint32_t* weights[2] = {nullptr, nullptr};  // bf16 blocks of one or two panels
  int blocks = 0;                                   // <= kChunkBlocks
  const std::byte* x = nullptr;                     // [rows], row_bytes apart
  int rows = 0;
  float* y = nullptr;  // [rows, y_stride]; 16 or 32 columns are added to
  int y_stride = 0;
  // What will be read next of each panel: fetched meanwhile, as far as 64 bytes a pair reach.
  // Memory's own prefetching stops while the rows work on a chunk.
  const std::byte* ahead[2] = {nullptr, nullptr};
};

struct FewRowsArgs {
  const std::byte* panel = nullptr;  // packed blocks
  int blocks = 0;                    // all of K
  const std::byte* x = nullptr;      // [chunks, rows], row_bytes apart
  int rows = 0;                      // <= max_few_rows
  float* y = nullptr;                // [rows, y_stride]; 16 columns are written
  int y_stride = 0;
};

// How far ahead of its use a packed panel is fetched while it is expanded: some 400 cycles.
inline constexpr size_t kFetchAheadBytes = 3072;

struct LevelKernels {
  // `count` (a multiple of 32, at most kChunkK) bf16 values to where a row of a chunk lies.
  void (*arrange)(const uint16_t* x, int count, std::byte* out);
  size_t row_bytes;
  // Packed blocks to bf16 blocks. Not for kBf16Panels.
  void (*expand)(WeightFormat format, const std::byte* packed, int blocks, uint32_t* out);
  void (*multiply)(const MultiplyArgs& args);
  // Expands in registers; pays as long as a weight is used by few rows. Null where max_few_rows is
  // 0.
  void (*few_rows)(WeightFormat format, const FewRowsArgs& args);
  int max_few_rows;
};

LevelKernels scalar_matmul_kernels();
LevelKernels avx2_matmul_kernels();
LevelKernels avx512_matmul_kernels();
// The same bits, expansion some percent faster; needs AVX512_BF16.
LevelKernels avx512_bf16_matmul_kernels();
// With VDPBF16PS in place of two FMAs. Needs AVX512_BF16, and gives the same bits where
// dot_is_canonical().
LevelKernels avx512_dot_matmul_kernels();
// Whether VDPBF16PS of this CPU is fma(low, low, fma(high, high, sum)), which its manual says and
// not every CPU does. Compares once some thousand results. Needs AVX512_BF16.
bool dot_is_canonical();

// y of one or two panels for all rows with tiles; `weights` are bf16 blocks of 16 rows, as panels
// have them or (attention) columns of wider rows. Adds to y where
// `accumulate`, else writes.
struct TileArgs {
  const uint32_t* weights[2] = {nullptr, nullptr};
  int weight_stride = kLanes;  // dwords from a row of 16 pairs to the next one
  // From a weight to what is fetched while it is used, if it is; within the program's memory.
  ptrdiff_t ahead_bytes = 0;
  int blocks = 0;
  const uint16_t* x = nullptr;  // [rows, x_stride] bf16, at the first element of these blocks
  int x_stride = 0;
  int rows = 0;
  float* y = nullptr;
  int y_stride = 0;
  bool accumulate = false;
};
// The rows of the tile configuration that is in force on this thread; zeros before the first call.
struct TileRows {
  int rows0 = 0;
  int rows1 = 0;
};
void amx_multiply(const TileArgs& args, TileRows& configured);
// Ends the use of tiles, which else cost every context switch 8 KiB.
void amx_release();
// In their place the product of avx512_dot_matmul_kernels(); x is in chain order (lanes_avx512.h).
void avx512_dot(const TileArgs& args, TileRows& configured);

// The loops around a tile kernel; a parameter so that they run with an emulated one, too. `kernels`
// expand; scratch as for matmul().
using TileMultiply = void (*)(const TileArgs& args, TileRows& configured);
void matmul_with_tiles(TileMultiply multiply, const LevelKernels& kernels,
                       const MatmulParams& params, int panel_begin, int panel_end,
                       std::byte* scratch);

// The quickest arithmetic of a machine instead of the canonical one (docs/numerics.md "Modes").
struct CodedRowsArgs {
  const std::byte* panel = nullptr;  // packed blocks
  int blocks = 0;                    // all of K
  const CodeBlock* x = nullptr;      // [rows, x_stride]
  int x_stride = 0;                  // blocks
  int rows = 0;
  float* y = nullptr;  // [rows, y_stride]; 16 columns are written
  int y_stride = 0;
};

struct FastKernels {
  // A block that holds something infinite or NaN gets the scale NaN.
  void (*to_codes)(const uint16_t* x, int blocks, CodeBlock* out);
  // Not for kBf16Panels.
  void (*coded_rows)(WeightFormat format, const CodedRowsArgs& args);
};
// Need AVX512_BF16, AVX512_VNNI and AVX512_VBMI.
FastKernels avx512_fast_kernels();

}  // namespace baton::kernels
