#pragma once

// Inside of describe(): the metadata under "<architecture>.", read with limits, and its messages.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/architectures.h"
#include "common/model/rope.h"
#include "common/model_file/model_file.h"

namespace baton::model {

// "%.9g": tells any two floats apart.
std::string number_text(double value);
// A value as text: what KeyRule::neutral is compared with and what messages show.
std::string value_text(const model_file::ModelFile& file, const model_file::MetadataEntry& entry);

// Borrows both.
class KeyReader final {
 public:
  KeyReader(const model_file::ModelFile& file, const Architecture& architecture)
      : file_(file), architecture_(architecture) {}

  const model_file::ModelFile& file() const { return file_; }
  const Architecture& architecture() const { return architecture_; }

  std::string key(std::string_view suffix) const {
    return std::string(architecture_.name) + "." + std::string(suffix);
  }
  bool has(std::string_view suffix) const { return file_.has(key(suffix)); }

  // A file that contradicts itself or lacks something; one that asks for what Baton does not do.
  Status wrong(const std::string& text) const {
    return invalid_argument(file_.name() + ": " + text);
  }
  Status refused(const std::string& text) const { return unsupported(file_.name() + ": " + text); }
  // "'llama.block_count' = '30'".
  std::string shown(const model_file::MetadataEntry& entry) const;

  // invalid_argument unless 1 <= value <= limit.
  Status check_limit(const std::string& what, uint32_t value, uint32_t limit) const;
  Result<int> get_int(std::string_view suffix, uint32_t limit) const;
  Result<int> find_int(std::string_view suffix, uint32_t limit, int otherwise) const;

  struct Bounds {
    float least;
    float most;  // both included
  };
  Result<float> find_float(std::string_view suffix, Bounds bounds, float otherwise) const;

 private:
  const model_file::ModelFile& file_;
  const Architecture& architecture_;
};

// The RoPE of layers that see everything, without its divisors.
Result<RopeDescription> read_rope(const KeyReader& keys, int head_dim, int max_context);
// Of each layer, the keys that it sees; 0: all.
Result<std::vector<int>> read_windows(const KeyReader& keys, int layers);
// Of a file whose tensors are known to have the shapes of the architecture; empty: none there.
Result<std::vector<float>> read_divisors(const KeyReader& keys);

}  // namespace baton::model
