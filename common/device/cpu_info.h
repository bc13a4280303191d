#pragma once

// What CPUID says about the CPU and XGETBV about the operating system's part in it. A feature is
// true only when both allow its use (AMX needs a permission on top: isa.h).

#include <string>

namespace baton::device {

struct CpuInfo {
  std::string model;  // brand string, "AMD EPYC 9575F"; "unknown" if the CPU gives none
  bool avx2_fma_f16c = false;
  bool avx512 = false;       // F, BW, DQ, VL
  bool avx512_bf16 = false;  // AVX512_BF16
  bool avx512_int8 = false;  // AVX512_VNNI and AVX512_VBMI
  bool amx_bf16 = false;     // AMX-TILE and AMX-BF16
};

// Read once; the same object for the life of the process, immutable.
const CpuInfo& cpu_info();

}  // namespace baton::device
