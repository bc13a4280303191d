#include "common/engine/memory_need.h"

#include <algorithm>

#include "common/engine/cache_shape.h"
#include "common/model/architectures.h"
#include "common/model/packed_store.h"
#include "common/model/source_type.h"
#include "common/model/weights.h"

namespace baton::engine {
namespace {

using model_file::TensorInfo;

constexpr uint64_t kProgramBytes = 64ull << 20;  // code, heap, transport buffers, logits

uint64_t matrix_bytes(const TensorInfo& tensor, model::WeightPool pool) {
  const kernels::WeightFormat format =
      pool == model::WeightPool::kPrefill ? kernels::WeightFormat::kBf16Panels
                                          : kernels::decode_format(model::source_type(tensor.type));
  return kernels::packed_bytes(format, static_cast<int>(tensor.rows()),
                               static_cast<int>(tensor.row_elements()));
}

struct WeightSizes {
  uint64_t matrices = 0;  // bytes; these are packed
  uint64_t count = 0;     // of matrices
  uint64_t vectors = 0;   // bytes
};

// What describe() has checked: every tensor is one that the architecture names.
WeightSizes weight_sizes(const model_file::ModelFile& file,
                         const model::ModelDescription& description, model::WeightPool pool) {
  const model::Architecture* architecture = model::find_architecture(description.architecture);
  const auto name_of = [architecture](model::TensorRole role) {
    return model::tensor_name(model::tensor_rule(*architecture, role), 0);
  };
  const std::string embedding = name_of(model::TensorRole::kTokenEmbedding);
  const std::string head = description.tied ? embedding : name_of(model::TensorRole::kOutput);
  const std::string divisors = name_of(model::TensorRole::kRopeFreqs);  // kept in RoPE tables only
  WeightSizes sizes;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name == divisors) {
      continue;
    }
    if (tensor.rows() == 1 && tensor.name != head) {
      sizes.vectors += tensor.row_elements() * sizeof(float);
    } else if (tensor.name == head || tensor.name != embedding) {
      // The embedding's rows are read from the file; the head is the same in both pools.
      sizes.matrices +=
          matrix_bytes(tensor, tensor.name == head ? model::WeightPool::kDecode : pool);
      ++sizes.count;
    }
  }
  return sizes;
}

// Whether a folder has a packed file of these weights, by its name and size. Each rank may have
// its own copy of a matrix, and each begins on a page.
bool is_packed(const EngineOptions& options, const std::string& model_name,
               const model::SegmentPlan& plan, const WeightSizes& sizes) {
  constexpr uint64_t kPage = 4096;
  const std::string variant = model::packed_variant(weight_pool(options), plan);
  const uint64_t most =
      static_cast<uint64_t>(plan.ranks()) * (sizes.matrices + sizes.count * kPage);
  return model::has_packed_file(options.packed_folders, model_name, variant, sizes.matrices, most);
}

uint64_t rest_bytes(const EngineOptions& options, const model::ModelDescription& d) {
  const auto hidden = static_cast<uint64_t>(d.hidden);
  const auto ffn = static_cast<uint64_t>(d.ffn);
  const auto qkv =
      static_cast<uint64_t>(d.heads + 2 * d.kv_heads) * static_cast<uint64_t>(d.head_dim);
  const uint64_t row = sizeof(float) * (2 * hidden + qkv + 2 * ffn) + 2 * (2 * hidden + ffn);
  uint64_t rope = 0;
  for (const model::RopeDescription& r : d.ropes) {
    rope += static_cast<uint64_t>(d.max_context) * static_cast<uint64_t>(r.dims);
  }
  return kProgramBytes + row * static_cast<uint64_t>(options.max_batch_tokens) +
         sizeof(float) * rope;
}

std::string mib(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); }

std::string text_of(const ProgramNeed& program) {
  const MemoryNeed& need = program.need;
  if (need.weights == 0 && need.kv_cache == 0) {
    return program.name + " " + mib(need.rest);
  }
  return program.name + (need.weights > 0 ? " weights " + mib(need.weights) + " +" : "") +
         " KV pool " + mib(need.kv_cache) + " + rest " + mib(need.rest);
}

}  // namespace

model::WeightPool weight_pool(const EngineOptions& options) {
  return options.pool == EngineOptions::Pool::kPrefill
             ? model::prompt_pool(options.isa, options.arithmetic)
             : model::WeightPool::kDecode;
}

Result<MemoryNeed> memory_need(const EngineOptions& options) {
  BATON_ASSIGN_OR_RETURN(const model_file::ModelFile file,
                         model_file::ModelFile::open(options.model_path));
  BATON_ASSIGN_OR_RETURN(model::ModelDescription description, model::describe(file));
  if (options.max_context > 0) {
    description.max_context = std::min(description.max_context, options.max_context);
  }
  const auto ranks = static_cast<int>(options.team.cpus.size());
  BATON_ASSIGN_OR_RETURN(const model::SegmentPlan plan,
                         model::SegmentPlan::create(description, options.segments, ranks));
  MemoryNeed need;
  const WeightSizes sizes = weight_sizes(file, description, weight_pool(options));
  need.weights =
      sizes.vectors + (is_packed(options, file.name(), plan, sizes) ? 0 : sizes.matrices);
  need.rest = rest_bytes(options, description);
  need.kv_cache = options.kv_bytes;
  if (options.blocks > 0) {
    BATON_ASSIGN_OR_RETURN(const kv_cache::KvLayout layout,
                           cache_layout(description, options.block_tokens));
    BATON_ASSIGN_OR_RETURN(const std::vector<int> blocks,
                           cache_blocks(options, layout, plan, description.max_context));
    need.kv_cache = 0;
    for (int group = 0; group < layout.group_count(); ++group) {
      need.kv_cache += group_block_bytes(layout, group, plan) *
                       static_cast<uint64_t>(blocks[static_cast<size_t>(group)]);
    }
  }
  return need;
}

Status check_memory(std::string_view who, std::span<const ProgramNeed> programs,
                    uint64_t available_bytes) {
  uint64_t total = 0;
  std::string sum;
  for (const ProgramNeed& program : programs) {
    total += program.need.total();
    sum += (sum.empty() ? "" : "; ") + text_of(program);
  }
  if (total <= available_bytes) {
    return Status();
  }
  return resource_exhausted(std::string(who) + " needs " + mib(total) + " MiB of memory, " +
                            std::to_string(available_bytes >> 20) + " MiB are available (" + sum +
                            "); take a smaller model or lower kv_cache");
}

}  // namespace baton::engine
