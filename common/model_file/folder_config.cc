#include "common/model_file/folder_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <boost/json.hpp>

#include "common/model_file/json_text.h"

namespace baton::model_file {
namespace {

namespace json = boost::json;

constexpr std::array kArchitectures = {
    FolderArchitecture{
        .model_type = "llama", .architecture = "llama", .activation = "silu", .halved_heads = true},
    FolderArchitecture{.model_type = "mistral",
                       .architecture = "llama",
                       .activation = "silu",
                       .halved_heads = true},
    FolderArchitecture{.model_type = "qwen2", .architecture = "qwen2", .activation = "silu"},
    FolderArchitecture{
        .model_type = "qwen3", .architecture = "qwen3", .activation = "silu", .head_dim = 128},
    FolderArchitecture{.model_type = "gemma3_text",
                       .architecture = "gemma3",
                       .activation = "gelu_pytorch_tanh",
                       .head_dim = 256,
                       .tied = true,
                       .norms_without_one = true},
};

// Keys that say nothing about the computation, or nothing that the tensors do not say.
constexpr std::array<std::string_view, 31> kDescriptiveKeys = {"_name_or_path",
                                                               "_attn_implementation_autoset",
                                                               "architectures",
                                                               "attention_bias",
                                                               "attention_dropout",
                                                               "bos_token_id",
                                                               "cache_implementation",
                                                               "dtype",
                                                               "eos_token_id",
                                                               "hidden_dropout",
                                                               "initializer_range",
                                                               "mlp_bias",
                                                               "model_type",
                                                               "output_attentions",
                                                               "output_hidden_states",
                                                               "pad_token_id",
                                                               "pretraining_tp",
                                                               "return_dict",
                                                               "rope_interleaved",
                                                               "tokenizer_class",
                                                               "torch_dtype",
                                                               "transformers_version",
                                                               "transformers.js_config",
                                                               "unsloth_fixed",
                                                               "unsloth_version",
                                                               "use_cache",
                                                               "chunk_size_feed_forward",
                                                               "id2label",
                                                               "label2id",
                                                               "is_decoder",
                                                               "problem_type"};

// Keys that are read, or compared, elsewhere in this file.
constexpr std::array<std::string_view, 27> kReadKeys = {"hidden_size",
                                                        "intermediate_size",
                                                        "num_hidden_layers",
                                                        "num_attention_heads",
                                                        "num_key_value_heads",
                                                        "head_dim",
                                                        "max_position_embeddings",
                                                        "vocab_size",
                                                        "rms_norm_eps",
                                                        "tie_word_embeddings",
                                                        "hidden_act",
                                                        "hidden_activation",
                                                        "rope_theta",
                                                        "rope_scaling",
                                                        "rope_parameters",
                                                        "rope_local_base_freq",
                                                        "partial_rotary_factor",
                                                        "sliding_window",
                                                        "use_sliding_window",
                                                        "max_window_layers",
                                                        "layer_types",
                                                        "sliding_window_pattern",
                                                        "_sliding_window_pattern",
                                                        "query_pre_attn_scalar",
                                                        "attn_logit_softcapping",
                                                        "final_logit_softcapping",
                                                        "use_bidirectional_attention"};

class ConfigReader final {
 public:
  ConfigReader(const json::object& config, const std::string& name)
      : config_(config), name_(name) {}

  Result<FolderConfig> run() {
    BATON_RETURN_IF_ERROR(find_architecture());
    BATON_RETURN_IF_ERROR(check_keys());
    out_.metadata.add_string("general.architecture", architecture().architecture);
    BATON_RETURN_IF_ERROR(read_sizes());
    BATON_RETURN_IF_ERROR(check_activation());
    BATON_RETURN_IF_ERROR(read_rope());
    BATON_RETURN_IF_ERROR(read_windows());
    BATON_ASSIGN_OR_RETURN(const auto tied, find_bool("tie_word_embeddings"));
    out_.tied = tied.value_or(architecture().tied);
    return std::move(out_);
  }

 private:
  const FolderArchitecture& architecture() const { return *out_.architecture; }
  Status wrong(const std::string& text) const { return invalid_argument(name_ + ": " + text); }
  Status refused(const std::string& text) const { return unsupported(name_ + ": " + text); }
  std::string key(std::string_view suffix) const {
    return std::string(architecture().architecture) + "." + std::string(suffix);
  }
  static std::string shown(std::string_view name, const json::value& value) {
    return quoted(name) + " = " + shown_json(value);
  }
  // Null stands for absent, as in transformers.
  static const json::value* find_in(const json::object& object, std::string_view name) {
    const json::value* value = object.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  const json::value* find(std::string_view name) const { return find_in(config_, name); }

  Status find_architecture() {
    const json::value* type = find("model_type");
    if (type == nullptr || !type->is_string()) {
      return wrong("has no 'model_type'");
    }
    const std::string_view text = type->get_string();
    const auto* row = std::ranges::find(kArchitectures, text, &FolderArchitecture::model_type);
    if (row == kArchitectures.end()) {
      std::string known;
      for (const FolderArchitecture& a : kArchitectures) {
        known += (known.empty() ? "" : ", ") + std::string(a.model_type);
      }
      return refused("model_type " + quoted(text) + " is not supported; Baton runs: " + known);
    }
    out_.architecture = row;
    return {};
  }

  Status check_keys() const {
    constexpr size_t kMaxNamed = 8;
    size_t count = 0;
    std::string unknown;
    for (const auto& [name, value] : config_) {
      const std::string_view text = name;
      const bool known = std::ranges::find(kDescriptiveKeys, text) != kDescriptiveKeys.end() ||
                         std::ranges::find(kReadKeys, text) != kReadKeys.end();
      if (!known && !value.is_null() && ++count <= kMaxNamed) {
        unknown += (count == 1 ? "" : ", ") + shown(text, value);
      }
    }
    if (count > 0) {
      return refused("has the key" + std::string(count == 1 ? " " : "s ") + unknown +
                     (count > kMaxNamed ? " and others" : "") + ", which Baton does not know");
    }
    for (const std::string_view off : {"attn_logit_softcapping", "final_logit_softcapping"}) {
      if (const json::value* value = find(off)) {
        return refused("asks with " + shown(off, *value) +
                       " for soft caps, which Baton does not do");
      }
    }
    BATON_ASSIGN_OR_RETURN(const auto both_ways, find_bool("use_bidirectional_attention"));
    if (both_ways.value_or(false)) {
      return refused(
          "asks with 'use_bidirectional_attention' = true for attention that is not causal, which "
          "Baton does not do");
    }
    return {};
  }

  Result<std::optional<bool>> find_bool(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr) {
      return std::optional<bool>();
    }
    if (!value->is_bool()) {
      return wrong(shown(name, *value) + "; it must be true or false");
    }
    return std::optional(value->get_bool());
  }

  Result<std::optional<uint32_t>> find_u32(const json::object& object,
                                           std::string_view name) const {
    const json::value* value = find_in(object, name);
    if (value == nullptr) {
      return std::optional<uint32_t>();
    }
    const std::optional<uint64_t> number = whole_number(*value);
    if (!number || *number > std::numeric_limits<uint32_t>::max()) {
      return wrong(shown(name, *value) + "; it must be a whole number below 2^32");
    }
    return std::optional(static_cast<uint32_t>(*number));
  }
  Result<uint32_t> get_u32(std::string_view name) const {
    BATON_ASSIGN_OR_RETURN(const auto value, find_u32(config_, name));
    return value ? Result<uint32_t>(*value) : wrong(quoted(name) + " is missing");
  }

  Result<std::optional<double>> find_number(const json::object& object,
                                            std::string_view name) const {
    const json::value* value = find_in(object, name);
    if (value == nullptr) {
      return std::optional<double>();
    }
    if (!value->is_number() || !std::isfinite(value->to_number<double>())) {
      return wrong(shown(name, *value) + "; it must be a number");
    }
    return std::optional(value->to_number<double>());
  }

  void add_u32(std::string_view suffix, uint32_t value) {
    out_.metadata.add_u32(key(suffix), value);
  }
  void add_f32(std::string_view suffix, double value) {
    out_.metadata.add_f32(key(suffix), static_cast<float>(value));
  }

  Status read_sizes() {
    BATON_ASSIGN_OR_RETURN(const uint32_t hidden, get_u32("hidden_size"));
    BATON_ASSIGN_OR_RETURN(layers_, get_u32("num_hidden_layers"));
    BATON_ASSIGN_OR_RETURN(const uint32_t ffn, get_u32("intermediate_size"));
    BATON_ASSIGN_OR_RETURN(const uint32_t context, get_u32("max_position_embeddings"));
    BATON_ASSIGN_OR_RETURN(const uint32_t vocab, get_u32("vocab_size"));
    BATON_ASSIGN_OR_RETURN(const uint32_t heads, get_u32("num_attention_heads"));
    BATON_ASSIGN_OR_RETURN(const auto kv_heads, find_u32(config_, "num_key_value_heads"));
    BATON_ASSIGN_OR_RETURN(const auto head_dim, find_u32(config_, "head_dim"));
    BATON_ASSIGN_OR_RETURN(const auto epsilon, find_number(config_, "rms_norm_eps"));
    if (!epsilon) {
      return wrong("'rms_norm_eps' is missing");
    }
    if (heads == 0) {
      return wrong("'num_attention_heads' is 0");
    }
    out_.head_dim =
        head_dim.value_or(architecture().head_dim > 0 ? architecture().head_dim : hidden / heads);
    add_u32("embedding_length", hidden);
    add_u32("block_count", layers_);
    add_u32("feed_forward_length", ffn);
    add_u32("context_length", context);
    add_u32("vocab_size", vocab);
    add_u32("attention.head_count", heads);
    add_u32("attention.head_count_kv", kv_heads.value_or(heads));
    add_u32("attention.key_length", out_.head_dim);
    add_u32("attention.value_length", out_.head_dim);
    add_f32("attention.layer_norm_rms_epsilon", *epsilon);
    BATON_ASSIGN_OR_RETURN(const auto scalar, find_number(config_, "query_pre_attn_scalar"));
    if (scalar && *scalar > 0) {
      // In f32, as a description computes it where the file says nothing.
      add_f32("attention.scale", 1.0F / std::sqrt(static_cast<float>(*scalar)));
    }
    return {};
  }

  Status check_activation() const {
    for (const std::string_view name : {"hidden_act", "hidden_activation"}) {
      const json::value* value = find(name);
      if (value != nullptr &&
          (!value->is_string() || value->get_string() != architecture().activation)) {
        return refused("asks with " + shown(name, *value) + " for another activation than " +
                       quoted(architecture().activation) + ", which Baton does not do for " +
                       std::string(architecture().model_type));
      }
    }
    return {};
  }

  Result<const json::object*> find_object(const json::object& object, std::string_view name) const {
    const json::value* value = find_in(object, name);
    if (value == nullptr) {
      return static_cast<const json::object*>(nullptr);
    }
    if (!value->is_object()) {
      return wrong(shown(name, *value) + "; it must be an object");
    }
    return &value->get_object();
  }

  // Version 5 has everything in `rope_parameters`, one set a kind of layer where they differ;
  // version 4 has bases at the top and the scaling in `rope_scaling`.
  Status read_rope() {
    BATON_ASSIGN_OR_RETURN(const json::object* parameters, find_object(config_, "rope_parameters"));
    const json::object* full = parameters;
    if (parameters != nullptr && parameters->contains("full_attention")) {
      BATON_ASSIGN_OR_RETURN(full, find_object(*parameters, "full_attention"));
      BATON_ASSIGN_OR_RETURN(const json::object* windows,
                             find_object(*parameters, "sliding_attention"));
      BATON_RETURN_IF_ERROR(read_window_rope(windows));
    }
    if (parameters == nullptr) {
      BATON_ASSIGN_OR_RETURN(full, find_object(config_, "rope_scaling"));
      BATON_ASSIGN_OR_RETURN(const auto local, find_number(config_, "rope_local_base_freq"));
      if (local) {
        add_f32("rope.freq_base_swa", *local);
      }
    }
    const json::object none;
    const json::object& rope = full != nullptr ? *full : none;
    BATON_ASSIGN_OR_RETURN(auto base, find_number(rope, "rope_theta"));
    if (!base) {
      BATON_ASSIGN_OR_RETURN(base, find_number(config_, "rope_theta"));
    }
    // The defaults of transformers.
    add_f32("rope.freq_base",
            base.value_or(architecture().architecture == "gemma3" ? 1'000'000.0 : 10'000.0));
    BATON_ASSIGN_OR_RETURN(auto part, find_number(rope, "partial_rotary_factor"));
    if (!part) {
      BATON_ASSIGN_OR_RETURN(part, find_number(config_, "partial_rotary_factor"));
    }
    const double dims = part.value_or(1.0) * out_.head_dim;
    if (!(dims >= 0 && dims <= std::numeric_limits<uint32_t>::max())) {
      return wrong("'partial_rotary_factor' is no part of a head");
    }
    add_u32("rope.dimension_count", static_cast<uint32_t>(dims));
    return read_scaling(rope);
  }

  Status read_window_rope(const json::object* windows) {
    if (windows == nullptr) {
      return {};
    }
    const json::value* type = find_in(*windows, "rope_type");
    if (type != nullptr && (!type->is_string() || type->get_string() != "default")) {
      return refused("asks with " + shown("rope_type", *type) +
                     " for scaled RoPE in layers with a window, which Baton does not do");
    }
    BATON_ASSIGN_OR_RETURN(const auto base, find_number(*windows, "rope_theta"));
    if (base) {
      add_f32("rope.freq_base_swa", *base);
    }
    return {};
  }

  Status read_scaling(const json::object& rope) {
    const json::value* type = find_in(rope, "rope_type");
    type = type != nullptr ? type : find_in(rope, "type");
    if (type != nullptr && !type->is_string()) {
      return wrong(shown("rope_type", *type) + "; it must be a name");
    }
    const std::string_view name =
        type != nullptr ? std::string_view(type->get_string()) : std::string_view("default");
    BATON_RETURN_IF_ERROR(check_scaling_keys(rope));
    if (name == "default" || name == "mrope") {
      return name == "default" ? Status()
                               : refused("asks for the RoPE 'mrope', which Baton does not do");
    }
    // Names that Baton does not do are refused where those of GGUF files are.
    out_.metadata.add_string(key("rope.scaling.type"), name);
    struct Number {
      std::string_view name, suffix;
    };
    constexpr std::array kNumbers = {
        Number{"factor", "rope.scaling.factor"},
        Number{"beta_fast", "rope.scaling.yarn_beta_fast"},
        Number{"beta_slow", "rope.scaling.yarn_beta_slow"},
        Number{"low_freq_factor", "rope.scaling.low_freq_factor"},
        Number{"high_freq_factor", "rope.scaling.high_freq_factor"},
    };
    for (const Number& number : kNumbers) {
      BATON_ASSIGN_OR_RETURN(const auto value, find_number(rope, number.name));
      if (value) {
        add_f32(number.suffix, *value);
      }
    }
    BATON_ASSIGN_OR_RETURN(const auto original, find_u32(rope, "original_max_position_embeddings"));
    if (original) {
      add_u32("rope.scaling.original_context_length", *original);
    }
    BATON_ASSIGN_OR_RETURN(const auto magnitude, find_number(rope, "attention_factor"));
    BATON_ASSIGN_OR_RETURN(const auto factor, find_number(rope, "factor"));
    if (magnitude && factor && *factor > 0) {
      // Of a GGUF file it multiplies what goes with the factor.
      add_f32("rope.scaling.attn_factor", *magnitude / (0.1 * std::log(*factor) + 1.0));
    }
    return {};
  }

  Status check_scaling_keys(const json::object& rope) const {
    constexpr std::array<std::string_view, 12> kKnown = {
        "rope_type",        "type",
        "rope_theta",       "factor",
        "beta_fast",        "beta_slow",
        "low_freq_factor",  "high_freq_factor",
        "attention_factor", "original_max_position_embeddings",
        "truncate",         "partial_rotary_factor"};
    for (const auto& [name, value] : rope) {
      const std::string_view text = name;
      const bool known = std::ranges::find(kKnown, text) != kKnown.end();
      const bool off = text == "truncate" && value.is_bool() && !value.get_bool();
      if ((!known && !value.is_null()) || off) {
        return refused("asks with " + shown(text, value) + " for a RoPE that Baton does not know");
      }
    }
    return {};
  }

  Status read_windows() {
    BATON_ASSIGN_OR_RETURN(const auto used, find_bool("use_sliding_window"));
    BATON_ASSIGN_OR_RETURN(auto window, find_u32(config_, "sliding_window"));
    if (!used.value_or(true)) {
      window.reset();
    }
    const bool unsaid = !config_.contains("sliding_window");
    if (unsaid &&
        (architecture().architecture == "gemma3" || architecture().model_type == "mistral")) {
      window = 4096;  // the default of transformers; null is none
    }
    BATON_ASSIGN_OR_RETURN(const uint32_t period, window_period(window.has_value()));
    if (window && period > 1) {
      add_u32("attention.sliding_window", *window);
      if (architecture().architecture == "gemma3") {
        add_u32("attention.sliding_window_pattern", period);
      } else if (period <= layers_) {
        return refused("has windows in some layers, which Baton does not do for " +
                       std::string(architecture().model_type));
      }
    }
    return {};
  }

  // All layers but every p-th have a window; 1: none has, more than there are layers: all have.
  Result<uint32_t> window_period(bool has_window) const {
    const json::value* types = find("layer_types");
    if (types == nullptr) {
      BATON_ASSIGN_OR_RETURN(auto period, find_u32(config_, "sliding_window_pattern"));
      if (!period) {
        BATON_ASSIGN_OR_RETURN(period, find_u32(config_, "_sliding_window_pattern"));
      }
      const uint32_t otherwise = architecture().architecture == "gemma3" ? 6 : layers_ + 1;
      return has_window ? std::max(period.value_or(otherwise), 1u) : 1u;
    }
    const json::array* list = types->if_array();
    if (list == nullptr || list->size() != layers_) {
      return wrong("'layer_types' is no array of " + std::to_string(layers_) + " names");
    }
    uint32_t period = layers_ + 1;
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      const json::value& type = (*list)[layer];
      const bool full = type.is_string() && type.get_string() == "full_attention";
      if (!full && (!type.is_string() || type.get_string() != "sliding_attention")) {
        return refused("has the layer type " + shown_json(type) + ", which Baton does not know");
      }
      period = full ? std::min(period, layer + 1) : period;
      if (full != ((layer + 1) % period == 0)) {
        return refused("has 'layer_types' in which not every " + std::to_string(period) +
                       ". layer alone sees everything; Baton needs that");
      }
    }
    if (period > 1 && !has_window) {
      return wrong("'layer_types' has windows, but there is no 'sliding_window'");
    }
    return period;
  }

  const json::object& config_;
  const std::string& name_;
  FolderConfig out_;
  uint32_t layers_ = 0;
};

}  // namespace

Result<FolderConfig> read_folder_config(std::string_view text, const std::string& name) {
  const Result<json::value> parsed = parse_json(text);
  if (!parsed.ok()) {
    return parsed.status().with_context(name);
  }
  const json::object* config = parsed->if_object();
  if (config == nullptr) {
    return invalid_argument(name + ": is no JSON object");
  }
  return ConfigReader(*config, name).run();
}

}  // namespace baton::model_file
