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

namespace baton::kernels {

// How a packed matrix stores its weights. A panel is 16 output rows of W (16 columns of y); inside
// a panel blocks of 32 along K are contiguous. matmul/packed_formats.h documents the bytes.
enum class WeightFormat : uint8_t {
  kBf16Panels,  // prefill: bf16 pairs, also the AMX tile layout
  kQ4,          // 4-bit codes, f16 scale (and f16 offset) per 32: Q4_0, Q4_1
  kQ8,          // 8-bit codes, f16 scale per 32: Q8_0
  kK4,          // 4-bit codes with f32 scale and offset made of the superblock: Q4_K
  kK5,          // 5-bit: Q5_K
  kK6,          // 6-bit, a scale per 16: Q6_K
};
std::string_view weight_format_name(WeightFormat format);

// Block formats of a model file that can be packed, as rows of blocks (docs of GGUF).
enum class SourceType : uint8_t { kF32, kF16, kBf16, kQ4_0, kQ4_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K };

inline constexpr int kPanelRows = 16;  // output rows per panel
inline constexpr int kBlockK = 32;     // reduction block

// Owns packed weights of an [n, k] matrix; n is padded to panels and k to blocks with zeros.
// Immutable after packing, shared by threads without locks. Memory is 64-byte aligned and asks for
// huge pages.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(WeightFormat format, int n, int k);  // zeroed

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
    void operator()(std::byte* p) const;
  };
  WeightFormat format_ = WeightFormat::kBf16Panels;
  int n_ = 0;
  int k_ = 0;
  std::unique_ptr<std::byte[], Free> data_;
};

// The format that a decode pool keeps for a source type (kBf16Panels for F32, F16 and BF16).
WeightFormat decode_format(SourceType type);

// Packs rows of a source matrix: destination row `first_row + i` takes the elements
// [k_begin, k_begin + matrix.k()) of `rows[i]`, a row of the source type with `row_elements`
// elements. k_begin may lie inside a superblock. Thread-safe for rows of different panels. The
// matrix's format must be kBf16Panels or decode_format(type).
void pack_rows(PackedMatrix& matrix, int first_row, SourceType type,
               std::span<const std::byte* const> rows, int row_elements, int k_begin);

// Exact f32 values of a row of `elements` elements (before the rounding to bf16).
void dequantize_row(SourceType type, const std::byte* row, int elements, float* out);
size_t source_row_bytes(SourceType type, int elements);

struct MatmulParams {
  const PackedMatrix* weights = nullptr;
  const uint16_t* x = nullptr;  // [rows, x_stride] bf16; elements [k, padded_k) of a row are zero
  int x_stride = 0;             // elements
  int rows = 0;                 // >= 1
  float* y = nullptr;           // [rows, y_stride] f32; only columns of the panels are written
  int y_stride = 0;             // elements, >= 16 * panels() (the padding columns are written)
};

// Computes y for panels [panel_begin, panel_end). `scratch` is matmul_scratch_bytes(...) bytes of
// the calling thread, 64-byte aligned.
void matmul(device::Isa isa, const MatmulParams& params, int panel_begin, int panel_end,
            std::byte* scratch);
size_t matmul_scratch_bytes(device::Isa isa, WeightFormat format, int rows, int padded_k);

// How many panels one work item should take for good cache use, >= 1.
int matmul_panel_grain(device::Isa isa, WeightFormat format, int rows, int padded_k);

}  // namespace baton::kernels
