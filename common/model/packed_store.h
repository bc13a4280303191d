#pragma once

// Finds packed weights in a file that an earlier start has left, or packs them and leaves one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/kernels/matmul/matmul.h"
#include "common/model_file/model_file.h"
#include "common/model_file/packed_file.h"

namespace baton::model {

// Where packed weights are kept.
struct KeptWeights {
  // Looked into in this order; written to the first that takes it. Empty: they are not kept.
  std::vector<std::string> folders;
  uint64_t least_bytes = uint64_t{16} << 20;  // smaller ones are packed faster than found
  Duration wait = 300s;                       // for another process that packs the same
};

struct UnmapPacked {
  size_t bytes = 0;
  void operator()(std::byte* p) const;
};

// Memory that the matrices of a model lie in, one after another.
struct PackedWeights {
  std::optional<model_file::PackedFile> file;  // shared with other processes; else:
  std::unique_ptr<std::byte[], UnmapPacked> memory;
  size_t memory_bytes = 0;
  U128 model_hash;

  std::span<const std::byte> bytes() const {
    return file ? file->content() : std::span<const std::byte>(memory.get(), memory_bytes);
  }
};

// What can fill matrices that have been placed in zeroed memory.
class WeightPacker {
 public:
  virtual ~WeightPacker() = default;
  // Those with an index in [first, last).
  virtual void pack(size_t first, size_t last, const model_file::ParallelFor& parallel_for) = 0;
};

// Places all `matrices`, which are as yet without memory, and sees to it that they are packed.
// Whatever is wrong with a file or a folder costs time and a line in the log, nothing else.
// `variant` tells apart the files of one model.
Result<PackedWeights> load_packed(const model_file::ModelFile& model, std::string_view variant,
                                  std::span<kernels::PackedMatrix* const> matrices,
                                  WeightPacker& packer, const KeptWeights& kept,
                                  const model_file::ParallelFor& parallel_for);

// Whether one of the folders has such a file, by its name and the size of its content alone.
bool has_packed_file(const std::vector<std::string>& folders, const std::string& model_path,
                     std::string_view variant, uint64_t least_bytes, uint64_t most_bytes);

}  // namespace baton::model
