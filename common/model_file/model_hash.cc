#include "common/model_file/model_hash.h"

#include <string>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace baton::model_file {
namespace {

class Hasher final {
 public:
  Hasher() { XXH3_128bits_reset(&state_); }

  void add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(&state_, bytes.data(), bytes.size());
  }
  void add(uint64_t value) { XXH3_128bits_update(&state_, &value, sizeof(value)); }
  // With its length, so that neighbours cannot trade bytes.
  void add(std::string_view text) {
    add(text.size());
    XXH3_128bits_update(&state_, text.data(), text.size());
  }

  U128 digest() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.high64, hash.low64};
  }

 private:
  XXH3_state_t state_;
};

}  // namespace

Result<U128> model_hash(const ModelFile& file) {
  BATON_ASSIGN_OR_RETURN(const auto architecture, file.get_string("general.architecture"));
  const std::string prefix = std::string(architecture) + ".";
  Hasher hasher;
  hasher.add(architecture);
  for (const MetadataEntry& entry : file.metadata()) {
    if (entry.key.starts_with(prefix)) {
      hasher.add(entry.key);
      hasher.add(static_cast<uint64_t>(entry.type));
      hasher.add(static_cast<uint64_t>(entry.element_type));
      hasher.add(entry.value.size());
      hasher.add(entry.value);
    }
  }
  for (const TensorInfo& tensor : file.tensors()) {
    hasher.add(tensor.name);
    hasher.add(static_cast<uint64_t>(tensor.type));
    hasher.add(tensor.n_dims);
    for (const uint64_t dim : tensor.dims) {
      hasher.add(dim);
    }
  }
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.halved_head_rows == 0) {
      hasher.add(tensor.data);
      continue;
    }
    for (uint64_t row = 0; row < tensor.rows(); ++row) {
      hasher.add(tensor.row(row));
    }
  }
  return hasher.digest();
}

}  // namespace baton::model_file
