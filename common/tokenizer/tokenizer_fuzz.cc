// Fuzzes encode, decode and the incremental detokenizer. The first byte chooses the pre-tokenizer,
// the second the options; the rest is text, and once more, two bytes each, token ids.

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/tokenizer/byte_level.h"
#include "common/tokenizer/incremental_detokenizer.h"
#include "common/tokenizer/nfc.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

Tokenizer make_tokenizer(const char* pre_tokenizer) {
  VocabularySpec spec;
  spec.pre_tokenizer = pre_tokenizer;
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(byte_level_from_bytes(std::string(1, static_cast<char>(byte))));
  }
  spec.merges = {"a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "a b", "Ġ a", "Ġa b", "' s", "Ã ©", "1 1"};
  for (const std::string& merge : spec.merges) {
    std::string token = merge;
    token.erase(token.find(' '), 1);
    spec.tokens.push_back(token);
  }
  spec.token_types.assign(spec.tokens.size(), 1);
  for (const char* control : {"<|a|>", "<|a|>b", "<", "<|im_end|>"}) {
    spec.tokens.push_back(control);
    spec.token_types.push_back(3);
  }
  spec.tokens.push_back("<t>");
  spec.token_types.push_back(4);
  spec.bos_id = static_cast<TokenId>(spec.tokens.size()) - 2;
  spec.add_bos = true;
  auto tokenizer = Tokenizer::create(std::move(spec));
  BATON_CHECK(tokenizer.ok(), tokenizer.status().to_string());
  return std::move(*tokenizer);
}

void check_streaming(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                     const DecodeOptions& options) {
  IncrementalDetokenizer detokenizer(tokenizer, options);
  std::string joined;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.feed(id);
    BATON_CHECK(is_valid_utf8(piece), "half a character came out");
    BATON_CHECK(detokenizer.held_bytes() <= 3, "too many bytes held");
    joined += piece;
  }
  joined += detokenizer.finish();
  BATON_CHECK(joined == tokenizer.decode(ids, options), "streamed text differs");
}

void check(const Tokenizer& tokenizer, bool is_nfc, uint8_t flags, std::string_view input) {
  const EncodeOptions options = {.add_bos = (flags & 1) != 0, .parse_special = (flags & 2) != 0};
  const auto ids = tokenizer.encode(input, options);
  std::string bytes;
  for (const TokenId id : ids) {
    bytes += tokenizer.token_bytes(id);
  }
  const std::string_view all = bytes;
  if (is_nfc) {  // then text keeps its bytes only if normal, but what came out stays so
    BATON_CHECK(!to_nfc(to_nfc(input).value_or("")).has_value(), "form C is not stable");
  } else {
    BATON_CHECK(all.ends_with(input) && (options.add_bos || all.size() == input.size()),
                "encoding lost bytes");
  }
  const DecodeOptions decode_options = {.skip_special = (flags & 4) != 0};
  check_streaming(tokenizer, ids, decode_options);
  std::vector<TokenId> random_ids;
  for (size_t i = 0; i + 1 < input.size(); i += 2) {
    random_ids.push_back(static_cast<TokenId>(static_cast<uint8_t>(input[i])) +
                         (input[i + 1] % 4) * 100);
  }
  check_streaming(tokenizer, random_ids, decode_options);
}

}  // namespace
}  // namespace baton::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using baton::tokenizer::Tokenizer;
  static const Tokenizer* const kTokenizers[] = {
      new Tokenizer(baton::tokenizer::make_tokenizer("gpt-2")),
      new Tokenizer(baton::tokenizer::make_tokenizer("smollm")),
      new Tokenizer(baton::tokenizer::make_tokenizer("llama-bpe")),
      new Tokenizer(baton::tokenizer::make_tokenizer("qwen2")),
      new Tokenizer(baton::tokenizer::make_tokenizer("gpt-4o")),
      new Tokenizer(baton::tokenizer::make_tokenizer("tekken")),
      new Tokenizer(baton::tokenizer::make_tokenizer("deepseek-v3")),
  };
  constexpr size_t kCount = std::size(kTokenizers);
  if (size >= 2) {
    const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
    baton::tokenizer::check(*kTokenizers[data[0] % kCount], data[0] % kCount == 3, data[1], input);
  }
  return 0;
}
