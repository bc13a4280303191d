// Compares with the answers of the `tokenizers` package; see tests/data/tokenizer/README.md.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "common/tokenizer/nfc.h"
#include "common/tokenizer/pre_tokenizer.h"
#include "common/tokenizer/test_vocabulary.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

std::vector<TokenId> piece_lengths(PreTokenizer pre, std::string_view text) {
  std::vector<TokenId> lengths;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_piece_end(pre, text, begin);
    lengths.push_back(static_cast<TokenId>(end - begin));
    begin = end;
  }
  return lengths;
}

Tokenizer created(VocabularySpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return std::move(*tokenizer);
}

// SmolLM2's vocabulary with GPT-2's pre-tokenizer.
Tokenizer smollm2_as_gpt2() {
  VocabularySpec spec = smollm2_vocabulary();
  spec.pre_tokenizer = "gpt-2";
  return created(std::move(spec));
}

TEST(TokenizerOracleTest, EveryTextHasTheExpectedIdsAndPieces) {
  const Tokenizer smollm = smollm2_tokenizer();
  const Tokenizer gpt2 = smollm2_as_gpt2();
  const Tokenizer llama = created(reduced_vocabulary("llama3"));
  const Tokenizer qwen = created(reduced_vocabulary("qwen3"));
  const std::string file = read_test_data("cases.tsv");
  size_t texts = 0;
  for (const std::string_view line : split_at(file, '\n')) {
    const auto fields = split_at(line, '\t');
    ASSERT_EQ(fields.size(), 7u) << line;
    const std::string text = unescape(fields[0]);
    ++texts;
    EXPECT_EQ(smollm.encode(text), numbers(fields[1])) << "smollm: " << fields[0];
    EXPECT_EQ(gpt2.encode(text), numbers(fields[2])) << "gpt-2: " << fields[0];
    EXPECT_EQ(piece_lengths(PreTokenizer::kLlamaBpe, text), numbers(fields[3]))
        << "llama-bpe: " << fields[0];
    EXPECT_EQ(piece_lengths(PreTokenizer::kQwen2, text), numbers(fields[5]))
        << "qwen2: " << fields[0];
    if (fields[4] != "-") {
      EXPECT_EQ(llama.encode(text), numbers(fields[4])) << "reduced llama: " << fields[0];
      EXPECT_EQ(qwen.encode(text), numbers(fields[6])) << "reduced qwen: " << fields[0];
    }
    EXPECT_EQ(qwen.decode(qwen.encode(text)), to_nfc(text).value_or(text));
  }
  EXPECT_GE(texts, 2000u);
}

TEST(TokenizerOracleTest, SpecialTokensInTextHaveTheExpectedIds) {
  const Tokenizer smollm = smollm2_tokenizer();
  const Tokenizer llama = created(reduced_vocabulary("llama3"));
  const Tokenizer qwen = created(reduced_vocabulary("qwen3"));
  const EncodeOptions options = {.parse_special = true};
  const std::string file = read_test_data("special_cases.tsv");
  for (const std::string_view line : split_at(file, '\n')) {
    const auto fields = split_at(line, '\t');
    ASSERT_EQ(fields.size(), 4u) << line;
    const std::string text = unescape(fields[0]);
    EXPECT_EQ(smollm.encode(text, options), numbers(fields[1])) << "smollm: " << fields[0];
    EXPECT_EQ(llama.encode(text, options), numbers(fields[2])) << "reduced llama: " << fields[0];
    EXPECT_EQ(qwen.encode(text, options), numbers(fields[3])) << "reduced qwen: " << fields[0];
    EXPECT_EQ(qwen.decode(qwen.encode(text, options), {.skip_special = false}), text);
  }
}

// Where "a{c}1{c}{c}!" is cut, in characters, written as digits.
std::string cuts_around(PreTokenizer pre, char32_t c) {
  std::string text = "a";
  append_utf8(text, c);
  text += '1';
  append_utf8(text, c);
  append_utf8(text, c);
  text += '!';
  std::string cuts;
  for (size_t begin = 0; begin < text.size();) {
    begin = next_piece_end(pre, text, begin);
    size_t characters = 0;
    for (size_t i = 0; i < begin; ++i) {
      characters += (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80 ? 1 : 0;
    }
    cuts += std::to_string(characters);
  }
  return cuts;
}

TEST(TokenizerOracleTest, EveryCodePointHasTheExpectedClass) {
  const std::string file = read_test_data("code_points.txt");
  const auto lines = split_at(file, '\n');
  size_t checked = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto fields = split_at(lines[i], ' ');
    ASSERT_EQ(fields.size(), 3u) << lines[i];
    const auto pre = pre_tokenizer_by_name(fields[0]);
    ASSERT_TRUE(pre.has_value());
    const auto first = std::strtoul(std::string(fields[1]).c_str(), nullptr, 16);
    const bool is_last = i + 1 == lines.size() || split_at(lines[i + 1], ' ')[0] != fields[0];
    const auto end =
        is_last ? 0x110000
                : std::strtoul(std::string(split_at(lines[i + 1], ' ')[1]).c_str(), nullptr, 16);
    for (auto c = first; c < end; ++c) {
      if (c < 0xD800 || c > 0xDFFF) {
        ++checked;
        ASSERT_EQ(cuts_around(*pre, static_cast<char32_t>(c)), fields[2])
            << fields[0] << " U+" << std::hex << c;
      }
    }
  }
  EXPECT_EQ(checked, 2u * (0x110000 - 0x800));
}

TEST(TokenizerOracleTest, MegabyteRunsHaveTheExpectedIds) {
  const Tokenizer smollm = smollm2_tokenizer();
  const std::string file = read_test_data("long_runs.tsv");
  for (const std::string_view line : split_at(file, '\n')) {
    const auto fields = split_at(line, '\t');
    ASSERT_EQ(fields.size(), 3u) << line;
    const std::string unit = unescape(fields[0]);
    std::string text;
    for (size_t i = 0; i < 1'000'000 / unit.size(); ++i) {
      text += unit;
    }
    uint64_t digest = 0;
    const auto ids = smollm.encode(text);
    for (const TokenId id : ids) {
      const auto wide = static_cast<unsigned __int128>(digest) * 1'000'003 + id + 1;
      digest = static_cast<uint64_t>(wide % (uint64_t{1} << 61));
    }
    EXPECT_EQ(std::to_string(ids.size()), fields[1]) << fields[0];
    EXPECT_EQ(std::to_string(digest), fields[2]) << fields[0];
  }
}

template <typename Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return taken.count();
}

// Linear is 4, quadratic 16. The constant keeps very short times out of the comparison, the
// repetition other processes: a quadratic scanner fails each time.
template <typename Work>
bool is_about_linear(const Work& work, char unit) {
  const std::string small(250'000, unit);
  const std::string large(1'000'000, unit);
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (seconds([&] { work(large); }) < 8 * seconds([&] { work(small); }) + 0.02) {
      return true;
    }
  }
  return false;
}

TEST(TokenizerOracleTest, TimeGrowsAboutLinearlyOnRuns) {
  const Tokenizer smollm = smollm2_tokenizer();
  for (const char unit : {'a', ' ', '\n', '7', '!', '\''}) {
    const auto encode = [&](const std::string& text) { EXPECT_FALSE(smollm.encode(text).empty()); };
    EXPECT_TRUE(is_about_linear(encode, unit)) << "smollm, character " << int{unit};
    for (const auto pre : {PreTokenizer::kGpt2, PreTokenizer::kLlamaBpe, PreTokenizer::kGpt4o,
                           PreTokenizer::kDeepSeekV3}) {
      const auto split = [&](const std::string& text) {
        EXPECT_FALSE(piece_lengths(pre, text).empty());
      };
      EXPECT_TRUE(is_about_linear(split, unit))
          << "pre-tokenizer " << static_cast<int>(pre) << ", character " << int{unit};
    }
  }
}

// Random bytes survive: with every byte in the vocabulary, exactly; with SmolLM2's, but for the
// bytes that it lacks.
TEST(TokenizerOracleTest, RandomBytesSurviveTheRoundTrip) {
  const Tokenizer llama = created(reduced_vocabulary("llama3"));
  const Tokenizer smollm = smollm2_tokenizer();
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 300, '\0');
    for (char& c : text) {
      c = static_cast<char>(random() % (round % 2 == 0 ? 256 : 128));
    }
    std::string bytes;
    for (const TokenId id : llama.encode(text)) {
      bytes += llama.token_bytes(id);
    }
    EXPECT_EQ(bytes, text);
    std::string kept;
    for (const char c : text) {
      if (!smollm.encode(std::string_view(&c, 1)).empty()) {
        kept += c;
      }
    }
    bytes.clear();
    for (const TokenId id : smollm.encode(text)) {
      bytes += smollm.token_bytes(id);
    }
    EXPECT_EQ(bytes, kept);
  }
}

}  // namespace
}  // namespace baton::tokenizer
