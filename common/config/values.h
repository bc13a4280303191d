#pragma once

// Values as text: durations, sizes, KV pools, CPU lists, distances between words. No file is read.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/config/config.h"

namespace baton::config {

// Nothing when the text is not of that form or does not fit.
std::optional<Duration> parse_duration(std::string_view text);     // 30s 500ms 1.5h; us ms s m h
std::optional<uint64_t> parse_size(std::string_view text);         // 4096 512MiB; KiB MiB GiB TiB
std::optional<KvCacheSize> parse_kv_cache(std::string_view text);  // auto 512MiB 64blocks
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// The shortest text that reads back to the same value.
std::string format_duration(Duration duration);
std::string format_size(uint64_t bytes);
std::string format_kv_cache(const KvCacheSize& size);
std::string format_number(double value);

// Levenshtein; O(|a| |b|).
size_t edit_distance(std::string_view a, std::string_view b);
// The candidate with the smallest distance, the first of equals; empty without candidates.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// "127.0.0.1:80", "[::1]:80", "host:80": the host without brackets, or nothing.
std::optional<std::string> host_of_address(std::string_view address);
// Whether only this machine can reach it; a name other than localhost counts as remote.
bool is_loopback(std::string_view host);

}  // namespace baton::config
