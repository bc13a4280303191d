#include "common/tokenizer/vocabulary_from_tokenizer_json.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/tokenizer/byte_level.h"
#include "common/tokenizer/json_section.h"
#include "common/tokenizer/tokenizer_pipeline.h"

namespace baton::tokenizer {
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;
constexpr size_t kMaxDepth = 32;
// Ids without a token that a vocabulary may have.
constexpr size_t kMaxHoles = size_t{1} << 16;

// A parsed file; `value` lies in `memory`.
struct Document {
  boost::json::storage_ptr memory;
  boost::json::value value;
};

Result<Document> parse(const std::string& name, const std::string& text) {
  Document document;
  document.memory = boost::json::make_shared_resource<boost::json::monotonic_resource>();
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error, document.memory, options);
  if (error) {
    return invalid_argument(name + " is no JSON: " + error.message());
  }
  if (!value.is_object()) {
    return invalid_argument(name + " is " + shown(value) + ", but must be an object");
  }
  return Document{document.memory, std::move(value)};
}

// An empty text is an empty object: the file is not there.
Result<Document> parse_optional(const std::string& name, const std::string& text) {
  return parse(name, text.empty() ? "{}" : text);
}

bool is_byte_token(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return text.size() == 6 && text.starts_with("<0x") && is_digit(text[3]) && is_digit(text[4]) &&
         text[5] == '>';
}

// The tokens while they are collected.
class Tokens {
 public:
  explicit Tokens(VocabularySpec& spec) : spec_(&spec) {}

  Status add_vocabulary(const JsonSection& model, bool has_bytes) {
    BATON_ASSIGN_OR_RETURN(const boost::json::object* vocab, model.object("vocab"));
    BATON_ASSIGN_OR_RETURN(const auto unknown, model.find_text("unk_token"));
    max_size_ = vocab->size() + kMaxHoles;
    spec_->tokens.reserve(vocab->size());
    for (const auto& field : *vocab) {
      const std::string_view text = field.key();
      if (!field.value().is_int64()) {
        return invalid_argument(model.path_of("vocab") + " has \"" + std::string(text) +
                                "\": " + shown(field.value()) + ", but ids are whole numbers");
      }
      TokenType type = TokenType::kNormal;
      if (has_bytes && is_byte_token(text)) {
        type = TokenType::kByte;
      } else if (unknown.has_value() && text == *unknown) {
        type = TokenType::kUnknown;
        spec_->unknown_id = static_cast<TokenId>(field.value().get_int64());
      }
      BATON_RETURN_IF_ERROR(put(model.path_of("vocab"), field.value().get_int64(), text, type));
    }
    // Where all bytes are tokens nothing is unknown; else the bytes that are none would be.
    for (int byte = 0; unknown.has_value() && !has_bytes && byte < 256; ++byte) {
      if (!vocab->contains(byte_level_from_bytes(std::string(1, static_cast<char>(byte))))) {
        return model.refuse("unk_token", "null where not all 256 bytes are tokens");
      }
    }
    return {};
  }

  Status add(const JsonSection& token) {
    BATON_RETURN_IF_ERROR(
        token.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
    BATON_ASSIGN_OR_RETURN(const int32_t id, token.number("id"));
    BATON_ASSIGN_OR_RETURN(const std::string content, token.text("content"));
    if (content.empty()) {
      return token.refuse("content", "a text");
    }
    BATON_RETURN_IF_ERROR(token.expect_bool("single_word", false));
    BATON_ASSIGN_OR_RETURN(const auto special, token.find_bool("special"));
    BATON_ASSIGN_OR_RETURN(const auto normalized, token.find_bool("normalized"));
    BATON_ASSIGN_OR_RETURN(const auto left, token.find_bool("lstrip"));
    BATON_ASSIGN_OR_RETURN(const auto right, token.find_bool("rstrip"));
    const bool is_special = special.value_or(false);
    const bool is_unknown = spec_->unknown_id == id;
    if (!is_unknown || !is_special) {
      max_size_ += 1;
      BATON_RETURN_IF_ERROR(put(token.path(), id, content,
                                is_special ? TokenType::kControl : TokenType::kUserDefined));
    }
    const MatchRule rule = {.normalized = normalized.value_or(!is_special),
                            .left_strip = left.value_or(false),
                            .right_strip = right.value_or(false)};
    if (rule.normalized || rule.left_strip || rule.right_strip) {
      spec_->match_rules.emplace_back(id, rule);
    }
    return {};
  }

  std::optional<TokenId> find(std::string_view text) const {
    const auto found = std::find(spec_->tokens.begin(), spec_->tokens.end(), text);
    if (text.empty() || found == spec_->tokens.end()) {
      return std::nullopt;
    }
    return static_cast<TokenId>(found - spec_->tokens.begin());
  }

 private:
  Status put(const std::string& path, int64_t id, std::string_view text, TokenType type) {
    if (id < 0 || static_cast<uint64_t>(id) >= max_size_ ||
        static_cast<uint64_t>(id) >= Vocabulary::kMaxTokens) {
      return invalid_argument(path + ": the id of \"" + std::string(text) + "\" is " +
                              std::to_string(id) + ", which is no id or leaves too many unused");
    }
    const auto at = static_cast<size_t>(id);
    if (at >= spec_->tokens.size()) {
      spec_->tokens.resize(at + 1);
      spec_->token_types.resize(at + 1, static_cast<int32_t>(TokenType::kUnused));
    }
    std::string& place = spec_->tokens[at];
    if (!place.empty() && place != text) {
      return invalid_argument(path + ": id " + std::to_string(id) + " is that of \"" + place +
                              "\" and of \"" + std::string(text) + "\"");
    }
    place = text;
    spec_->token_types[at] = static_cast<int32_t>(type);
    return {};
  }

  VocabularySpec* spec_;
  size_t max_size_ = kMaxHoles;
};

// "left right", or ["left", "right"]
Result<std::string> merge_of(const JsonSection& model, const boost::json::value& value, size_t i) {
  if (value.is_string()) {
    return std::string(std::string_view(value.get_string()));
  }
  if (value.is_array() && value.get_array().size() == 2 && value.get_array()[0].is_string() &&
      value.get_array()[1].is_string()) {
    const std::string_view left = value.get_array()[0].get_string();
    const std::string_view right = value.get_array()[1].get_string();
    if (left.find(' ') == std::string_view::npos && right.find(' ') == std::string_view::npos) {
      return std::string(left).append(" ").append(right);
    }
  }
  return invalid_argument(model.path_of("merges") + "[" + std::to_string(i) + "] is " +
                          shown(value) + ", but must be two tokens without spaces");
}

Status read_model(const JsonSection& model, VocabularyKind kind, VocabularySpec& spec) {
  BATON_RETURN_IF_ERROR(
      model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
  const boost::json::value* dropout = model.find("dropout");
  if (dropout != nullptr && !(dropout->is_number() && dropout->to_number<double>() == 0)) {
    return model.refuse("dropout", "null");
  }
  BATON_RETURN_IF_ERROR(model.expect_text("continuing_subword_prefix", ""));
  BATON_RETURN_IF_ERROR(model.expect_text("end_of_word_suffix", ""));
  BATON_ASSIGN_OR_RETURN(const auto fallback, model.find_bool("byte_fallback"));
  BATON_ASSIGN_OR_RETURN(const auto ignored, model.find_bool("ignore_merges"));
  BATON_RETURN_IF_ERROR(model.find_bool("fuse_unk").status());  // nothing is unknown
  const bool has_bytes = kind == VocabularyKind::kSentencePiece;
  if (fallback.value_or(false) != has_bytes) {
    return model.refuse("byte_fallback", has_bytes ? "true with a SentencePiece vocabulary"
                                                   : "false with a byte-level vocabulary");
  }
  if (has_bytes && ignored.value_or(false)) {
    return model.refuse("ignore_merges", "false with a SentencePiece vocabulary");
  }
  spec.ignore_merges = ignored.value_or(false);
  BATON_ASSIGN_OR_RETURN(const boost::json::array* merges, model.array("merges"));
  spec.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    BATON_ASSIGN_OR_RETURN(std::string merge, merge_of(model, (*merges)[i], i));
    spec.merges.push_back(std::move(merge));
  }
  return {};
}

// A token of a configuration file: its text, or an object that has it as `content`.
Result<std::optional<std::string>> token_text(const JsonSection& config, std::string_view key) {
  const boost::json::value* value = config.find(key);
  if (value == nullptr || !value->is_object()) {
    return config.find_text(key);
  }
  return JsonSection(config.path_of(key), value->get_object()).find_text("content");
}

Result<std::optional<TokenId>> token_id(const JsonSection& config, const JsonSection& fallback,
                                        std::string_view key, const Tokens& tokens) {
  BATON_ASSIGN_OR_RETURN(auto text, token_text(config, key));
  std::string path = config.path_of(key);
  if (!text.has_value()) {
    BATON_ASSIGN_OR_RETURN(text, token_text(fallback, key));
    path = fallback.path_of(key);
  }
  if (!text.has_value()) {
    return std::optional<TokenId>();
  }
  const std::optional<TokenId> id = tokens.find(*text);
  if (!id.has_value()) {
    return invalid_argument(path + " is \"" + *text + "\", which is no token of tokenizer.json");
  }
  return id;
}

Status read_end_ids(const JsonSection& generation, VocabularySpec& spec) {
  constexpr std::string_view kKey = "eos_token_id";
  const boost::json::value* value = generation.find(kKey);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_array()) {
    BATON_ASSIGN_OR_RETURN(const int32_t id, generation.number(kKey));
    spec.more_end_ids.push_back(id);
    return {};
  }
  for (const boost::json::value& item : value->get_array()) {
    if (!item.is_int64() || item.get_int64() < 0 ||
        static_cast<uint64_t>(item.get_int64()) >= spec.tokens.size()) {
      return invalid_argument(generation.path_of(kKey) + " has " + shown(item) +
                              ", which is no token of tokenizer.json");
    }
    spec.more_end_ids.push_back(static_cast<TokenId>(item.get_int64()));
  }
  return {};
}

Status read_templates(const JsonSection& config, const std::string& jinja, VocabularySpec& spec) {
  const boost::json::value* value = config.find("chat_template");
  if (value != nullptr && value->is_array()) {
    const boost::json::array& items = value->get_array();
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string path = config.path_of("chat_template") + "[" + std::to_string(i) + "]";
      BATON_ASSIGN_OR_RETURN(const JsonSection item, JsonSection::of(path, items[i]));
      BATON_ASSIGN_OR_RETURN(std::string name, item.text("name"));
      BATON_ASSIGN_OR_RETURN(std::string text, item.text("template"));
      if (name == "default") {
        spec.chat_template = std::move(text);
      } else {
        spec.named_chat_templates.emplace_back(std::move(name), std::move(text));
      }
    }
  } else {
    BATON_ASSIGN_OR_RETURN(const auto text, config.find_text("chat_template"));
    spec.chat_template = text.value_or("");
  }
  if (!jinja.empty()) {
    spec.chat_template = jinja;
  }
  return {};
}

Status read_bos(const JsonSection& root, const JsonSection& config, const Tokens& tokens,
                VocabularySpec& spec) {
  BATON_ASSIGN_OR_RETURN(const auto before, read_first_token(root));
  BATON_ASSIGN_OR_RETURN(const auto add_bos, config.find_bool("add_bos_token"));
  spec.add_bos = add_bos.value_or(before.has_value());
  if (!before.has_value() || !*spec.add_bos) {
    return {};
  }
  const std::optional<TokenId> id = tokens.find(*before);
  if (!id.has_value()) {
    return invalid_argument(root.path_of("post_processor") + " puts \"" + *before +
                            "\" before a text, which is no token");
  }
  if (spec.bos_id.has_value() && spec.bos_id != id) {
    return unsupported(root.path_of("post_processor") + " puts \"" + *before +
                       "\" before a text; supported: bos_token, which is token " +
                       std::to_string(*spec.bos_id));
  }
  spec.bos_id = id;
  return {};
}

// Nothing for a file that is not there.
Result<std::string> read_text(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    return std::string();
  }
  if (size > kMaxFileBytes) {
    return resource_exhausted(path + " has " + std::to_string(size) + " bytes; at most " +
                              std::to_string(kMaxFileBytes) + " are read");
  }
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  return in.bad() ? Result<std::string>(unavailable("cannot read " + path)) : std::move(text);
}

}  // namespace

Result<TokenizerTexts> read_tokenizer_texts(const std::string& folder) {
  TokenizerTexts texts;
  BATON_ASSIGN_OR_RETURN(texts.tokenizer, read_text(folder, "tokenizer.json"));
  if (texts.tokenizer.empty()) {
    return not_found(folder + " has no tokenizer.json");
  }
  BATON_ASSIGN_OR_RETURN(texts.tokenizer_config, read_text(folder, "tokenizer_config.json"));
  BATON_ASSIGN_OR_RETURN(texts.special_tokens_map, read_text(folder, "special_tokens_map.json"));
  BATON_ASSIGN_OR_RETURN(texts.generation_config, read_text(folder, "generation_config.json"));
  BATON_ASSIGN_OR_RETURN(texts.chat_template, read_text(folder, "chat_template.jinja"));
  return texts;
}

Result<VocabularySpec> vocabulary_from_tokenizer_json(const TokenizerTexts& texts) {
  BATON_ASSIGN_OR_RETURN(const Document file, parse("tokenizer.json", texts.tokenizer));
  BATON_ASSIGN_OR_RETURN(const Document config_file,
                         parse_optional("tokenizer_config.json", texts.tokenizer_config));
  BATON_ASSIGN_OR_RETURN(const Document map_file,
                         parse_optional("special_tokens_map.json", texts.special_tokens_map));
  BATON_ASSIGN_OR_RETURN(const Document generation_file,
                         parse_optional("generation_config.json", texts.generation_config));
  const JsonSection root("tokenizer.json", file.value.get_object());
  const JsonSection config("tokenizer_config.json", config_file.value.get_object());
  const JsonSection map("special_tokens_map.json", map_file.value.get_object());
  const JsonSection generation("generation_config.json", generation_file.value.get_object());

  BATON_RETURN_IF_ERROR(root.only({"version", "truncation", "padding", "added_tokens", "normalizer",
                                   "pre_tokenizer", "post_processor", "decoder", "model"}));
  BATON_ASSIGN_OR_RETURN(const boost::json::object* model_object, root.object("model"));
  const JsonSection model(root.path_of("model"), *model_object);
  BATON_RETURN_IF_ERROR(model.expect_text("type", "BPE"));
  BATON_ASSIGN_OR_RETURN(const TokenizerPipeline pipeline, read_pipeline(root));

  VocabularySpec spec;
  const bool is_byte_level = pipeline.kind == VocabularyKind::kByteLevel;
  spec.model = is_byte_level ? "gpt2" : "llama";
  spec.pre_tokenizer = pipeline.pre_tokenizer;
  spec.is_nfc = pipeline.is_nfc;
  spec.spaces = pipeline.spaces;
  BATON_RETURN_IF_ERROR(read_model(model, pipeline.kind, spec));
  Tokens tokens(spec);
  BATON_RETURN_IF_ERROR(tokens.add_vocabulary(model, !is_byte_level));
  if (root.find("added_tokens") != nullptr) {
    BATON_ASSIGN_OR_RETURN(const boost::json::array* added, root.array("added_tokens"));
    for (size_t i = 0; i < added->size(); ++i) {
      const std::string path = root.path_of("added_tokens") + "[" + std::to_string(i) + "]";
      BATON_ASSIGN_OR_RETURN(const JsonSection token, JsonSection::of(path, (*added)[i]));
      BATON_RETURN_IF_ERROR(tokens.add(token));
    }
  }
  BATON_ASSIGN_OR_RETURN(spec.bos_id, token_id(config, map, "bos_token", tokens));
  BATON_ASSIGN_OR_RETURN(spec.eos_id, token_id(config, map, "eos_token", tokens));
  BATON_ASSIGN_OR_RETURN(spec.padding_id, token_id(config, map, "pad_token", tokens));
  BATON_RETURN_IF_ERROR(read_bos(root, config, tokens, spec));
  BATON_RETURN_IF_ERROR(read_end_ids(generation, spec));
  BATON_RETURN_IF_ERROR(read_templates(config, texts.chat_template, spec));
  return spec;
}

}  // namespace baton::tokenizer
