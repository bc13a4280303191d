#pragma once

// Identifiers are types of their own, so that a block id never passes for a token id.

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace baton {

template <typename Tag, typename Value>
struct StrongId {
  Value value{};
  friend auto operator<=>(const StrongId&, const StrongId&) = default;
};

using TokenId = int32_t;   // index into the vocabulary; arrays of it cross every interface
using BlockId = uint32_t;  // index of a KV block in a worker's pool, the same on all its ranks
inline constexpr BlockId kNoBlock = 0xFFFFFFFF;

// Random per process life; 0 is invalid. Two lives of one worker name never share one.
using Incarnation = StrongId<struct IncarnationTag, uint64_t>;
// One sequence inside a worker; never reused within an incarnation.
using SequenceId = StrongId<struct SequenceTag, uint64_t>;

struct U128 {
  uint64_t hi = 0;
  uint64_t lo = 0;
  friend auto operator<=>(const U128&, const U128&) = default;
  bool is_zero() const { return hi == 0 && lo == 0; }
};
std::string to_hex(const U128& v);                        // 32 lower-case digits
std::optional<U128> u128_from_hex(std::string_view hex);  // exactly 32 digits, else nothing

// 128 bits, made by the router.
using RequestId = StrongId<struct RequestTag, U128>;

// One run of a request: attempt by the router, leg = index in the list of decode workers, by the
// prefill worker (rules: docs/protocol.md). Compared (attempt, leg): the greater is the newer.
struct RunKey {
  RequestId request;
  uint16_t attempt = 0;
  uint8_t leg = 0;
  friend auto operator<=>(const RunKey&, const RunKey&) = default;
};
std::string to_string(const RunKey& key);  // "<hex>/attempt.leg"

}  // namespace baton

template <>
struct std::hash<baton::U128> {
  size_t operator()(const baton::U128& v) const noexcept {
    return static_cast<size_t>(v.hi * 0x9E3779B97F4A7C15ull ^ v.lo);
  }
};
template <typename Tag, typename Value>
struct std::hash<baton::StrongId<Tag, Value>> {
  size_t operator()(const baton::StrongId<Tag, Value>& id) const noexcept {
    return std::hash<Value>()(id.value);
  }
};
template <>
struct std::hash<baton::RunKey> {
  size_t operator()(const baton::RunKey& k) const noexcept {
    return std::hash<baton::RequestId>()(k.request) * 31 + k.attempt * 257u + k.leg;
  }
};
