#include <cmath>
#include <span>

#include "common/model/key_reader.h"
#include "common/model/source_type.h"

namespace baton::model {
namespace {

using model_file::TensorInfo;

constexpr KeyReader::Bounds kBases = {1.0F, 1e12F};
constexpr KeyReader::Bounds kFactors = {1e-3F, 1e6F};
constexpr KeyReader::Bounds kTurns = {1e-3F, 1e6F};

class RopeReader final {
 public:
  explicit RopeReader(const KeyReader& keys) : keys_(keys) {}

  Result<RopeDescription> run(int head_dim, int max_context) {
    rope_.interleaved = keys_.architecture().rope_interleaved;
    BATON_ASSIGN_OR_RETURN(rope_.dims,
                           keys_.find_int("rope.dimension_count",
                                          static_cast<uint32_t>(kernels::kMaxHeadDim), head_dim));
    if (rope_.dims % 2 != 0 || rope_.dims > head_dim) {
      return keys_.wrong(model_file::quoted(keys_.key("rope.dimension_count")) + " is " +
                         std::to_string(rope_.dims) + "; it must be even and at most " +
                         std::to_string(head_dim));
    }
    BATON_ASSIGN_OR_RETURN(rope_.base, keys_.find_float("rope.freq_base", kBases, 10000.0F));
    BATON_RETURN_IF_ERROR(read_scaling(max_context));
    return rope_;
  }

 private:
  // A factor without a type stands for linear scaling, as in files older than the type.
  Status read_scaling(int max_context) {
    BATON_ASSIGN_OR_RETURN(const float old_factor, factor("rope.scale_linear"));
    const bool old = keys_.has("rope.scale_linear") && !keys_.has("rope.scaling.factor");
    BATON_ASSIGN_OR_RETURN(rope_.factor, factor("rope.scaling.factor"));
    rope_.factor = old ? old_factor : rope_.factor;
    BATON_ASSIGN_OR_RETURN(rope_.magnitude,
                           keys_.find_float("rope.scaling.attn_factor", kFactors, 1.0F));
    const std::string type_key = keys_.key("rope.scaling.type");
    BATON_ASSIGN_OR_RETURN(const auto type, keys_.file().find_string(type_key));
    if (!type.has_value() || type == "linear" || type == "none") {
      return read_linear(type == "none");
    }
    if (type != "yarn" && type != "llama3") {
      return keys_.refused("has " + model_file::quoted(type_key) + " = " +
                           model_file::quoted(*type) +
                           "; Baton does 'none', 'linear', 'yarn' and 'llama3'");
    }
    BATON_ASSIGN_OR_RETURN(
        const int original,
        keys_.find_int("rope.scaling.original_context_length", 1u << 24, max_context));
    rope_.original_context = static_cast<float>(original);
    return type == "yarn" ? read_yarn() : read_llama3();
  }

  // 0 stands for no scaling.
  Result<float> factor(std::string_view suffix) const {
    BATON_ASSIGN_OR_RETURN(const auto value, keys_.file().find_f32(keys_.key(suffix)));
    return value == 0.0F ? Result<float>(1.0F) : keys_.find_float(suffix, kFactors, 1.0F);
  }

  Status read_linear(bool none) {
    if (none && rope_.factor != 1.0F) {
      return keys_.wrong(model_file::quoted(keys_.key("rope.scaling.type")) +
                         " is 'none', but the factor is " + number_text(rope_.factor));
    }
    rope_.scaling = rope_.factor == 1.0F ? RopeScaling::kNone : RopeScaling::kLinear;
    return {};
  }

  Status read_yarn() {
    rope_.scaling = RopeScaling::kYarn;
    BATON_ASSIGN_OR_RETURN(rope_.beta_fast,
                           keys_.find_float("rope.scaling.yarn_beta_fast", kTurns, 32.0F));
    BATON_ASSIGN_OR_RETURN(rope_.beta_slow,
                           keys_.find_float("rope.scaling.yarn_beta_slow", kTurns, 1.0F));
    BATON_ASSIGN_OR_RETURN(const float own,
                           keys_.find_float("rope.scaling.yarn_attn_factor", kFactors, 1.0F));
    rope_.magnitude *= own * yarn_magnitude(rope_.factor);
    if (rope_.base <= 1.0F) {
      return keys_.wrong("YaRN needs a " + model_file::quoted(keys_.key("rope.freq_base")) +
                         " above 1");
    }
    return {};
  }

  Status read_llama3() {
    rope_.scaling = RopeScaling::kLlama3;
    BATON_ASSIGN_OR_RETURN(rope_.low_freq_factor,
                           keys_.find_float("rope.scaling.low_freq_factor", kTurns, 1.0F));
    BATON_ASSIGN_OR_RETURN(rope_.high_freq_factor,
                           keys_.find_float("rope.scaling.high_freq_factor", kTurns, 4.0F));
    if (rope_.high_freq_factor <= rope_.low_freq_factor) {
      return keys_.wrong(model_file::quoted(keys_.key("rope.scaling.high_freq_factor")) + " is " +
                         number_text(rope_.high_freq_factor) + "; it must be above the low one, " +
                         number_text(rope_.low_freq_factor));
    }
    return {};
  }

  const KeyReader& keys_;
  RopeDescription rope_;
};

}  // namespace

Result<RopeDescription> read_rope(const KeyReader& keys, int head_dim, int max_context) {
  return RopeReader(keys).run(head_dim, max_context);
}

Result<std::vector<float>> read_divisors(const KeyReader& keys) {
  const std::string name = tensor_name(tensor_rule(keys.architecture(), TensorRole::kRopeFreqs), 0);
  const TensorInfo* tensor = keys.file().find_tensor(name);
  std::vector<float> divisors;
  if (tensor == nullptr) {
    return divisors;
  }
  divisors.resize(tensor->row_elements());
  kernels::dequantize_row(source_type(tensor->type), tensor->data.data(),
                          static_cast<int>(divisors.size()), divisors.data());
  for (const float divisor : divisors) {
    if (!(divisor >= kFactors.least && divisor <= kFactors.most)) {
      return keys.wrong("tensor " + model_file::quoted(name) + " holds " + number_text(divisor) +
                        "; divisors of RoPE must be " + number_text(kFactors.least) + " to " +
                        number_text(kFactors.most));
    }
  }
  return divisors;
}

}  // namespace baton::model
