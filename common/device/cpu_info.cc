#include "common/device/cpu_info.h"

#include <cpuid.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace baton::device {
namespace {

struct CpuidRegisters {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidRegisters cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidRegisters r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) {
    return {};
  }
  return r;
}

bool bit(uint32_t word, int index) { return ((word >> index) & 1) != 0; }

// Register state that the operating system saves; asm because the intrinsic needs -mxsave.
uint64_t saved_state() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

std::string brand_string() {
  std::array<char, 49> text{};
  for (uint32_t i = 0; i < 3; ++i) {
    const CpuidRegisters r = cpuid(0x80000002 + i, 0);
    std::memcpy(text.data() + 16 * i, &r, 16);
  }
  std::string out(text.data());
  const size_t begin = out.find_first_not_of(' ');
  if (begin == std::string::npos) {
    return "unknown";
  }
  return out.substr(begin, out.find_last_not_of(' ') - begin + 1);
}

CpuInfo read_cpu_info() {
  CpuInfo info;
  info.model = brand_string();
  const CpuidRegisters leaf1 = cpuid(1, 0);
  const bool os_saves_state = bit(leaf1.ecx, 27);
  if (!os_saves_state) {
    return info;
  }
  const uint64_t saved = saved_state();
  const bool ymm = (saved & 0x6) == 0x6;
  const bool zmm = (saved & 0xE6) == 0xE6;
  const bool tiles = (saved & 0x60000) == 0x60000;
  const CpuidRegisters leaf7 = cpuid(7, 0);
  const CpuidRegisters leaf7_1 = cpuid(7, 1);
  info.avx2_fma_f16c = ymm && bit(leaf1.ecx, 12) && bit(leaf1.ecx, 29) && bit(leaf7.ebx, 5);
  info.avx512 = zmm && info.avx2_fma_f16c && bit(leaf7.ebx, 16) && bit(leaf7.ebx, 17) &&
                bit(leaf7.ebx, 30) && bit(leaf7.ebx, 31);
  info.avx512_bf16 = info.avx512 && bit(leaf7_1.eax, 5);
  info.avx512_int8 = info.avx512 && bit(leaf7.ecx, 1) && bit(leaf7.ecx, 11);
  info.amx_bf16 = info.avx512 && tiles && bit(leaf7.edx, 22) && bit(leaf7.edx, 24);
  return info;
}

}  // namespace

const CpuInfo& cpu_info() {
  static const CpuInfo info = read_cpu_info();
  return info;
}

}  // namespace baton::device
