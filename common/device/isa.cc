#include "common/device/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace baton::device {
namespace {

constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

// Linux hands the 8 KiB of tile data only to a process that asked for it; threads inherit the
// permission (https://docs.kernel.org/arch/x86/xstate.html).
bool request_tile_permission() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

const IsaLevels& detected() {
  static const IsaLevels value = find_levels(cpu_info(), request_tile_permission);
  return value;
}

std::string list_of_available() {
  std::string out;
  for (const Isa isa : available_isas()) {
    out += out.empty() ? "" : ", ";
    out += isa_name(isa);
  }
  return out;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

IsaLevels find_levels(const CpuInfo& cpu, bool (*request_tile_permission)()) {
  IsaLevels out;
  out.isas.push_back(Isa::kScalar);
  if (cpu.avx2_fma_f16c) {
    out.isas.push_back(Isa::kAvx2);
  }
  if (cpu.avx512) {
    out.isas.push_back(Isa::kAvx512);
  }
  if (cpu.amx_bf16) {
    if (request_tile_permission()) {
      out.isas.push_back(Isa::kAmx);
    } else {
      out.amx_refusal = "the kernel refused tile permission";
    }
  }
  return out;
}

const std::vector<Isa>& available_isas() { return detected().isas; }

std::string_view amx_refusal() { return detected().amx_refusal; }

Result<Isa> choose_isa(std::string_view name) {
  if (name == "auto") {
    return available_isas().back();
  }
  for (const Isa isa : available_isas()) {
    if (isa_name(isa) == name) {
      return isa;
    }
  }
  for (const Isa isa : kAllIsas) {
    if (isa_name(isa) == name) {
      std::string message = "this machine cannot run instruction set '" + std::string(name) + "'";
      if (isa == Isa::kAmx && !amx_refusal().empty()) {
        message += " (" + std::string(amx_refusal()) + ")";
      }
      return unsupported(message + "; it has: " + list_of_available());
    }
  }
  return invalid_argument("unknown instruction set '" + std::string(name) +
                          "'; use auto or one of: " + list_of_available());
}

}  // namespace baton::device
