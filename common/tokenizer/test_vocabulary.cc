#include "common/tokenizer/test_vocabulary.h"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "common/base/check.h"
#include "common/model_file/model_file.h"
#include "common/tokenizer/byte_level.h"
#include "common/tokenizer/vocabulary_from_gguf.h"

namespace baton::tokenizer {

VocabularySpec small_vocabulary() {
  VocabularySpec spec;
  spec.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(byte_level_from_bytes(std::string(1, static_cast<char>(byte))));
  }
  spec.merges = {"h e", "l l", "he ll", "hell o", "Ġ h", "Ġ hello"};
  for (const std::string& merge : spec.merges) {
    std::string token = merge;
    token.erase(token.find(' '), 1);
    spec.tokens.push_back(token);
  }
  spec.token_types.assign(spec.tokens.size(), 1);
  for (const char* control : {"<|bos|>", "<|im_end|>", "<|endoftext|>"}) {
    spec.tokens.push_back(control);
    spec.token_types.push_back(3);
  }
  spec.tokens.push_back("<think>");
  spec.token_types.push_back(4);
  spec.bos_id = 262;
  spec.eos_id = 263;
  return spec;
}

VocabularySpec reduced_vocabulary(const std::string& name) {
  const std::string file = read_test_data("vocabulary_" + name + "_reduced.txt");
  VocabularySpec spec;
  for (const std::string_view line : split_at(file, '\n')) {
    const size_t space = line.find(' ');
    const std::string_view kind = line.substr(0, space);
    if (kind == "pre") {
      spec.pre_tokenizer = line.substr(space + 1);
    } else if (kind == "token") {
      spec.token_types.push_back(line[space + 1] - '0');
      spec.tokens.emplace_back(line.substr(space + 3));
    } else if (kind == "merge") {
      spec.merges.emplace_back(line.substr(space + 1));
    }
  }
  return spec;
}

VocabularySpec smollm2_vocabulary() {
  const std::string path =
      std::string(BATON_SOURCE_DIR) + "/models/smollm2-135m-instruct-q4_1.gguf";
  auto file = model_file::ModelFile::open(path);
  BATON_CHECK(file.ok(), file.status().to_string());
  auto spec = vocabulary_from_gguf(*file);
  BATON_CHECK(spec.ok(), spec.status().to_string());
  return std::move(*spec);
}

Tokenizer smollm2_tokenizer() {
  auto tokenizer = Tokenizer::create(smollm2_vocabulary());
  BATON_CHECK(tokenizer.ok(), tokenizer.status().to_string());
  return std::move(*tokenizer);
}

std::string read_test_data(const std::string& name) {
  return read_source_file("tests/data/tokenizer/" + name);
}

std::string read_source_file(const std::string& name) {
  const std::string path = std::string(BATON_SOURCE_DIR) + "/" + name;
  std::ifstream in(path, std::ios::binary);
  BATON_CHECK(in.good(), "cannot read " + path);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      break;
    }
    text.remove_prefix(end + 1);
    if (text.empty() && separator != '\n') {
      parts.emplace_back();  // a file ends with its last newline, a field list with its last field
    }
  }
  return parts;
}

std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      const std::string digits(text.substr(i + 2, 2));
      out.push_back(static_cast<char>(std::strtol(digits.c_str(), nullptr, 16)));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::vector<TokenId> numbers(std::string_view text) {
  std::vector<TokenId> values;
  for (const std::string_view part : split_at(text, ',')) {
    TokenId value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    BATON_CHECK(error == std::errc(), "no number: " + std::string(part));
    values.push_back(value);
  }
  return values;
}

}  // namespace baton::tokenizer
