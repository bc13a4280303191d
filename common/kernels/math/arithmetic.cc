#include "common/kernels/math/arithmetic.h"

#include "common/device/cpu_info.h"

namespace baton::kernels {

bool has_fast_arithmetic(device::Isa isa) {
  const device::CpuInfo& cpu = device::cpu_info();
  return isa >= device::Isa::kAvx512 && cpu.avx512_bf16 && cpu.avx512_int8;
}

}  // namespace baton::kernels
