#include "common/model_file/safetensors_folder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "common/model_file/json_text.h"

namespace baton::model_file {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr uint64_t kMaxConfigBytes = 1u << 20;
constexpr uint64_t kMaxIndexBytes = 32u << 20;
constexpr size_t kMaxShards = 4096;
constexpr std::string_view kWeights = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

struct Name {
  std::string_view theirs;
  std::string_view gguf;
};

constexpr std::array kModelNames = {
    Name{"model.embed_tokens.weight", "token_embd.weight"},
    Name{"model.norm.weight", "output_norm.weight"},
    Name{"lm_head.weight", "output.weight"},
};

constexpr std::array kLayerNames = {
    Name{"input_layernorm.weight", "attn_norm.weight"},
    Name{"self_attn.q_proj.weight", "attn_q.weight"},
    Name{"self_attn.k_proj.weight", "attn_k.weight"},
    Name{"self_attn.v_proj.weight", "attn_v.weight"},
    Name{"self_attn.o_proj.weight", "attn_output.weight"},
    Name{"self_attn.q_proj.bias", "attn_q.bias"},
    Name{"self_attn.k_proj.bias", "attn_k.bias"},
    Name{"self_attn.v_proj.bias", "attn_v.bias"},
    Name{"self_attn.o_proj.bias", "attn_output.bias"},
    Name{"self_attn.q_norm.weight", "attn_q_norm.weight"},
    Name{"self_attn.k_norm.weight", "attn_k_norm.weight"},
    Name{"mlp.gate_proj.weight", "ffn_gate.weight"},
    Name{"mlp.up_proj.weight", "ffn_up.weight"},
    Name{"mlp.down_proj.weight", "ffn_down.weight"},
};

// With norms before each block alone, and with norms before and after it.
constexpr std::array kTwoNorms = {Name{"post_attention_layernorm.weight", "ffn_norm.weight"}};
constexpr std::array kFourNorms = {
    Name{"post_attention_layernorm.weight", "post_attention_norm.weight"},
    Name{"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    Name{"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
};

std::optional<std::string_view> looked_up(std::span<const Name> names, std::string_view theirs) {
  const auto it = std::ranges::find(names, theirs, &Name::theirs);
  return it == names.end() ? std::nullopt : std::optional(it->gguf);
}

float value_at(const SafetensorsTensor& tensor, size_t index) {
  if (tensor.type == TensorType::kF32) {
    float value = 0;
    std::memcpy(&value, tensor.data.data() + sizeof(value) * index, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, tensor.data.data() + sizeof(bits) * index, sizeof(bits));
  if (tensor.type == TensorType::kBF16) {
    return std::bit_cast<float>(uint32_t{bits} << 16);
  }
  // Multiplying moves the exponent from the bias of f16 to that of f32, denormals included. What is
  // infinite or NaN becomes a large number; no norm weight is.
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const float size = std::bit_cast<float>(uint32_t{bits & 0x7FFFu} << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(size));
}

// Elements of q and k biases in the order of GGUF (TensorInfo::halved_head_rows).
std::string interleaved(const SafetensorsTensor& tensor, uint32_t head_dim) {
  const size_t size = tensor_type_info(tensor.type).block_bytes;
  TensorInfo order{};
  order.halved_head_rows = head_dim;
  std::string out;
  for (uint64_t i = 0; i < tensor.shape[0]; ++i) {
    const auto* from = tensor.data.data() + order.stored_row(i) * size;
    out.append(reinterpret_cast<const char*>(from), size);
  }
  return out;
}

std::string with_one_added(const SafetensorsTensor& tensor) {
  std::string out;
  for (uint64_t i = 0; i < tensor.shape[0]; ++i) {
    const float value = value_at(tensor, i) + 1.0F;
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return out;
}

TensorInfo gguf_tensor(const SafetensorsTensor& source, const FolderConfig& config,
                       std::deque<std::string>& made) {
  const FolderArchitecture& architecture = *config.architecture;
  TensorInfo tensor{};
  tensor.name = made.emplace_back(gguf_tensor_name(source.name, architecture));
  tensor.type = source.type;
  tensor.n_dims = static_cast<uint32_t>(source.shape.size());
  tensor.dims = {1, 1, 1, 1};
  std::ranges::reverse_copy(source.shape, tensor.dims.begin());
  tensor.data = source.data;
  const bool vector = source.shape.size() == 1;
  if (architecture.norms_without_one && vector && tensor.name.ends_with("norm.weight")) {
    tensor.type = TensorType::kF32;
    tensor.data = std::as_bytes(std::span(made.emplace_back(with_one_added(source))));
  }
  const bool turned = tensor.name.ends_with("attn_q.weight") ||
                      tensor.name.ends_with("attn_k.weight") ||
                      tensor.name.ends_with("attn_q.bias") || tensor.name.ends_with("attn_k.bias");
  const uint64_t count = source.shape.front();
  // Where heads do not fit, the description refuses the shape.
  if (!architecture.halved_heads || !turned || config.head_dim == 0 || config.head_dim % 2 != 0 ||
      count % config.head_dim != 0) {
    return tensor;
  }
  if (vector) {
    tensor.data = std::as_bytes(std::span(made.emplace_back(interleaved(source, config.head_dim))));
  } else {
    tensor.halved_head_rows = config.head_dim;
  }
  return tensor;
}

struct Shard {
  std::string file;  // its name in the folder
  std::vector<SafetensorsTensor> tensors;
};

class FolderReader final {
 public:
  explicit FolderReader(const std::string& path) : path_(path) {}

  Result<ModelFileContents> run() {
    BATON_RETURN_IF_ERROR(check_kind());
    BATON_ASSIGN_OR_RETURN(const auto config_text, read_text("config.json", kMaxConfigBytes));
    BATON_ASSIGN_OR_RETURN(FolderConfig config, read_folder_config(config_text, in("config.json")));
    BATON_RETURN_IF_ERROR(open_shards());
    std::vector<SafetensorsTensor> tensors;
    for (Shard& shard : shards_) {
      std::ranges::move(shard.tensors, std::back_inserter(tensors));
    }
    BATON_ASSIGN_OR_RETURN(ModelFileContents contents,
                           join_folder(path_, std::move(config), tensors));
    contents.files = std::move(files_);
    return contents;
  }

 private:
  std::string in(std::string_view file) const { return path_ + "/" + std::string(file); }
  bool exists(std::string_view file) const {
    std::error_code absent;
    return fs::exists(in(file), absent);
  }

  Status check_kind() const {
    if (exists("config.json")) {
      return {};
    }
    if (exists("adapter_config.json")) {
      return unsupported(path_ +
                         ": is an adapter (adapter_config.json), not a model; merge it into its "
                         "model first");
    }
    return invalid_argument(path_ +
                            ": has safetensors but no config.json; give the whole model folder");
  }

  Result<std::span<const std::byte>> map(std::string_view file) {
    BATON_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(in(file)));
    files_.push_back(std::move(mapped));
    return files_.back().bytes();
  }

  Result<std::string_view> read_text(std::string_view file, uint64_t limit) {
    BATON_ASSIGN_OR_RETURN(const auto bytes, map(file));
    if (bytes.size() > limit) {
      return invalid_argument(in(file) + ": has " + std::to_string(bytes.size()) +
                              " bytes; at most " + std::to_string(limit) + " are read");
    }
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  Status open_shards() {
    if (exists(kWeights)) {
      return open_shard(std::string(kWeights));
    }
    if (!exists(kIndex)) {
      return invalid_argument(path_ + ": has neither " + std::string(kWeights) + " nor " +
                              std::string(kIndex));
    }
    BATON_RETURN_IF_ERROR(read_index());
    std::set<std::string> files;
    for (const auto& [tensor, file] : index_) {
      files.insert(file);
    }
    if (files.size() > kMaxShards) {
      return invalid_argument(in(kIndex) + ": names " + std::to_string(files.size()) +
                              " files; at most " + std::to_string(kMaxShards) + " are read");
    }
    for (const std::string& file : files) {
      if (!exists(file)) {
        return not_found(in(file) + ": no such file; " + in(kIndex) + " names it");
      }
      BATON_RETURN_IF_ERROR(open_shard(file));
    }
    return check_index();
  }

  Status read_index() {
    BATON_ASSIGN_OR_RETURN(const auto text, read_text(kIndex, kMaxIndexBytes));
    const Result<json::value> parsed = parse_json(text);
    if (!parsed.ok()) {
      return parsed.status().with_context(in(kIndex));
    }
    const json::object* whole = parsed->if_object();
    const json::value* map = whole != nullptr ? whole->if_contains("weight_map") : nullptr;
    if (map == nullptr || !map->is_object()) {
      return invalid_argument(in(kIndex) + ": has no 'weight_map'");
    }
    for (const auto& [tensor, file] : map->get_object()) {
      const json::string* name = file.if_string();
      const bool plain = name != nullptr && std::string_view(*name).ends_with(".safetensors") &&
                         std::string_view(*name).find('/') == std::string_view::npos;
      if (!plain) {
        return invalid_argument(
            in(kIndex) + ": tensor " + model_file::quoted(std::string_view(tensor)) + " lies in " +
            shown_json(file) + ", which is no .safetensors file of this folder");
      }
      index_[std::string(tensor)] = std::string(*name);
    }
    return {};
  }

  Status open_shard(const std::string& file) {
    BATON_ASSIGN_OR_RETURN(const auto bytes, map(file));
    Result<std::vector<SafetensorsTensor>> tensors = parse_safetensors(bytes);
    if (!tensors.ok()) {
      return tensors.status().with_context(in(file));
    }
    shards_.push_back({file, std::move(*tensors)});
    return {};
  }

  // Every tensor lies where the index says, and nowhere else.
  Status check_index() const {
    std::set<std::string_view> found;
    for (const Shard& shard : shards_) {
      for (const SafetensorsTensor& tensor : shard.tensors) {
        const auto it = index_.find(tensor.name);
        if (it == index_.end() || it->second != shard.file) {
          return invalid_argument(
              in(shard.file) + ": has the tensor " + model_file::quoted(tensor.name) + ", which " +
              std::string(kIndex) + (it == index_.end() ? " does not name" : " places elsewhere"));
        }
        found.insert(tensor.name);
      }
    }
    for (const auto& [name, file] : index_) {
      if (!found.contains(name)) {
        return invalid_argument(in(file) + ": tensor " + model_file::quoted(name) +
                                " is missing, which " + std::string(kIndex) + " names");
      }
    }
    return {};
  }

  const std::string& path_;
  std::vector<MappedFile> files_;
  std::map<std::string, std::string> index_;  // tensor to file
  std::vector<Shard> shards_;
};

}  // namespace

Result<ModelFileContents> open_safetensors_folder(const std::string& path) {
  return FolderReader(path).run();
}

Result<ModelFileContents> join_folder(const std::string& path, FolderConfig config,
                                      std::span<const SafetensorsTensor> tensors) {
  ModelFileContents out;
  out.name = path;
  bool has_head = false;
  for (const SafetensorsTensor& tensor : tensors) {
    const bool head = tensor.name == "lm_head.weight";
    has_head = has_head || head;
    // A tied model uses the embedding even where a file has a head. The frequencies follow from the
    // config.
    if ((head && config.tied) || tensor.name.ends_with(".rotary_emb.inv_freq")) {
      continue;
    }
    out.tensors.push_back(gguf_tensor(tensor, config, out.made));
  }
  if (!has_head && !config.tied) {
    return invalid_argument(path +
                            ": tensor 'lm_head.weight' is missing, and config.json does not tie "
                            "the head to the embedding");
  }
  std::ranges::sort(out.tensors, {}, &TensorInfo::name);
  const auto twin =
      std::ranges::adjacent_find(out.tensors, std::ranges::equal_to{}, &TensorInfo::name);
  if (twin != out.tensors.end()) {
    return invalid_argument(path + ": has the tensor " + model_file::quoted(twin->name) + " twice");
  }
  config.metadata.add_string("general.name", fs::path(path).filename().string());
  out.metadata = std::move(config.metadata).finish(out.made);
  return out;
}

std::string gguf_tensor_name(std::string_view name, const FolderArchitecture& architecture) {
  if (const auto known = looked_up(kModelNames, name)) {
    return std::string(*known);
  }
  constexpr std::string_view kLayers = "model.layers.";
  const size_t dot = name.starts_with(kLayers) ? name.find('.', kLayers.size()) : name.npos;
  if (dot == name.npos) {
    return std::string(name);
  }
  const std::string_view rest = name.substr(dot + 1);
  auto known = looked_up(kLayerNames, rest);
  if (!known) {
    known =
        architecture.norms_without_one ? looked_up(kFourNorms, rest) : looked_up(kTwoNorms, rest);
  }
  const std::string layer(name.substr(kLayers.size(), dot - kLayers.size()));
  return known ? "blk." + layer + "." + std::string(*known) : std::string(name);
}

}  // namespace baton::model_file
