#pragma once

// The header of a DATA message: which pieces of which ticket follow. Addressing is by token; no
// address and no block id of the sender travels. Wire form: docs/protocol.md, little endian,
// packed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"

namespace baton::kv_transfer {

struct DataHeader {
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint32_t seq = 0;  // of the sender, for logs
  uint8_t dst_rank = 0;
  uint16_t layer = 0;
  uint8_t group = 0;     // cache group
  uint16_t head_lo = 0;  // of the model; always the whole range of dst_rank
  uint16_t head_hi = 0;
  uint32_t token_lo = 0;  // multiples of the push unit
  uint32_t token_hi = 0;
  uint64_t digest = 0;  // XXH3-64 of the payload; 0 when digests are off
  friend bool operator==(const DataHeader&, const DataHeader&) = default;
};

inline constexpr uint32_t kDataMagic = 0x54'4b'54'42;  // "BTKT"
inline constexpr uint16_t kDataVersion = 1;
inline constexpr size_t kDataHeaderBytes = 42;
using DataHeaderBytes = std::array<std::byte, kDataHeaderBytes>;

DataHeaderBytes encode_header(const DataHeader& header);
// invalid_argument for another size, magic or version. `bytes` need not be aligned.
Result<DataHeader> decode_header(std::span<const std::byte> bytes);

}  // namespace baton::kv_transfer
