#include "deploy/baton/token_files.h"

#include <charconv>
#include <fstream>
#include <iterator>

namespace baton::cli {
namespace {

constexpr std::string_view kSeparators = " \t\r\n,";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSeparators);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSeparators) - first + 1);
}

}  // namespace

Result<std::vector<TokenId>> parse_token_ids(std::string_view text, int vocab_size) {
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']')) {
    text = trimmed(text.substr(1, text.size() - 2));
  }
  std::vector<TokenId> ids;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    TokenId id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocab_size) {
      return invalid_argument("entry " + std::to_string(ids.size()) + ", \"" +
                              std::string(word.substr(0, 40)) + "\", is no token id in 0.." +
                              std::to_string(vocab_size - 1));
    }
    ids.push_back(id);
    text = trimmed(text.substr(word.size()));
  }
  if (ids.empty()) {
    return invalid_argument("no token ids");
  }
  return ids;
}

Result<std::vector<TokenId>> read_token_ids(const std::string& path, int vocab_size) {
  BATON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  Result<std::vector<TokenId>> ids = parse_token_ids(text, vocab_size);
  return ids.ok() ? std::move(ids) : ids.status().with_context(path);
}

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return not_found("cannot read " + path);
  }
  const auto size = static_cast<int64_t>(file.tellg());
  if (size < 0 || static_cast<uint64_t>(size) > kMaxTextFile) {
    return invalid_argument(path + " is no file of at most 256 MiB");
  }
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  file.read(text.data(), size);
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace baton::cli
