#include "common/kernels/math/arithmetic.h"

#include "common/device/cpu_info.h"
#include "common/kernels/matmul/level_kernels.h"

namespace baton::kernels {

bool has_bf16_dot(Arithmetic arithmetic) {
  return device::cpu_info().avx512_bf16 && (arithmetic == Arithmetic::kFast || dot_is_canonical());
}

bool has_fast_arithmetic(device::Isa isa) {
  const device::CpuInfo& cpu = device::cpu_info();
  return isa >= device::Isa::kAvx512 && cpu.avx512_bf16 && cpu.avx512_int8;
}

}  // namespace baton::kernels
