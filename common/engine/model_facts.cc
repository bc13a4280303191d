#include "common/engine/model_facts.h"

#include <algorithm>
#include <map>
#include <span>

#include "common/base/clock.h"
#include "common/device/compute_team.h"
#include "common/model/description.h"
#include "common/model/open_model.h"

namespace baton::engine {
namespace {

// Beyond the caches of any processor; more weights are read no slower.
constexpr uint64_t kMostProbedBytes = 256ull << 20;
constexpr uint64_t kLeastProbedBytes = 1ull << 20;
constexpr uint64_t kKvElementBytes = 2;

void count_tensors(const model_file::ModelFile& file, ModelFacts& facts) {
  std::map<std::string_view, TensorTypeFacts> types;
  for (const model_file::TensorInfo& tensor : file.tensors()) {
    const std::string_view name = model_file::tensor_type_info(tensor.type).name;
    TensorTypeFacts& type = types[name];
    type.name = name;
    ++type.tensors;
    type.bytes += tensor.data.size();
    ++facts.tensors;
    facts.parameters += tensor.rows() * tensor.row_elements();
    facts.bytes += tensor.data.size();
  }
  for (auto& [name, type] : types) {
    facts.types.push_back(std::move(type));
  }
  std::ranges::sort(facts.types, [](const TensorTypeFacts& a, const TensorTypeFacts& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
}

}  // namespace

Result<ModelFacts> model_facts(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const model_file::ModelFile file, model_file::ModelFile::open(path));
  ModelFacts facts;
  facts.path = file.name();
  const auto text_of = [&file](std::string_view key) {
    const auto text = file.find_string(key);
    return std::string(text.ok() ? text->value_or("") : "");
  };
  facts.architecture = text_of("general.architecture");
  facts.name = text_of("general.name");
  count_tensors(file, facts);
  for (const Status& fault : model::describe_faults(file)) {
    facts.refused.emplace_back(fault.message());
  }
  if (facts.refused.empty()) {
    BATON_ASSIGN_OR_RETURN(facts.description, model::describe(file));
  }
  return facts;
}

KvPerToken kv_per_token(const model::ModelDescription& model) {
  const uint64_t layer = 2 * kKvElementBytes * static_cast<uint64_t>(model.kv_heads) *
                         static_cast<uint64_t>(model.head_dim);
  KvPerToken kv;
  for (int i = 0; i < model.layers; ++i) {
    const int window = model.window(i);
    (window > 0 ? kv.windows : kv.full) += layer;
    kv.window_layers += window > 0 ? 1 : 0;
    kv.window = std::max(kv.window, window);
  }
  return kv;
}

Result<model::MachineProbe> probe_peaks(const device::TeamOptions& team, device::Isa isa,
                                        uint64_t weight_bytes, Duration time) {
  BATON_ASSIGN_OR_RETURN(const auto threads, device::ComputeTeam::create(team));
  const auto count = static_cast<size_t>(threads->ranks() * threads->threads_per_rank());
  const uint64_t bytes = std::clamp(weight_bytes, kLeastProbedBytes, kMostProbedBytes) / count;
  std::vector<model::MachineProbe> probes(count);
  const SteadyClock clock;
  threads->run([&](device::TeamThread& thread) {
    const auto index = static_cast<size_t>(thread.rank * thread.threads + thread.thread);
    const std::vector<std::byte> buffer(bytes, std::byte{1});
    probes[index] = model::probe_machine(buffer, isa, clock, time);
  });
  model::MachineProbe sum;
  for (const model::MachineProbe& probe : probes) {
    sum.flops += probe.flops;
    sum.read_bytes_per_s += probe.read_bytes_per_s;
  }
  return sum;
}

}  // namespace baton::engine
