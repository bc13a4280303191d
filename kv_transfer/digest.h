#pragma once

// Digests of transfers, XXH3-64 (https://xxhash.com). A DATA carries that of its payload; a COMMIT
// that over all DATAs of its ticket, in the order (layer, piece, rank), however they were batched
// and in whatever order they travelled.

#include <cstdint>
#include <span>
#include <vector>

#include "kv_transfer/data_path.h"

namespace baton::kv_transfer {

uint64_t payload_digest(std::span<const IoSlice> slices);

class CommitDigest {
 public:
  struct Record {
    uint32_t layer = 0;
    uint32_t first_piece = 0;
    uint32_t dst_rank = 0;
    uint32_t pieces = 0;
    uint64_t digest = 0;
  };
  void add(const Record& record) { records_.push_back(record); }
  size_t size() const { return records_.size(); }
  uint64_t finish();  // sorts; may be called again after more add()

 private:
  std::vector<Record> records_;
};

}  // namespace baton::kv_transfer
