#include "router/api/sampling_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace baton::router {
namespace {

constexpr size_t kMaxBias = 1024;
constexpr size_t kMaxStopIds = 1024;
constexpr size_t kMaxAllowed = 8192;
constexpr size_t kMaxBadWords = 512;
constexpr size_t kMaxBadWordBytes = 256;
constexpr size_t kMaxBadWordTokens = 64;
constexpr int64_t kMaxTokens = 1 << 30;

void read_bias(FieldReader& fields, wire::SamplingSpec& sampling, int32_t vocab) {
  const boost::json::value* value = fields.raw("logit_bias");
  if (value == nullptr) {
    return;
  }
  if (!value->is_object() || value->get_object().size() > kMaxBias) {
    fields.fail("logit_bias", "'logit_bias' must be an object of at most " +
                                  std::to_string(kMaxBias) + " token ids with their bias");
    return;
  }
  for (const auto& entry : value->get_object()) {
    const std::string_view key = entry.key();
    int32_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 ||
        id >= vocab) {
      fields.fail("logit_bias", "'logit_bias' names '" + shortened(key) +
                                    "', which is no token id from 0 to " +
                                    std::to_string(vocab - 1));
      return;
    }
    const double bias = entry.value().is_number() ? entry.value().to_number<double>() : NAN;
    if (!(bias >= -100 && bias <= 100)) {
      fields.fail("logit_bias", "'logit_bias' values must be numbers between -100 and 100");
      return;
    }
    sampling.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  std::sort(sampling.logit_bias.begin(), sampling.logit_bias.end());
}

// Bad words are forbidden as they are and with a space before them, as in vLLM: at the beginning of
// a text and inside it they are different tokens.
void read_bad_words(FieldReader& fields, wire::SamplingSpec& sampling,
                    const tokenizer::Tokenizer& vocab) {
  for (const std::string& word : fields.texts("bad_words", kMaxBadWords)) {
    const size_t begin = word.find_first_not_of(' ');
    if (begin == std::string::npos || word.size() > kMaxBadWordBytes) {
      fields.fail("bad_words", "a string of 'bad_words' must have 1 to " +
                                   std::to_string(kMaxBadWordBytes) +
                                   " bytes that are not all spaces");
      return;
    }
    const std::string plain = word.substr(begin);
    // As they come inside a text.
    constexpr auto kInside = tokenizer::EncodeOptions::After::kText;
    const std::vector<TokenId> ids = vocab.encode(plain, {.after = kInside});
    const std::vector<TokenId> spaced = vocab.encode(" " + plain, {.after = kInside});
    if (std::max(ids.size(), spaced.size()) > kMaxBadWordTokens) {
      fields.fail("bad_words", "a string of 'bad_words' must have at most " +
                                   std::to_string(kMaxBadWordTokens) + " tokens");
      return;
    }
    if (!ids.empty()) {
      sampling.bad_words.push_back(ids);
    }
    if (!spaced.empty() && spaced != ids) {
      sampling.bad_words.push_back(spaced);
    }
  }
}

}  // namespace

void read_sampling(FieldReader& fields, ApiRequest& request, const tokenizer::Tokenizer& vocab) {
  wire::SamplingSpec& s = request.sampling;
  const auto size = static_cast<int32_t>(vocab.vocab_size());
  const auto real = [&fields](std::string_view name, double low, double high, float& to) {
    if (const auto v = fields.number(name, low, high)) {
      to = static_cast<float>(*v);
    }
  };
  real("temperature", 0, 2, s.temperature);
  real("top_p", 0, 1, s.top_p);
  real("min_p", 0, 1, s.min_p);
  constexpr double kAny = std::numeric_limits<double>::max();
  real("repetition_penalty", -kAny, kAny, s.repetition_penalty);
  if (!(s.repetition_penalty > 0 && std::isfinite(s.repetition_penalty))) {
    fields.fail("repetition_penalty", "'repetition_penalty' must be greater than 0 and finite");
  }
  real("presence_penalty", -2, 2, s.presence_penalty);
  real("frequency_penalty", -2, 2, s.frequency_penalty);
  s.top_k = static_cast<int32_t>(fields.integer("top_k", -1, 1 << 30).value_or(0));
  read_bias(fields, s, size);
  s.allowed_token_ids = fields.token_ids("allowed_token_ids", kMaxAllowed, size);
  if (fields.raw("allowed_token_ids") != nullptr && s.allowed_token_ids.empty()) {
    fields.fail("allowed_token_ids", "'allowed_token_ids' must not be empty");
  }
  read_bad_words(fields, s, vocab);
  s.stop_token_ids = fields.token_ids("stop_token_ids", kMaxStopIds, size);
  s.end_ids.assign(vocab.end_ids().begin(), vocab.end_ids().end());
  s.token_count = static_cast<uint32_t>(size);
  s.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  s.min_tokens = static_cast<int32_t>(fields.integer("min_tokens", 0, kMaxTokens).value_or(0));
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  if (seed && *seed != -1) {  // which clients send for "none"
    s.seed = static_cast<uint64_t>(*seed);
    request.seed_given = true;
  }
}

void read_beam_search(FieldReader& fields, ApiRequest& request) {
  wire::SamplingSpec& s = request.sampling;
  const bool wanted = fields.boolean("use_beam_search").value_or(false);
  s.length_penalty =
      fields.number("length_penalty", -wire::kMaxLengthPenalty, wire::kMaxLengthPenalty)
          .value_or(1);
  if (!wanted) {
    return;
  }
  if (request.n > static_cast<int>(wire::kMaxBeamWidth)) {
    fields.fail("n", "'n' must be at most " + std::to_string(wire::kMaxBeamWidth) +
                         " with 'use_beam_search'");
    return;
  }
  const std::array<std::pair<std::string_view, bool>, 9> others = {{
      {"stop", !request.stop.empty()},
      {"min_tokens", s.min_tokens > 0},
      {"logit_bias", !s.logit_bias.empty()},
      {"allowed_token_ids", !s.allowed_token_ids.empty()},
      {"bad_words", !s.bad_words.empty()},
      {"repetition_penalty", s.repetition_penalty != 1},
      {"presence_penalty", s.presence_penalty != 0},
      {"frequency_penalty", s.frequency_penalty != 0},
      {"response_format", s.grammar_kind != 0},
  }};
  for (const auto& [name, given] : others) {
    if (given) {
      fields.fail(name, "'" + std::string(name) + "' is not allowed with 'use_beam_search'");
    }
  }
  s.beam_width = static_cast<uint32_t>(request.n);
}

void check_sampling(FieldReader& fields, const ApiRequest& request) {
  const int32_t limit = request.echo_only ? 0 : request.sampling.max_tokens;
  if ((limit > 0 || request.echo_only) && request.sampling.min_tokens > limit) {
    fields.fail("min_tokens", "'min_tokens' must not be more than 'max_tokens'");
  }
}

}  // namespace baton::router
