#include "common/tokenizer/tokenizer_pipeline.h"

#include <array>
#include <boost/json/array.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "common/tokenizer/space_marks.h"

namespace baton::tokenizer {
namespace {

constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4oRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekNumbers = R"(\p{N}{1,3})";
constexpr std::string_view kDeepSeekEastAsian = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr std::string_view kDeepSeekRegex =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Steps of a pre-tokenizer other than Split: no regular expression can begin so.
constexpr std::string_view kDigits = "*Digits";
constexpr std::string_view kByteLevel = "*ByteLevel";
constexpr std::string_view kByteLevelRegex = "*ByteLevel with regex";

struct KnownSteps {
  std::string_view name;
  std::array<std::string_view, 4> steps;  // Split steps by their pattern; unused ones are empty
};
constexpr std::array<KnownSteps, 7> kKnownSteps = {{
    {"gpt-2", {kByteLevelRegex}},
    {"smollm", {kDigits, kByteLevelRegex}},
    {"llama-bpe", {kLlama3Regex, kByteLevel}},
    {"qwen2", {kQwen2Regex, kByteLevel}},
    {"gpt-4o", {kGpt4oRegex, kByteLevel}},
    {"tekken", {kTekkenRegex, kByteLevel}},
    {"deepseek-v3", {kDeepSeekNumbers, kDeepSeekEastAsian, kDeepSeekRegex, kByteLevel}},
}};
constexpr size_t kMaxSteps = 8;

// The steps of root[key]: the one that is there, or those of a Sequence under `list`.
Result<std::vector<JsonSection>> steps_of(const JsonSection& root, std::string_view key,
                                          std::string_view list) {
  std::vector<JsonSection> steps;
  const boost::json::value* value = root.find(key);
  if (value == nullptr) {
    return steps;
  }
  BATON_ASSIGN_OR_RETURN(JsonSection first, JsonSection::of(root.path_of(key), *value));
  BATON_ASSIGN_OR_RETURN(const std::string type, first.text("type"));
  if (type != "Sequence") {
    steps.push_back(std::move(first));
    return steps;
  }
  BATON_RETURN_IF_ERROR(first.only({"type", list}));
  BATON_ASSIGN_OR_RETURN(const boost::json::array* items, first.array(list));
  if (items->size() > kMaxSteps) {
    return unsupported(first.path_of(list) + " has " + std::to_string(items->size()) +
                       " steps; supported: at most " + std::to_string(kMaxSteps));
  }
  for (size_t i = 0; i < items->size(); ++i) {
    BATON_ASSIGN_OR_RETURN(
        JsonSection step,
        JsonSection::of(first.path_of(list) + "[" + std::to_string(i) + "]", (*items)[i]));
    steps.push_back(std::move(step));
  }
  return steps;
}

// {"String": " "} or {"Regex": "..."}
Result<std::string> pattern_of(const JsonSection& step, std::string_view kind) {
  BATON_ASSIGN_OR_RETURN(const boost::json::object* pattern, step.object("pattern"));
  const JsonSection section(step.path_of("pattern"), *pattern);
  BATON_RETURN_IF_ERROR(section.only({kind}));
  return section.text(kind);
}

// Line ends in a pattern mean the same written out or escaped.
std::string with_escaped_line_ends(std::string_view pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '\r' || c == '\n') {
      out += c == '\r' ? "\\r" : "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

Result<std::string> pre_tokenizer_step(const JsonSection& step) {
  BATON_ASSIGN_OR_RETURN(const std::string type, step.text("type"));
  if (type == "Digits") {
    BATON_RETURN_IF_ERROR(step.only({"type", "individual_digits"}));
    BATON_ASSIGN_OR_RETURN(const auto individual, step.find_bool("individual_digits"));
    return individual.value_or(false) ? Result<std::string>(std::string(kDigits))
                                      : step.refuse("individual_digits", "true");
  }
  if (type == "ByteLevel") {
    BATON_RETURN_IF_ERROR(step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    BATON_ASSIGN_OR_RETURN(const auto prefix, step.find_bool("add_prefix_space"));
    if (prefix.value_or(true)) {
      return step.refuse("add_prefix_space", "false");
    }
    BATON_ASSIGN_OR_RETURN(const auto regex, step.find_bool("use_regex"));
    return std::string(regex.value_or(true) ? kByteLevelRegex : kByteLevel);
  }
  if (type == "Split") {
    BATON_RETURN_IF_ERROR(step.only({"type", "pattern", "behavior", "invert"}));
    BATON_ASSIGN_OR_RETURN(const std::string behavior, step.text("behavior"));
    BATON_ASSIGN_OR_RETURN(const auto invert, step.find_bool("invert"));
    // The patterns match everything, so that what is not matched may as well be removed.
    if (behavior != "Isolated" && !(behavior == "Removed" && invert.value_or(false))) {
      return step.refuse("behavior", "\"Isolated\", \"Removed\" with invert");
    }
    BATON_ASSIGN_OR_RETURN(const std::string pattern, pattern_of(step, "Regex"));
    return with_escaped_line_ends(pattern);
  }
  return step.refuse("type", "ByteLevel, Digits, Metaspace, Sequence, Split");
}

Result<std::string> pre_tokenizer_name(const JsonSection& root,
                                       const std::vector<JsonSection>& steps) {
  std::vector<std::string> found;
  for (const JsonSection& step : steps) {
    BATON_ASSIGN_OR_RETURN(std::string text, pre_tokenizer_step(step));
    found.push_back(std::move(text));
  }
  std::string names;
  for (const KnownSteps& known : kKnownSteps) {
    size_t count = 0;
    while (count < known.steps.size() && !known.steps[count].empty()) {
      ++count;
    }
    if (std::equal(found.begin(), found.end(), known.steps.begin(),
                   known.steps.begin() + static_cast<ptrdiff_t>(count))) {
      return std::string(known.name);
    }
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  std::string description;
  for (const std::string& step : found) {
    description += (description.empty() ? "" : " then ") + step;
  }
  return unsupported(root.path_of("pre_tokenizer") + " is " + description +
                     "; supported: the steps of " + names);
}

Status read_byte_level(const JsonSection& root, const std::vector<JsonSection>& steps,
                       TokenizerPipeline& pipeline) {
  BATON_ASSIGN_OR_RETURN(pipeline.pre_tokenizer, pre_tokenizer_name(root, steps));
  BATON_ASSIGN_OR_RETURN(const auto normalizers, steps_of(root, "normalizer", "normalizers"));
  for (const JsonSection& step : normalizers) {
    BATON_ASSIGN_OR_RETURN(const std::string type, step.text("type"));
    if (type != "NFC") {
      return step.refuse("type", "NFC with a byte-level vocabulary");
    }
    BATON_RETURN_IF_ERROR(step.only({"type"}));
    pipeline.is_nfc = true;
  }
  BATON_ASSIGN_OR_RETURN(const JsonSection decoder, [&]() -> Result<JsonSection> {
    BATON_ASSIGN_OR_RETURN(const boost::json::object* object, root.object("decoder"));
    return JsonSection(root.path_of("decoder"), *object);
  }());
  BATON_ASSIGN_OR_RETURN(const std::string type, decoder.text("type"));
  if (type != "ByteLevel") {
    return decoder.refuse("type", "ByteLevel with a byte-level vocabulary");
  }
  return decoder.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

Status expect_space_to_mark(const JsonSection& step) {
  BATON_RETURN_IF_ERROR(step.only({"type", "pattern", "content"}));
  BATON_ASSIGN_OR_RETURN(const std::string pattern, pattern_of(step, "String"));
  BATON_ASSIGN_OR_RETURN(const std::string content, step.text("content"));
  return pattern == " " && content == kSpaceMark
             ? Status()
             : step.refuse("content", "\"\u2581\" for the pattern \" \"");
}

// True when the normalizer puts marks for spaces.
Result<bool> read_space_normalizer(const JsonSection& root, SpaceRules& spaces) {
  BATON_ASSIGN_OR_RETURN(const auto steps, steps_of(root, "normalizer", "normalizers"));
  bool replaces = false;
  for (const JsonSection& step : steps) {
    BATON_ASSIGN_OR_RETURN(const std::string type, step.text("type"));
    if (type == "Prepend") {
      BATON_RETURN_IF_ERROR(step.only({"type", "prepend"}));
      BATON_ASSIGN_OR_RETURN(const std::string text, step.text("prepend"));
      if (text != kSpaceMark || spaces.prefix != SpaceRules::Prefix::kNone) {
        return step.refuse("prepend", "\"\u2581\", once");
      }
      spaces.prefix = SpaceRules::Prefix::kEverySegment;
    } else if (type == "Replace") {
      BATON_RETURN_IF_ERROR(expect_space_to_mark(step));
      replaces = true;
    } else {
      return step.refuse("type", "Prepend, Replace with a SentencePiece vocabulary");
    }
  }
  return replaces;
}

Status read_metaspace(const JsonSection& step, SpaceRules& spaces) {
  BATON_RETURN_IF_ERROR(
      step.only({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
  BATON_RETURN_IF_ERROR(step.expect_text("replacement", kSpaceMark));
  BATON_RETURN_IF_ERROR(step.expect_text("str_rep", kSpaceMark));
  BATON_ASSIGN_OR_RETURN(const auto scheme, step.find_text("prepend_scheme"));
  BATON_ASSIGN_OR_RETURN(const auto prefix, step.find_bool("add_prefix_space"));
  const std::string known = scheme.value_or(prefix.value_or(true) ? "always" : "never");
  if (known == "always") {
    spaces.prefix = SpaceRules::Prefix::kUnlessSpace;
  } else if (known == "first") {
    spaces.prefix = SpaceRules::Prefix::kFirstUnlessSpace;
  } else if (known == "never") {
    spaces.prefix = SpaceRules::Prefix::kNone;
  } else {
    return step.refuse("prepend_scheme", "\"always\", \"first\", \"never\"");
  }
  BATON_ASSIGN_OR_RETURN(const auto split, step.find_bool("split"));
  spaces.split_words = split.value_or(true);
  return {};
}

Status read_space_pre_tokenizer(const std::vector<JsonSection>& steps, bool replaced,
                                const JsonSection& root, SpaceRules& spaces) {
  for (const JsonSection& step : steps) {
    BATON_ASSIGN_OR_RETURN(const std::string type, step.text("type"));
    if (type == "Metaspace" && steps.size() == 1 && !replaced &&
        spaces.prefix == SpaceRules::Prefix::kNone) {
      return read_metaspace(step, spaces);
    }
    if (type != "Split" || !replaced) {
      return step.refuse("type", "Metaspace, ByteLevel, or Replace in the normalizer");
    }
    BATON_RETURN_IF_ERROR(step.only({"type", "pattern", "behavior", "invert"}));
    BATON_RETURN_IF_ERROR(step.expect_bool("invert", false));
    BATON_ASSIGN_OR_RETURN(const std::string pattern, pattern_of(step, "String"));
    if (pattern != " ") {  // of which the normalizer has left none
      return step.refuse("pattern", "the text \" \"");
    }
  }
  return replaced ? Status()
                  : unsupported(root.path_of("pre_tokenizer") +
                                " is missing; supported: ByteLevel, Metaspace, or Replace of "
                                "spaces in the normalizer");
}

Status read_space_decoder(const JsonSection& root, SpaceRules& spaces) {
  BATON_ASSIGN_OR_RETURN(const auto steps, steps_of(root, "decoder", "decoders"));
  constexpr std::array<std::string_view, 4> kTypes = {"Replace", "ByteFallback", "Fuse", "Strip"};
  constexpr std::string_view kSupported =
      "Replace, ByteFallback, Fuse and perhaps Strip, in this order";
  if (steps.size() < 3 || steps.size() > kTypes.size()) {
    return unsupported(root.path_of("decoder") + " has " + std::to_string(steps.size()) +
                       " steps; supported: " + std::string(kSupported));
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const std::string type, steps[i].text("type"));
    if (type != kTypes[i]) {
      return steps[i].refuse("type", kSupported);
    }
  }
  BATON_RETURN_IF_ERROR(steps[0].only({"type", "pattern", "content"}));
  BATON_ASSIGN_OR_RETURN(const std::string pattern, pattern_of(steps[0], "String"));
  BATON_ASSIGN_OR_RETURN(const std::string content, steps[0].text("content"));
  if (pattern != kSpaceMark || content != " ") {
    return steps[0].refuse("content", "\" \" for the pattern \"\u2581\"");
  }
  spaces.strip_on_decode = steps.size() == kTypes.size();
  if (spaces.strip_on_decode) {
    const JsonSection& strip = steps[3];
    BATON_RETURN_IF_ERROR(strip.only({"type", "content", "start", "stop"}));
    BATON_RETURN_IF_ERROR(strip.expect_text("content", " "));
    BATON_ASSIGN_OR_RETURN(const int32_t start, strip.number("start"));
    BATON_ASSIGN_OR_RETURN(const int32_t stop, strip.number("stop"));
    if (start != 1 || stop != 0) {
      return strip.refuse(start != 1 ? "start" : "stop", "start 1 and stop 0");
    }
  }
  return {};
}

Result<bool> has_byte_level(const std::vector<JsonSection>& steps) {
  for (const JsonSection& step : steps) {
    BATON_ASSIGN_OR_RETURN(const std::string type, step.text("type"));
    if (type == "ByteLevel") {
      return true;
    }
  }
  return false;
}

// The token that a TemplateProcessing step puts before a text.
Result<std::optional<std::string>> token_before(const JsonSection& step) {
  BATON_RETURN_IF_ERROR(step.only({"type", "single", "pair", "special_tokens"}));
  BATON_ASSIGN_OR_RETURN(const boost::json::array* items, step.array("single"));
  std::optional<std::string> before;
  for (size_t i = 0; i < items->size(); ++i) {
    const std::string path = step.path_of("single") + "[" + std::to_string(i) + "]";
    BATON_ASSIGN_OR_RETURN(const JsonSection item, JsonSection::of(path, (*items)[i]));
    BATON_RETURN_IF_ERROR(item.only({"SpecialToken", "Sequence"}));
    if (item.find("Sequence") != nullptr) {
      return before;
    }
    BATON_ASSIGN_OR_RETURN(const boost::json::object* token, item.object("SpecialToken"));
    const JsonSection section(item.path_of("SpecialToken"), *token);
    if (before.has_value()) {
      return section.refuse("id", "one token before the text");
    }
    BATON_ASSIGN_OR_RETURN(before, section.text("id"));
  }
  return unsupported(step.path_of("single") + " has no Sequence; supported: one special token, A");
}

}  // namespace

Result<TokenizerPipeline> read_pipeline(const JsonSection& root) {
  TokenizerPipeline pipeline;
  BATON_ASSIGN_OR_RETURN(const auto steps, steps_of(root, "pre_tokenizer", "pretokenizers"));
  BATON_ASSIGN_OR_RETURN(const bool is_byte_level, has_byte_level(steps));
  if (is_byte_level) {
    BATON_RETURN_IF_ERROR(read_byte_level(root, steps, pipeline));
    return pipeline;
  }
  pipeline.kind = VocabularyKind::kSentencePiece;
  pipeline.spaces.prefix = SpaceRules::Prefix::kNone;
  BATON_ASSIGN_OR_RETURN(const bool replaced, read_space_normalizer(root, pipeline.spaces));
  BATON_RETURN_IF_ERROR(read_space_pre_tokenizer(steps, replaced, root, pipeline.spaces));
  BATON_RETURN_IF_ERROR(read_space_decoder(root, pipeline.spaces));
  return pipeline;
}

Result<std::optional<std::string>> read_first_token(const JsonSection& root) {
  BATON_ASSIGN_OR_RETURN(const auto steps, steps_of(root, "post_processor", "processors"));
  std::optional<std::string> before;
  for (const JsonSection& step : steps) {
    BATON_ASSIGN_OR_RETURN(const std::string type, step.text("type"));
    if (type == "ByteLevel") {  // moves offsets only
      BATON_RETURN_IF_ERROR(step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    } else if (type == "TemplateProcessing" && !before.has_value()) {
      BATON_ASSIGN_OR_RETURN(before, token_before(step));
    } else {
      return step.refuse("type", "ByteLevel, one TemplateProcessing, Sequence");
    }
  }
  return before;
}

}  // namespace baton::tokenizer
