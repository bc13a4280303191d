#include "common/config/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace baton::config {
namespace {

struct Unit {
  std::string_view name;
  int64_t factor;
};
// Largest first, as formatting tries them.
constexpr std::array<Unit, 5> kTimeUnits = {{{"h", 3'600'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"s", 1'000'000'000},
                                             {"ms", 1'000'000},
                                             {"us", 1'000}}};
constexpr std::array<Unit, 4> kSizeUnits = {
    {{"TiB", 1ll << 40}, {"GiB", 1ll << 30}, {"MiB", 1ll << 20}, {"KiB", 1ll << 10}}};
constexpr std::string_view kBlocks = "blocks";

template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) { return parse_whole<int64_t>(text); }

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789.");
  if (digits == std::string_view::npos || digits == 0) {
    return std::nullopt;
  }
  const std::optional<double> count = parse_number(text.substr(0, digits));
  for (const Unit& unit : kTimeUnits) {
    if (text.substr(digits) != unit.name || !count) {
      continue;
    }
    const double ns = *count * static_cast<double>(unit.factor);
    return ns <= 1e18 ? std::optional(Duration(std::llround(ns))) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t factor = 1;
  for (const Unit& unit : kSizeUnits) {
    if (text.ends_with(unit.name)) {
      factor = static_cast<uint64_t>(unit.factor);
      text.remove_suffix(unit.name.size());
      break;
    }
  }
  const std::optional<uint64_t> count = parse_whole<uint64_t>(text);
  if (!count || *count > UINT64_MAX / factor) {
    return std::nullopt;
  }
  return *count * factor;
}

std::optional<KvCacheSize> parse_kv_cache(std::string_view text) {
  if (text == "auto") {
    return KvCacheSize{};
  }
  if (text.ends_with(kBlocks)) {
    const auto count = parse_whole<uint64_t>(text.substr(0, text.size() - kBlocks.size()));
    if (!count || *count == 0) {
      return std::nullopt;
    }
    return KvCacheSize{KvCacheSize::Unit::kBlocks, *count};
  }
  const std::optional<uint64_t> bytes = parse_size(text);
  if (!bytes || *bytes == 0) {
    return std::nullopt;
  }
  return KvCacheSize{KvCacheSize::Unit::kBytes, *bytes};
}

std::string format_duration(Duration duration) {
  const int64_t ns = duration.count();
  for (const Unit& unit : kTimeUnits) {
    if (ns != 0 && ns % unit.factor == 0) {
      return std::to_string(ns / unit.factor) + std::string(unit.name);
    }
  }
  if (ns == 0) {
    return "0s";
  }
  return format_number(static_cast<double>(ns) / 1000) + "us";
}

std::string format_size(uint64_t bytes) {
  for (const Unit& unit : kSizeUnits) {
    const auto factor = static_cast<uint64_t>(unit.factor);
    if (bytes != 0 && bytes % factor == 0) {
      return std::to_string(bytes / factor) + std::string(unit.name);
    }
  }
  return std::to_string(bytes);
}

std::string format_kv_cache(const KvCacheSize& size) {
  switch (size.unit) {
    case KvCacheSize::Unit::kAuto:
      return "auto";
    case KvCacheSize::Unit::kBytes:
      return format_size(size.count);
    case KvCacheSize::Unit::kBlocks:
      return std::to_string(size.count) + std::string(kBlocks);
  }
  return "auto";
}

std::string format_number(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), error == std::errc() ? end : text.data());
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  const auto best = std::ranges::min_element(
      candidates, {}, [&](std::string_view c) { return edit_distance(word, c); });
  return best == candidates.end() ? std::string_view() : *best;
}

std::optional<std::string> host_of_address(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const auto port = parse_whole<uint16_t>(address.substr(colon + 1));
  std::string_view host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]/@ \t") != std::string_view::npos) {
    return std::nullopt;
  }
  if (!port || host.empty()) {
    return std::nullopt;
  }
  return std::string(host);
}

bool is_loopback(std::string_view host) {
  // A name may begin with "127.", too.
  const bool numeric = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (numeric && host.starts_with("127."));
}

}  // namespace baton::config
