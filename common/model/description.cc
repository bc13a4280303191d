#include "common/model/description.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model/architectures.h"
#include "common/model/key_reader.h"
#include "common/model/source_type.h"

namespace baton::model {
namespace {

using model_file::MetadataEntry;
using model_file::MetadataType;
using model_file::ModelFile;
using model_file::TensorInfo;

// Above every published model, and small enough that products of two stay in int64 and what is
// allocated without bytes of the file behind it (RoPE tables) below 2 GiB.
constexpr uint32_t kMaxHidden = 1u << 17;
constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxHeads = 4096;
constexpr uint32_t kMaxHeadDim = kernels::kMaxHeadDim;
constexpr uint32_t kMaxFfn = 1u << 20;
constexpr uint32_t kMaxVocab = 1u << 22;
constexpr uint32_t kMaxContext = 1u << 20;

// Keys that say nothing about the computation, by prefix.
constexpr std::array<std::string_view, 5> kDescriptivePrefixes = {
    "general.", "tokenizer.", "quantize.", "split.", "mradermacher."};

// "'blk.3.attn_q.weight'" -> layer 3, "attn_q.weight"; nothing for other names and odd spellings.
struct LayerName {
  int layer;
  std::string_view rest;
};
std::optional<LayerName> split_layer_name(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const std::string_view tail = name.substr(kPrefix.size());
  int layer = -1;
  const auto [end, error] = std::from_chars(tail.data(), tail.data() + tail.size(), layer);
  const auto digits = static_cast<size_t>(end - tail.data());
  const bool odd = error != std::errc() || layer < 0 || (digits > 1 && tail[0] == '0');
  if (odd || digits >= tail.size() || tail[digits] != '.') {
    return std::nullopt;
  }
  return LayerName{layer, tail.substr(digits + 1)};
}

// What a tensor that the description does not know stands for.
std::string_view feature_of_tensor(std::string_view name) {
  if (name.ends_with(".bias")) {
    return " (a bias)";
  }
  if (name.find("_exps.") != std::string_view::npos ||
      name.find("gate_inp") != std::string_view::npos) {
    return " (mixture of experts)";
  }
  if (name.find("_q_norm.") != std::string_view::npos ||
      name.find("_k_norm.") != std::string_view::npos) {
    return " (normalised q and k)";
  }
  if (name.find("lora") != std::string_view::npos) {
    return " (an adapter)";
  }
  if (name.find("post_") != std::string_view::npos) {
    return " (a norm after the layer)";
  }
  return "";
}

class Describer final {
 public:
  Describer(const ModelFile& file, const Architecture& architecture)
      : file_(file), architecture_(architecture), keys_(file, architecture) {}

  // Everything that is wrong, as far as one fault does not hide another.
  std::vector<Status> run() {
    check_keys();
    const Status sizes = read_all_sizes();
    note(sizes);
    if (sizes.ok()) {
      check_present();
      check_unknown();
    }
    if (faults_.empty()) {
      note(finish());
    }
    return std::move(faults_);
  }
  const ModelDescription& description() const { return d_; }

 private:
  void note(Status status) {
    if (!status.ok()) {
      faults_.push_back(std::move(status));
    }
  }

  Status read_all_sizes() {
    BATON_RETURN_IF_ERROR(read_sizes());
    BATON_RETURN_IF_ERROR(read_heads());
    BATON_RETURN_IF_ERROR(read_scale());
    BATON_RETURN_IF_ERROR(read_attention());
    return read_vocab();
  }

  Status finish() {
    BATON_ASSIGN_OR_RETURN(d_.ropes.front().divisors, read_divisors(keys_));
    d_.architecture = architecture_.name;
    d_.activation = architecture_.activation;
    d_.embedding_scale =
        architecture_.scaled_embedding ? std::sqrt(static_cast<float>(d_.hidden)) : 1.0F;
    d_.tied = file_.find_tensor(name_of(TensorRole::kOutput)) == nullptr;
    BATON_ASSIGN_OR_RETURN(const auto name, file_.find_string("general.name"));
    d_.name = std::string(name.value_or(file_.name()));
    return {};
  }

  Status wrong(const std::string& text) const { return keys_.wrong(text); }
  Status refused(const std::string& text) const { return keys_.refused(text); }
  std::string key(std::string_view suffix) const { return keys_.key(suffix); }
  std::string name_of(TensorRole role) const {
    return tensor_name(tensor_rule(architecture_, role), 0);
  }

  void check_keys() {
    const std::string prefix = key("");
    for (const MetadataEntry& entry : file_.metadata()) {
      if (entry.key.starts_with(prefix)) {
        note(check_key(entry, entry.key.substr(prefix.size())));
        continue;
      }
      const auto starts = [&](std::string_view p) { return entry.key.starts_with(p); };
      if (std::ranges::none_of(kDescriptivePrefixes, starts)) {
        note(refused("has the key " + keys_.shown(entry) + ", which Baton does not know"));
      }
    }
    note(require_neutral("general.type", "model"));
    note(require_neutral("general.quantization_version", "2"));
  }

  Status check_key(const MetadataEntry& entry, std::string_view suffix) const {
    const auto rule = std::ranges::find(architecture_.keys, suffix, &KeyRule::suffix);
    if (rule == architecture_.keys.end()) {
      return refused("has the key " + keys_.shown(entry) + ", which Baton does not know for " +
                     std::string(architecture_.name));
    }
    if (!rule->neutral.empty() && value_text(file_, entry) != rule->neutral) {
      return refused("asks with " + keys_.shown(entry) + " for " + std::string(rule->feature) +
                     ", which Baton does not do");
    }
    return {};
  }

  Status require_neutral(std::string_view name, std::string_view value) const {
    const MetadataEntry* entry = file_.find(name);
    if (entry != nullptr && value_text(file_, *entry) != value) {
      return refused("has " + keys_.shown(*entry) + "; Baton reads " + model_file::quoted(value));
    }
    return {};
  }

  Status read_sizes() {
    BATON_ASSIGN_OR_RETURN(d_.hidden, keys_.get_int("embedding_length", kMaxHidden));
    BATON_ASSIGN_OR_RETURN(d_.layers, keys_.get_int("block_count", kMaxLayers));
    BATON_ASSIGN_OR_RETURN(d_.ffn, keys_.get_int("feed_forward_length", kMaxFfn));
    BATON_ASSIGN_OR_RETURN(d_.max_context, keys_.get_int("context_length", kMaxContext));
    BATON_ASSIGN_OR_RETURN(d_.norm_eps, file_.get_f32(key("attention.layer_norm_rms_epsilon")));
    if (!(d_.norm_eps > 0.0F && d_.norm_eps < 1.0F)) {
      return wrong(model_file::quoted(key("attention.layer_norm_rms_epsilon")) + " is " +
                   number_text(d_.norm_eps) + "; it must lie between 0 and 1");
    }
    return {};
  }

  Status read_heads() {
    BATON_ASSIGN_OR_RETURN(d_.heads, keys_.get_int("attention.head_count", kMaxHeads));
    BATON_ASSIGN_OR_RETURN(d_.kv_heads,
                           keys_.find_int("attention.head_count_kv", kMaxHeads, d_.heads));
    if (d_.heads % d_.kv_heads != 0) {
      return wrong(std::to_string(d_.heads) + " query heads are no multiple of " +
                   std::to_string(d_.kv_heads) + " KV heads");
    }
    const bool has_length = file_.has(key("attention.key_length"));
    if (!has_length && d_.hidden % d_.heads != 0) {
      return wrong(model_file::quoted(key("attention.key_length")) + " is missing and " +
                   std::to_string(d_.hidden) + " / " + std::to_string(d_.heads) +
                   " heads is no whole number");
    }
    BATON_ASSIGN_OR_RETURN(
        d_.head_dim, keys_.find_int("attention.key_length", kMaxHeadDim, d_.hidden / d_.heads));
    BATON_ASSIGN_OR_RETURN(const int v_dim,
                           keys_.find_int("attention.value_length", kMaxHeadDim, d_.head_dim));
    BATON_RETURN_IF_ERROR(
        keys_.check_limit("the head dimension", static_cast<uint32_t>(d_.head_dim), kMaxHeadDim));
    if (v_dim != d_.head_dim) {
      return refused("has keys of " + std::to_string(d_.head_dim) + " and values of " +
                     std::to_string(v_dim) + " elements; Baton needs them equal");
    }
    if (d_.head_dim % 2 != 0) {
      return refused("has an odd head dimension, " + std::to_string(d_.head_dim));
    }
    if (static_cast<uint32_t>(d_.heads * d_.head_dim) > kMaxHidden) {
      return wrong(std::to_string(d_.heads) + " heads of " + std::to_string(d_.head_dim) +
                   " are more than " + std::to_string(kMaxHidden) + " elements");
    }
    return {};
  }

  Status read_scale() {
    const bool by_hidden = d_.layers == architecture_.layers_scaled_by_hidden;
    const auto width = static_cast<float>(by_hidden ? d_.hidden / d_.heads : d_.head_dim);
    BATON_ASSIGN_OR_RETURN(d_.attention_scale, keys_.find_float("attention.scale", {1e-6F, 1e6F},
                                                                1.0F / std::sqrt(width)));
    return {};
  }

  Status read_attention() {
    BATON_ASSIGN_OR_RETURN(d_.ropes.front(), read_rope(keys_, d_.head_dim, d_.max_context));
    BATON_ASSIGN_OR_RETURN(const std::vector<int> windows, read_windows(keys_, d_.layers));
    if (std::ranges::count(windows, 0) == d_.layers) {
      return {};
    }
    const bool own_rope = architecture_.window_rope_base > 0;
    if (own_rope) {
      RopeDescription rope = {.dims = d_.ropes.front().dims,
                              .interleaved = d_.ropes.front().interleaved};
      BATON_ASSIGN_OR_RETURN(rope.base, keys_.find_float("rope.freq_base_swa", {1.0F, 1e12F},
                                                         architecture_.window_rope_base));
      d_.ropes.push_back(std::move(rope));
    }
    for (const int window : windows) {
      // One that no context fills is none.
      d_.attention.push_back(
          {.window = window < d_.max_context ? window : 0, .rope = own_rope && window > 0 ? 1 : 0});
    }
    return {};
  }

  Status read_vocab() {
    BATON_ASSIGN_OR_RETURN(const TensorInfo* embedding,
                           file_.get_tensor(name_of(TensorRole::kTokenEmbedding)));
    if (embedding->dims[1] < 1 || embedding->dims[1] > kMaxVocab) {
      return wrong("the embedding has " + std::to_string(embedding->dims[1]) +
                   " rows; it must have 1 to " + std::to_string(kMaxVocab));
    }
    d_.vocab = static_cast<int>(embedding->dims[1]);
    BATON_ASSIGN_OR_RETURN(const int said, keys_.find_int("vocab_size", kMaxVocab, d_.vocab));
    if (said != d_.vocab) {
      return wrong(model_file::quoted(key("vocab_size")) + " is " + std::to_string(said) +
                   ", but the embedding has " + std::to_string(d_.vocab) + " rows");
    }
    const MetadataEntry* tokens = file_.find("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->count > static_cast<uint64_t>(d_.vocab)) {
      return wrong("'tokenizer.ggml.tokens' has " + std::to_string(tokens->count) +
                   " tokens, but the embedding has " + std::to_string(d_.vocab) + " rows");
    }
    return {};
  }

  uint64_t extent(Extent e) const {
    switch (e) {
      case Extent::kOne:
        return 1;
      case Extent::kHidden:
        return static_cast<uint64_t>(d_.hidden);
      case Extent::kQuery:
        return static_cast<uint64_t>(d_.heads) * static_cast<uint64_t>(d_.head_dim);
      case Extent::kKeyValue:
        return static_cast<uint64_t>(d_.kv_heads) * static_cast<uint64_t>(d_.head_dim);
      case Extent::kHeadDim:
        return static_cast<uint64_t>(d_.head_dim);
      case Extent::kRopePairs:
        return static_cast<uint64_t>(d_.ropes.front().dims / 2);
      case Extent::kFfn:
        return static_cast<uint64_t>(d_.ffn);
      case Extent::kVocab:
        return static_cast<uint64_t>(d_.vocab);
    }
    return 0;
  }

  Status check_tensor(const TensorRule& rule, int layer) const {
    const std::string name = tensor_name(rule, layer);
    const TensorInfo* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      return wrong("tensor " + model_file::quoted(name) + " is missing");
    }
    const std::array<uint64_t, 4> dims = {extent(rule.columns), extent(rule.rows), 1, 1};
    if (tensor->dims != dims) {
      return wrong("tensor " + model_file::quoted(name) + " is " + dims_to_string(*tensor) +
                   "; the metadata calls for [" + std::to_string(dims[0]) + ", " +
                   std::to_string(dims[1]) + "]");
    }
    if (rule.rows == Extent::kOne && !is_plain(tensor->type)) {
      return refused("tensor " + model_file::quoted(name) + " is " +
                     std::string(tensor_type_info(tensor->type).name) +
                     "; norm weights and biases must be F32, F16 or BF16");
    }
    return {};
  }

  void check_present() {
    for (const TensorRule& rule : architecture_.tensors) {
      if (rule.optional && !has_any(rule)) {
        continue;
      }
      for (int layer = 0; layer < (rule.per_layer ? d_.layers : 1); ++layer) {
        note(check_tensor(rule, layer));
      }
    }
  }

  bool has_any(const TensorRule& rule) const {
    for (int layer = 0; layer < (rule.per_layer ? d_.layers : 1); ++layer) {
      if (file_.find_tensor(tensor_name(rule, layer)) != nullptr) {
        return true;
      }
    }
    return false;
  }

  bool is_known(std::string_view name) const {
    const auto layered = split_layer_name(name);
    const auto fits = [&](const TensorRule& rule) {
      return rule.per_layer ? layered && layered->layer < d_.layers && layered->rest == rule.name
                            : name == rule.name;
    };
    return std::ranges::any_of(architecture_.tensors, fits);
  }

  void check_unknown() {
    for (const TensorInfo& tensor : file_.tensors()) {
      if (!is_known(tensor.name)) {
        note(refused("has the tensor " + model_file::quoted(tensor.name) +
                     std::string(feature_of_tensor(tensor.name)) +
                     ", which Baton does not use for " + std::string(architecture_.name)));
      }
    }
  }

  const ModelFile& file_;
  const Architecture& architecture_;
  const KeyReader keys_;
  ModelDescription d_;
  std::vector<Status> faults_;
};

struct Described {
  ModelDescription description;  // means something without faults
  std::vector<Status> faults;
};

Described describe_all(const ModelFile& file) {
  Described out;
  const Result<std::string_view> name = file.get_string("general.architecture");
  if (!name.ok()) {
    out.faults.push_back(name.status());
    return out;
  }
  const Architecture* architecture = find_architecture(*name);
  if (architecture == nullptr) {
    out.faults.push_back(unsupported(file.name() + ": architecture " + model_file::quoted(*name) +
                                     " is not supported; Baton runs: " + architecture_names()));
    return out;
  }
  Describer describer(file, *architecture);
  out.faults = describer.run();
  out.description = describer.description();
  return out;
}

}  // namespace

Result<ModelDescription> describe(const ModelFile& file) {
  Described described = describe_all(file);
  if (!described.faults.empty()) {
    return std::move(described.faults.front());
  }
  return std::move(described.description);
}

std::vector<Status> describe_faults(const ModelFile& file) { return describe_all(file).faults; }

}  // namespace baton::model
