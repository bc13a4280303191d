#include "kv_transfer/digest.h"

// The entry points that choose the widest instructions at run time: several times as fast as the
// baseline build of the library.
#include <xxh_x86dispatch.h>

#include <algorithm>
#include <memory>
#include <tuple>

namespace baton::kv_transfer {
namespace {

static_assert(sizeof(CommitDigest::Record) == 24, "hashed as it lies: no padding");

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

uint64_t payload_digest(std::span<const IoSlice> slices) {
  if (slices.size() == 1) {
    return XXH3_64bits(slices.front().data, slices.front().bytes);
  }
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_64bits_reset(state.get());
  for (const IoSlice& slice : slices) {
    XXH3_64bits_update(state.get(), slice.data, slice.bytes);
  }
  return XXH3_64bits_digest(state.get());
}

uint64_t CommitDigest::finish() {
  std::sort(records_.begin(), records_.end(), [](const Record& a, const Record& b) {
    return std::tie(a.layer, a.first_piece, a.dst_rank) <
           std::tie(b.layer, b.first_piece, b.dst_rank);
  });
  return XXH3_64bits(records_.data(), records_.size() * sizeof(Record));
}

}  // namespace baton::kv_transfer
