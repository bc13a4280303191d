#include "common/config/config.h"

namespace baton::config {

std::string_view to_string(Role role) {
  switch (role) {
    case Role::kRouter:
      return "router";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
  }
  return "";
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kAuto:
      return "auto";
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "";
}

std::string_view to_string(Numerics numerics) {
  return numerics == Numerics::kInvariant ? "invariant" : "fast";
}

std::string_view to_string(LocalPrefill local_prefill) {
  switch (local_prefill) {
    case LocalPrefill::kAuto:
      return "auto";
    case LocalPrefill::kNever:
      return "never";
    case LocalPrefill::kAlways:
      return "always";
  }
  return "";
}

Config default_config() {
  Config config;
  config.prefill.emplace_back().name = "p0";
  config.decode.emplace_back().name = "d0";
  return config;
}

Duration scaled(const Config& config, Duration d) { return d * config.test.time_scale; }

const Worker* find_worker(const Config& config, Role role, std::string_view name) {
  const std::vector<Worker>& workers = role == Role::kPrefill ? config.prefill : config.decode;
  if (role == Role::kRouter) {
    return nullptr;
  }
  for (const Worker& worker : workers) {
    if (worker.name == name) {
      return &worker;
    }
  }
  return nullptr;
}

}  // namespace baton::config
