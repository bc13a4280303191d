// The loops around the kernels of a level (BLIS naming: https://github.com/flame/blis): chunks of K
// keep two panels of weights in the first-level cache while all rows pass by, and y holds the sums
// between chunks, which costs nothing in exactness because a sum is a chain of blocks anyway.

#include "common/kernels/matmul/matmul.h"

#include <algorithm>
#include <cstring>

#include "common/device/cpu_info.h"
#include "common/kernels/matmul/level_kernels.h"

namespace baton::kernels {
namespace {

// More rows than this are done in slices, so that a chunk of widened activations stays in the
// second-level cache (192 rows: 204 KiB).
constexpr int kRowSlice = 192;
// With few rows all activations stay cached, and panels are read from end to end, as memory likes.
constexpr int kPanelMajorRows = 16;
constexpr int kTileChunkBlocks = 16;  // two panels: 32 KiB
constexpr int kTileRowsPerPass = 32;
// On AMX a row costs as much as sixteen, except that packed weights need no way through memory.
constexpr int kTileFewRows = 2;

constexpr size_t kExpandedDwords = size_t{2} * kTileChunkBlocks * kPairDwords;
static_assert(kTileChunkBlocks >= kChunkBlocks);

LevelKernels avx512_kernels(Arithmetic arithmetic) {
  if (has_bf16_dot(arithmetic)) {
    return avx512_dot_matmul_kernels();
  }
  return device::cpu_info().avx512_bf16 ? avx512_bf16_matmul_kernels() : avx512_matmul_kernels();
}

LevelKernels kernels_of(device::Isa isa, Arithmetic arithmetic) {
  switch (isa) {
    case device::Isa::kScalar:
      return scalar_matmul_kernels();
    case device::Isa::kAvx2:
      return avx2_matmul_kernels();
    case device::Isa::kAvx512:
    case device::Isa::kAmx:
      return avx512_kernels(arithmetic);
  }
  return scalar_matmul_kernels();
}

int chunks_of(int blocks) { return (blocks + kChunkBlocks - 1) / kChunkBlocks; }

// One call's view of a slice of rows.
struct Slice {
  const MatmulParams* params;
  LevelKernels kernels;
  size_t block_bytes;
  int row_begin;
  int rows;
  std::byte* x;        // arranged: [chunks, rows], row_bytes apart
  uint32_t* expanded;  // two panels' chunk
};

void arrange_rows(const Slice& s) {
  const MatmulParams& p = *s.params;
  const int padded_k = p.weights->padded_k();
  for (int row = 0; row < s.rows; ++row) {
    const uint16_t* x = p.x + static_cast<ptrdiff_t>(s.row_begin + row) * p.x_stride;
    for (int k = 0, chunk = 0; k < padded_k; k += kChunkK, ++chunk) {
      std::byte* out = s.x + (static_cast<size_t>(chunk) * static_cast<size_t>(s.rows) +
                              static_cast<size_t>(row)) *
                                 s.kernels.row_bytes;
      s.kernels.arrange(x + k, std::min(kChunkK, padded_k - k), out);
    }
  }
}

const std::byte* packed_blocks(const Slice& s, int panel, int block) {
  return s.params->weights->panel(panel) + s.block_bytes * static_cast<size_t>(block);
}

// The bf16 blocks [block, block + blocks) of a panel, where they lie or expanded.
const uint32_t* bf16_blocks(const Slice& s, int panel, int block, int blocks, uint32_t* room) {
  const PackedMatrix& w = *s.params->weights;
  const std::byte* packed = packed_blocks(s, panel, block);
  if (w.format() == WeightFormat::kBf16Panels) {
    return reinterpret_cast<const uint32_t*>(packed);
  }
  s.kernels.expand(w.format(), packed, blocks, room);
  return room;
}

// A pair of panels (the second may be missing) and a chunk of K.
struct Step {
  int panel;
  int panels;
  int chunk;
};

void multiply_chunk(const Slice& s, const Step& step, const Step& next) {
  const MatmulParams& p = *s.params;
  const int block = step.chunk * kChunkBlocks;
  MultiplyArgs args;
  args.blocks = std::min(kChunkBlocks, p.weights->blocks_k() - block);
  for (int i = 0; i < step.panels; ++i) {
    args.weights[i] = bf16_blocks(s, step.panel + i, block, args.blocks,
                                  s.expanded + static_cast<size_t>(i) * kChunkBlocks * kPairDwords);
  }
  for (int i = 0; i < 2; ++i) {
    args.ahead[i] = packed_blocks(s, std::min(next.panel + i, p.weights->panels() - 1),
                                  next.chunk * kChunkBlocks);
  }
  args.x =
      s.x + static_cast<size_t>(step.chunk) * static_cast<size_t>(s.rows) * s.kernels.row_bytes;
  args.rows = s.rows;
  args.y = p.y + static_cast<ptrdiff_t>(s.row_begin) * p.y_stride + step.panel * kLanes;
  args.y_stride = p.y_stride;
  s.kernels.multiply(args);
}

void clear_columns(const Slice& s, int panel_begin, int panel_end) {
  const MatmulParams& p = *s.params;
  for (int row = s.row_begin; row < s.row_begin + s.rows; ++row) {
    float* y = p.y + static_cast<ptrdiff_t>(row) * p.y_stride;
    std::fill(y + panel_begin * kLanes, y + panel_end * kLanes, 0.0f);
  }
}

void multiply_slice(const Slice& s, int panel_begin, int panel_end) {
  clear_columns(s, panel_begin, panel_end);
  const int chunks = chunks_of(s.params->weights->blocks_k());
  const bool panel_major = s.rows <= kPanelMajorRows;
  Step step{panel_begin, 0, 0};
  while (step.panel < panel_end && step.chunk < chunks) {
    step.panels = std::min(2, panel_end - step.panel);
    Step next = step;
    if (panel_major) {
      next.chunk = (step.chunk + 1) % chunks;
      next.panel += next.chunk == 0 ? 2 : 0;
    } else {
      next.panel = step.panel + 2 < panel_end ? step.panel + 2 : panel_begin;
      next.chunk += next.panel == panel_begin ? 1 : 0;
    }
    multiply_chunk(s, step, next);
    step = next;
  }
}

void multiply_few_rows(const Slice& s, int panel_begin, int panel_end) {
  const MatmulParams& p = *s.params;
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    FewRowsArgs args;
    args.panel = p.weights->panel(panel);
    args.blocks = p.weights->blocks_k();
    args.x = s.x;
    args.rows = s.rows;
    args.y = p.y + panel * kLanes;
    args.y_stride = p.y_stride;
    s.kernels.few_rows(p.weights->format(), args);
  }
}

bool takes_few_rows(device::Isa isa, const LevelKernels& kernels, WeightFormat format, int rows) {
  return format != WeightFormat::kBf16Panels && rows <= kernels.max_few_rows &&
         (isa != device::Isa::kAmx || rows <= kTileFewRows);
}

Slice whole(const LevelKernels& kernels, const MatmulParams& params, std::byte* scratch) {
  const PackedMatrix& w = *params.weights;
  auto* expanded = reinterpret_cast<uint32_t*>(scratch);
  return {.params = &params,
          .kernels = kernels,
          .block_bytes = w.panel_bytes() / static_cast<size_t>(w.blocks_k()),
          .row_begin = 0,
          .rows = params.rows,
          .x = reinterpret_cast<std::byte*>(expanded + kExpandedDwords),
          .expanded = expanded};
}

}  // namespace

void matmul_with_tiles(TileMultiply multiply, const LevelKernels& kernels, const MatmulParams& p,
                       int panel_begin, int panel_end, std::byte* scratch) {
  const Slice s = whole(kernels, p, scratch);
  const int blocks = p.weights->blocks_k();
  // Chunks let the rows after the first find the weights in the cache; one pass needs none.
  const bool one_pass =
      p.weights->format() == WeightFormat::kBf16Panels && p.rows <= kTileRowsPerPass;
  const int chunk = one_pass ? blocks : kTileChunkBlocks;
  TileRows configured;
  for (int panel = panel_begin; panel < panel_end; panel += 2) {
    for (int block = 0; block < blocks; block += chunk) {
      TileArgs args;
      args.blocks = std::min(chunk, blocks - block);
      for (int i = 0; i < 2 && panel + i < panel_end; ++i) {
        args.weights[i] =
            bf16_blocks(s, panel + i, block, args.blocks,
                        s.expanded + static_cast<size_t>(i) * kTileChunkBlocks * kPairDwords);
      }
      args.x = p.x + block * kBlockK;
      args.x_stride = p.x_stride;
      args.rows = p.rows;
      args.y = p.y + panel * kLanes;
      args.y_stride = p.y_stride;
      args.accumulate = block > 0;
      multiply(args, configured);
    }
  }
}

namespace {

// On AMX more rows than this are cheaper with tiles.
constexpr int kTileCodedRows = 8;

void multiply_coded_rows(const FastKernels& fast, const MatmulParams& p, int panel_begin,
                         int panel_end, std::byte* scratch) {
  const int blocks = p.weights->blocks_k();
  auto* own = reinterpret_cast<CodeBlock*>(scratch);
  for (int begin = 0; begin < p.rows; begin += kRowSlice) {
    const int rows = std::min(kRowSlice, p.rows - begin);
    for (int row = 0; row < rows && p.codes == nullptr; ++row) {
      fast.to_codes(p.x + static_cast<ptrdiff_t>(begin + row) * p.x_stride, blocks,
                    own + static_cast<ptrdiff_t>(row) * blocks);
    }
    const bool coded = p.codes != nullptr;
    for (int panel = panel_begin; panel < panel_end; ++panel) {
      CodedRowsArgs args;
      args.panel = p.weights->panel(panel);
      args.blocks = blocks;
      args.x = coded ? p.codes + static_cast<ptrdiff_t>(begin) * p.codes_stride : own;
      args.x_stride = coded ? p.codes_stride : blocks;
      args.rows = rows;
      args.y = p.y + static_cast<ptrdiff_t>(begin) * p.y_stride + panel * kLanes;
      args.y_stride = p.y_stride;
      fast.coded_rows(p.weights->format(), args);
    }
  }
}

}  // namespace

void matmul(device::Isa isa, const MatmulParams& params, int panel_begin, int panel_end,
            std::byte* scratch) {
  const WeightFormat format = params.weights->format();
  if (matmul_takes_codes(isa, params.arithmetic, format, params.rows)) {
    multiply_coded_rows(avx512_fast_kernels(), params, panel_begin, panel_end, scratch);
    return;
  }
  const LevelKernels kernels = kernels_of(isa, params.arithmetic);
  const bool few = takes_few_rows(isa, kernels, format, params.rows);
  if (isa == device::Isa::kAmx && !few) {
    matmul_with_tiles(amx_multiply, kernels, params, panel_begin, panel_end, scratch);
    amx_release();
    return;
  }
  Slice slice = whole(kernels, params, scratch);
  for (int row = 0; row < params.rows; row += kRowSlice) {
    slice.row_begin = row;
    slice.rows = std::min(kRowSlice, params.rows - row);
    arrange_rows(slice);
    if (few) {
      multiply_few_rows(slice, panel_begin, panel_end);
    } else {
      multiply_slice(slice, panel_begin, panel_end);
    }
  }
}

// Codes need less than widened rows.
static_assert(kChunkBlocks * sizeof(CodeBlock) < kWideRow * sizeof(float));

bool matmul_takes_codes(device::Isa isa, Arithmetic arithmetic, WeightFormat format, int rows) {
  return arithmetic == Arithmetic::kFast && has_fast_arithmetic(isa) &&
         format != WeightFormat::kBf16Panels &&
         (isa != device::Isa::kAmx || rows <= kTileCodedRows);
}

void code_row(const uint16_t* x, int blocks, CodeBlock* out) {
  avx512_fast_kernels().to_codes(x, blocks, out);
}

size_t matmul_scratch_bytes(device::Isa, WeightFormat, int rows, int padded_k) {
  const size_t wide_rows = static_cast<size_t>(std::min(rows, kRowSlice)) *
                           static_cast<size_t>(chunks_of(padded_k / kBlockK));
  return kExpandedDwords * sizeof(uint32_t) + wide_rows * kWideRow * sizeof(float);
}

int matmul_panel_grain(device::Isa isa, WeightFormat, int rows, int) {
  // Widening costs each item as much as a third of a panel; tiles read bf16 as it is. Even numbers,
  // since panels go in pairs.
  return (isa == device::Isa::kAmx && rows > kTileFewRows) ? 2 : 6;
}

}  // namespace baton::kernels
