#pragma once

// y = x · Wᵀ with the canonical dot product (docs/numerics.md): x is bf16, W stands for bf16 values
// whatever its storage, sums are f32 in blocks of 32 along K with an even and an odd accumulator.
// All formats and all instruction-set levels give the same bits.
//
// Kernels are functions of one thread over a range of output panels; the caller shares panels out.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/base/status.h"
#include "common/device/isa.h"
#include "common/kernels/math/arithmetic.h"
#include "common/kernels/matmul/packed_formats.h"

namespace baton::kernels {

std::string_view weight_format_name(WeightFormat format);

// Block formats of a model file that can be packed, as rows of blocks (docs of GGUF).
enum class SourceType : uint8_t {
  kF32,
  kF16,
  kBf16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
};

inline constexpr int kPanelRows = kLanes;  // output rows of W per panel
inline constexpr int kBlockK = 32;         // reduction block

// Packed weights of an [n, k] matrix; n is padded to panels and k to blocks with zeros. Immutable
// after packing, shared by threads without locks. Own memory is page-aligned, asks for huge pages
// and is touched first by whoever packs. Sizes are checked by the caller: n * k weights must be
// something that the machine can hold; failure to allocate aborts.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(WeightFormat format, int n, int k);  // owns its memory, zeroed
  // Without memory: only its shape may be asked for until place().
  static PackedMatrix unplaced(WeightFormat format, int n, int k);
  // Lies from now on in `memory`, bytes() long, 64-byte aligned, which outlives it. For packing it
  // is writable and zero, else it holds what was packed.
  void place(std::byte* memory);

  WeightFormat format() const { return format_; }
  int n() const { return n_; }
  int k() const { return k_; }
  int panels() const { return (n_ + kPanelRows - 1) / kPanelRows; }
  int blocks_k() const { return (k_ + kBlockK - 1) / kBlockK; }
  int padded_k() const { return blocks_k() * kBlockK; }
  size_t panel_bytes() const;
  size_t bytes() const { return panel_bytes() * static_cast<size_t>(panels()); }
  const std::byte* panel(int index) const { return data_.get() + panel_bytes() * index; }
  std::byte* mutable_panel(int index) { return data_.get() + panel_bytes() * index; }

 private:
  struct Free {
    size_t mapped_bytes;
    void operator()(std::byte* p) const;
  };
  WeightFormat format_ = WeightFormat::kBf16Panels;
  int n_ = 0;
  int k_ = 0;
  std::unique_ptr<std::byte[], Free> data_;
};

// Bytes of a PackedMatrix of that form, without making it.
size_t packed_bytes(WeightFormat format, int n, int k);

// The format that a decode pool keeps for the columns from `k_begin` on of a source type:
// kBf16Panels for F32, F16 and BF16, and for every type where k_begin cuts a block of 32, because a
// packed block has one scale.
WeightFormat decode_format(SourceType type, int k_begin = 0);

// Elements of a row must be a multiple of this (the superblock; 1 for unquantised types).
int source_block_elements(SourceType type);
size_t source_row_bytes(SourceType type, int elements);

// Packs rows of a source matrix: destination row `first_row + i` takes the elements
// [k_begin, k_begin + matrix.k()) of `rows[i]`, a row of the source type with `row_elements`
// elements. k_begin may lie inside a superblock. Thread-safe for rows of different panels. The
// matrix's format must be kBf16Panels or decode_format(type, k_begin). No alignment is asked of the
// rows.
void pack_rows(PackedMatrix& matrix, int first_row, SourceType type,
               std::span<const std::byte* const> rows, int row_elements, int k_begin);

// Exact f32 values of a row of `elements` elements (before the rounding to bf16).
void dequantize_row(SourceType type, const std::byte* row, int elements, float* out);

struct MatmulParams {
  const PackedMatrix* weights = nullptr;
  const uint16_t* x = nullptr;  // [rows, x_stride] bf16; elements [k, padded_k) of a row are zero
  int x_stride = 0;             // elements
  int rows = 0;                 // >= 1
  float* y = nullptr;           // [rows, y_stride] f32; only columns of the panels are written
  int y_stride = 0;             // elements, >= 16 * panels() (the padding columns are written)
  Arithmetic arithmetic = Arithmetic::kCanonical;
  // x as code_rows() makes it, [rows, codes_stride], or null: then every call makes its own, if it
  // needs them. Ignored where they are not needed.
  const CodeBlock* codes = nullptr;
  int codes_stride = 0;  // blocks
};

// Computes y for panels [panel_begin, panel_end). The calling thread has denormals flushed
// (device::FlushDenormals). `scratch` is matmul_scratch_bytes(...) bytes of
// the calling thread, 64-byte aligned.
void matmul(device::Isa isa, const MatmulParams& params, int panel_begin, int panel_end,
            std::byte* scratch);

// Whether matmul() reads 8-bit codes of the activations.
bool matmul_takes_codes(device::Isa isa, Arithmetic arithmetic, WeightFormat format, int rows);
// The codes of `blocks` blocks of 32 of one row. Only where has_fast_arithmetic().
void code_row(const uint16_t* x, int blocks, CodeBlock* out);

size_t matmul_scratch_bytes(device::Isa isa, WeightFormat format, int rows, int padded_k);

// How many panels one work item should take for good cache use, >= 1.
int matmul_panel_grain(device::Isa isa, WeightFormat format, int rows, int padded_k);

}  // namespace baton::kernels
