#include "common/model/packed_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/log.h"
#include "common/model_file/model_hash.h"

namespace baton::model {
namespace {

using kernels::PackedMatrix;
using model_file::ModelFile;
using model_file::PackedFile;
using model_file::PackedFileWriter;
using model_file::PackedKey;
using model_file::ParallelFor;

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr size_t kWindow = size_t{32} << 20;  // packed at a time on the way to a file
constexpr Duration kLockPoll = 20ms;
// A file that has just changed may change again without another time stamp.
constexpr Duration kSettled = 2s;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Zeroed, on a 2 MiB boundary.
Result<std::unique_ptr<std::byte[], UnmapPacked>> zeroed_memory(size_t bytes) {
  const size_t mapped = bytes + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return resource_exhausted("no memory for " + std::to_string(bytes >> 20) +
                              " MiB of packed weights");
  }
  auto* begin = static_cast<std::byte*>(base);
  const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(base) % kHugePage) % kHugePage;
  if (skip > 0) {
    munmap(base, skip);
    begin += skip;
  }
  madvise(begin, mapped - skip, MADV_HUGEPAGE);  // a wish; without it pages are just smaller
  return std::unique_ptr<std::byte[], UnmapPacked>(begin, UnmapPacked{mapped - skip});
}

// One way through load_packed().
class Loading final {
 public:
  Loading(const ModelFile& model, std::span<PackedMatrix* const> matrices, WeightPacker& packer,
          const ParallelFor& parallel_for)
      : model_(model), matrices_(matrices), packer_(packer), parallel_for_(parallel_for) {
    std::vector<uint64_t> meaning = {kernels::kPackedVersion, kPage};
    for (const PackedMatrix* matrix : matrices) {
      offsets_.push_back(key_.bytes);
      key_.bytes = round_up(key_.bytes + matrix->bytes(), kPage);
      meaning.insert(meaning.end(),
                     {static_cast<uint64_t>(matrix->format()), static_cast<uint64_t>(matrix->n()),
                      static_cast<uint64_t>(matrix->k())});
    }
    offsets_.push_back(key_.bytes);
    key_.layout = model_file::packed_layout(meaning);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    settled_ = now - std::chrono::nanoseconds(model.identity().changed_ns) > kSettled;
  }

  uint64_t bytes() const { return key_.bytes; }

  // Opens a file and checks that it is of this model.
  Result<PackedWeights> find(const std::string& path) {
    BATON_ASSIGN_OR_RETURN(PackedFile file,
                           PackedFile::open(path, key_, model_.owner(), parallel_for_, hash_));
    PackedWeights out;
    out.model_hash = file.model_hash();
    if (!settled_ || file.model() != model_.identity()) {
      BATON_ASSIGN_OR_RETURN(const U128 hash, model_hash());
      if (hash != file.model_hash()) {
        return invalid_argument(path + ": it was made from another model");
      }
      note(path);
    }
    // Nobody writes through it: everything is packed.
    place(0, matrices_.size(), const_cast<std::byte*>(file.content().data()));
    out.file = std::move(file);
    return out;
  }

  // Packs into a file, then opens that. unavailable: another process is at it.
  Result<PackedWeights> make(const std::string& path) {
    BATON_ASSIGN_OR_RETURN(const U128 hash, model_hash());
    BATON_ASSIGN_OR_RETURN(PackedFileWriter writer, PackedFileWriter::create(path, key_));
    // Another process may have finished between the look and the lock.
    if (Result<PackedWeights> found = find(path); found.ok()) {
      return found;
    }
    log_info("packing weights", {{"file", path}, {"mib", key_.bytes >> 20}});
    BATON_RETURN_IF_ERROR(pack_into(writer));
    BATON_RETURN_IF_ERROR(writer.finish(hash, parallel_for_));
    note(path);
    return find(path);
  }

  Result<PackedWeights> pack_in_memory() {
    PackedWeights out;
    BATON_ASSIGN_OR_RETURN(out.model_hash, model_hash());
    BATON_ASSIGN_OR_RETURN(out.memory, zeroed_memory(key_.bytes));
    out.memory_bytes = key_.bytes;
    place(0, matrices_.size(), out.memory.get());
    packer_.pack(0, matrices_.size(), parallel_for_);
    return out;
  }

 private:
  Result<U128> model_hash() {
    if (!hash_) {
      BATON_ASSIGN_OR_RETURN(hash_, model_file::model_hash(model_));
    }
    return *hash_;
  }

  void note(const std::string& path) const {
    if (settled_) {
      PackedFile::note_model(path, model_.identity());
    }
  }

  // `memory` is where the first of them goes.
  void place(size_t first, size_t last, std::byte* memory) {
    for (size_t i = first; i < last; ++i) {
      matrices_[i]->place(memory + (offsets_[i] - offsets_[first]));
    }
  }

  // How far the window reaches that begins with this matrix: at least one.
  size_t window_end(size_t first) const {
    size_t last = first + 1;
    while (last < matrices_.size() && offsets_[last + 1] - offsets_[first] <= kWindow) {
      ++last;
    }
    return last;
  }

  Status pack_into(PackedFileWriter& writer) {
    size_t largest = 0;
    for (size_t first = 0; first < matrices_.size(); first = window_end(first)) {
      largest = std::max(largest, offsets_[window_end(first)] - offsets_[first]);
    }
    BATON_ASSIGN_OR_RETURN(const auto buffer, zeroed_memory(largest));
    for (size_t first = 0; first < matrices_.size();) {
      const size_t last = window_end(first);
      const size_t size = offsets_[last] - offsets_[first];
      std::memset(buffer.get(), 0, size);
      place(first, last, buffer.get());
      packer_.pack(first, last, parallel_for_);
      BATON_RETURN_IF_ERROR(writer.append({buffer.get(), size}));
      first = last;
    }
    return Status();
  }

  const ModelFile& model_;
  std::span<PackedMatrix* const> matrices_;
  WeightPacker& packer_;
  const ParallelFor& parallel_for_;
  std::vector<size_t> offsets_;  // of every matrix, and the end
  PackedKey key_;
  bool settled_ = false;
  std::optional<U128> hash_;
};

// Another process may be writing the same file: then this one waits for it, with its CPUs idle.
Result<PackedWeights> make_or_wait(Loading& loading, const std::string& path, Duration wait) {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + wait;
  while (true) {
    Result<PackedWeights> made = loading.make(path);
    if (made.ok() || made.status().code() != StatusCode::kUnavailable || clock.now() >= deadline) {
      return made;
    }
    std::this_thread::sleep_for(kLockPoll);
    Result<PackedWeights> found = loading.find(path);
    if (found.ok()) {
      return found;
    }
  }
}

}  // namespace

void UnmapPacked::operator()(std::byte* p) const { munmap(p, bytes); }

Result<PackedWeights> load_packed(const ModelFile& model, std::string_view variant,
                                  std::span<PackedMatrix* const> matrices, WeightPacker& packer,
                                  const KeptWeights& kept, const ParallelFor& parallel_for) {
  Loading loading(model, matrices, packer, parallel_for);
  if (kept.folders.empty() || loading.bytes() < kept.least_bytes) {
    return loading.pack_in_memory();
  }
  std::vector<std::string> paths;
  for (const std::string& folder : kept.folders) {
    paths.push_back(model_file::packed_file_path(folder, model.name(), variant));
    Result<PackedWeights> found = loading.find(paths.back());
    if (found.ok()) {
      return found;
    }
    if (found.status().code() != StatusCode::kNotFound) {
      log_info("packed weights are made anew", {{"reason", found.status().message()}});
    }
  }
  std::string reason;
  for (const std::string& path : paths) {
    Result<PackedWeights> made = make_or_wait(loading, path, kept.wait);
    if (made.ok()) {
      return made;
    }
    reason += (reason.empty() ? "" : "; ") + made.status().message();
  }
  log_info("packed weights are not kept, the next start packs them again", {{"reason", reason}});
  return loading.pack_in_memory();
}

bool has_packed_file(const std::vector<std::string>& folders, const std::string& model_path,
                     std::string_view variant, uint64_t least_bytes, uint64_t most_bytes) {
  return std::ranges::any_of(folders, [&](const std::string& folder) {
    std::error_code absent;
    const uint64_t bytes = std::filesystem::file_size(
        model_file::packed_file_path(folder, model_path, variant), absent);
    return !absent && bytes >= PackedFile::kContentAt + least_bytes &&
           bytes <= PackedFile::kContentAt + most_bytes;
  });
}

}  // namespace baton::model
