#include "common/base/ids.h"

#include <charconv>
#include <cstdio>

namespace baton {

std::string to_hex(const U128& v) {
  char text[33];
  std::snprintf(text, sizeof(text), "%016llx%016llx", static_cast<unsigned long long>(v.hi),
                static_cast<unsigned long long>(v.lo));
  return text;
}

std::optional<U128> u128_from_hex(std::string_view hex) {
  if (hex.size() != 32) {
    return std::nullopt;
  }
  U128 v;
  const char* p = hex.data();
  const auto hi = std::from_chars(p, p + 16, v.hi, 16);
  const auto lo = std::from_chars(p + 16, p + 32, v.lo, 16);
  if (hi.ec != std::errc() || hi.ptr != p + 16 || lo.ec != std::errc() || lo.ptr != p + 32) {
    return std::nullopt;
  }
  return v;
}

std::string to_string(const RunKey& key) {
  return to_hex(key.request.value) + "/" + std::to_string(key.attempt) + "." +
         std::to_string(key.leg);
}

}  // namespace baton
