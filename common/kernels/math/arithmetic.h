#pragma once

// Which arithmetic the products of a pass use (docs/numerics.md "Modes").

#include <cstdint>

#include "common/device/isa.h"

namespace baton::kernels {

// kFast: 8-bit activations for packed weights and the CPU's bf16 dot product, whatever its order of
// additions, where it has them; what it lacks is done as kCanonical. No promise of equal bits,
// neither between machines nor between numbers of rows.
enum class Arithmetic : uint8_t { kCanonical, kFast };

// Whether VDPBF16PS may be used: this CPU has it, and its result is that of two FMAs
// (matmul/level_kernels.h) or need not be.
bool has_bf16_dot(Arithmetic arithmetic);

// Whether kFast is anything else than kCanonical here.
bool has_fast_arithmetic(device::Isa isa);

}  // namespace baton::kernels
