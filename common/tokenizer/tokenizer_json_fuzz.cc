// Fuzzes the reading of a model folder's files. The input is the files one after another, separated
// by a zero byte: tokenizer.json, tokenizer_config.json, special_tokens_map.json,
// generation_config.json, chat_template.jinja. What is read must make a tokenizer, or say why not
// in one line, and a tokenizer must survive its own token texts.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/tokenizer/incremental_detokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8.h"
#include "common/tokenizer/vocabulary_from_tokenizer_json.h"

namespace baton::tokenizer {
namespace {

constexpr size_t kTriedTokens = 300;

void check_message(const Status& status) {
  BATON_CHECK(!status.message().empty(), "an error without a message");
}

void check_round(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_bos = true, .parse_special = special});
    IncrementalDetokenizer detokenizer(tokenizer, {.skip_special = special});
    std::string streamed;
    for (const TokenId id : ids) {
      BATON_CHECK(tokenizer.contains(id), "an id outside the vocabulary");
      streamed += detokenizer.feed(id);
    }
    streamed += detokenizer.finish();
    BATON_CHECK(is_valid_utf8(streamed), "text is not UTF-8");
    BATON_CHECK(streamed == tokenizer.decode(ids, {.skip_special = special}), "streams differ");
  }
}

void check(std::string_view input) {
  TokenizerTexts texts;
  for (std::string* file : {&texts.tokenizer, &texts.tokenizer_config, &texts.special_tokens_map,
                            &texts.generation_config, &texts.chat_template}) {
    const size_t end = input.find('\0');
    *file = input.substr(0, end);
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
  }
  auto spec = vocabulary_from_tokenizer_json(texts);
  if (!spec.ok()) {
    check_message(spec.status());
    return;
  }
  const auto tokenizer = Tokenizer::create(std::move(*spec));
  if (!tokenizer.ok()) {
    check_message(tokenizer.status());
    return;
  }
  std::string all;
  for (size_t i = 0; i < tokenizer->vocab_size() && i < kTriedTokens; ++i) {
    const auto id = static_cast<TokenId>(i);
    all += tokenizer->token_bytes(id);
    all += tokenizer->token_text(id);
  }
  check_round(*tokenizer, std::string_view(all).substr(0, 4096));
  check_round(*tokenizer, std::string_view(texts.tokenizer).substr(0, 512));
}

}  // namespace
}  // namespace baton::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  baton::tokenizer::check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
