#pragma once

// Instruction-set levels of the CPU backend. Every kernel exists at each level and gives the same
// bits at all of them (docs/numerics.md); a higher level is only faster.

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/device/cpu_info.h"

namespace baton::device {

enum class Isa { kScalar = 0, kAvx2 = 1, kAvx512 = 2, kAmx = 3 };

std::string_view isa_name(Isa isa);  // "scalar" "avx2" "avx512" "amx"

// The levels that this CPU and kernel can run, ascending; never empty. kAvx2 needs AVX2, FMA, F16C;
// kAvx512 needs F, BW, DQ, VL; kAmx needs kAvx512, AMX-TILE, AMX-BF16 and the kernel's permission
// (arch_prctl ARCH_REQ_XCOMP_PERM), which the first call asks for: call it before threads start.
const std::vector<Isa>& available_isas();

// "auto" is the highest available level. An unknown name and a level that this machine lacks are
// errors that list what there is.
Result<Isa> choose_isa(std::string_view name);

// The same from what CPUID says and from a function that asks for the permission.
struct IsaLevels {
  std::vector<Isa> isas;
  std::string_view amx_refusal;
};
IsaLevels find_levels(const CpuInfo& cpu, bool (*request_tile_permission)());

// Why AMX is missing although the CPU has it ("the kernel refused tile permission"); empty if it is
// not missing or the CPU has none.
std::string_view amx_refusal();

}  // namespace baton::device
