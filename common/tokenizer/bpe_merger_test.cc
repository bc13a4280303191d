#include "common/tokenizer/bpe_merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/test_vocabulary.h"

namespace baton::tokenizer {
namespace {

using testing::HasSubstr;

Vocabulary vocabulary_of(const VocabularySpec& spec) {
  auto vocabulary = Vocabulary::create(VocabularyKind::kByteLevel, spec.tokens, spec.token_types);
  EXPECT_TRUE(vocabulary.ok());
  return std::move(*vocabulary);
}

// The definition: best rank, then leftmost, until nothing merges.
std::vector<std::string> merged_by_definition(const std::map<std::string, size_t>& ranks,
                                              std::string_view piece) {
  std::vector<std::string> parts;
  for (const char c : piece) {
    parts.emplace_back(1, c);
  }
  while (true) {
    size_t best = ranks.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + " " + parts[i + 1]);
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == ranks.size()) {
      return parts;
    }
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(BpeMergerTest, EqualsTheDefinitionOnShortAndLongPieces) {
  VocabularySpec spec = small_vocabulary();
  spec.token_types.clear();
  spec.merges = {"a b", "b c", "ab c", "a a", "aa aa", "c c", "b b", "bc cc", "aa b", "abc abc"};
  std::map<std::string, size_t> ranks;
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    ranks[spec.merges[i]] = i;
    std::string token = spec.merges[i];
    token.erase(token.find(' '), 1);
    spec.tokens.push_back(token);
  }
  const Vocabulary vocabulary = vocabulary_of(spec);
  auto merger = BpeMerger::create(vocabulary, spec.merges);
  ASSERT_TRUE(merger.ok()) << merger.status().to_string();
  BpeMerger::Scratch scratch;
  std::mt19937 random(1);
  for (int round = 0; round < 600; ++round) {
    std::string piece(random() % 120, 'a');
    for (char& c : piece) {
      c = "abcd"[random() % (round % 2 == 0 ? 3 : 4)];
    }
    std::vector<TokenId> ids;
    merger->merge(piece, scratch, ids);
    std::vector<std::string> parts;
    for (const TokenId id : ids) {
      parts.emplace_back(vocabulary.bytes(id));
    }
    ASSERT_EQ(parts, merged_by_definition(ranks, piece)) << piece;
  }
}

TEST(BpeMergerTest, DropsBytesWithoutATokenBeforeMerging) {
  VocabularySpec spec = small_vocabulary();
  spec.tokens['x'] = "unused";
  const Vocabulary vocabulary = vocabulary_of(spec);
  auto merger = BpeMerger::create(vocabulary, spec.merges);
  ASSERT_TRUE(merger.ok());
  BpeMerger::Scratch scratch;
  std::vector<TokenId> ids;
  merger->merge("xhxexx", scratch, ids);
  merger->merge(std::string(200, 'x'), scratch, ids);
  merger->merge("", scratch, ids);
  EXPECT_EQ(ids, std::vector<TokenId>{256});
}

TEST(BpeMergerTest, RefusesBrokenMergesByNumber) {
  const Vocabulary vocabulary = vocabulary_of(small_vocabulary());
  const std::vector<std::string> no_space = {"h e", "hello"};
  EXPECT_THAT(BpeMerger::create(vocabulary, no_space).status().message(),
              HasSubstr("merge 1 \"hello\" is not two tokens"));
  const std::vector<std::string> empty = {""};
  EXPECT_EQ(BpeMerger::create(vocabulary, empty).status().code(), StatusCode::kInvalidArgument);
  const std::vector<std::string> unknown = {"h h"};
  EXPECT_THAT(BpeMerger::create(vocabulary, unknown).status().message(),
              HasSubstr("merge 0 \"h h\" names or makes a token"));
}

// The 256 byte tokens, then `tokens`.
Result<Vocabulary> sentence_piece(const std::vector<std::string>& tokens) {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    all.push_back({'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'});
  }
  std::vector<int32_t> types(256, 6);
  all.insert(all.end(), tokens.begin(), tokens.end());
  types.resize(all.size(), 1);
  return Vocabulary::create(VocabularyKind::kSentencePiece, std::move(all), types);
}

std::vector<TokenId> merged(const BpeMerger& merger, std::string_view text) {
  BpeMerger::Scratch scratch;
  std::vector<TokenId> ids;
  merger.merge(text, scratch, ids);
  for (TokenId& id : ids) {
    id -= 256;  // bytes are negative
  }
  return ids;
}

TEST(BpeMergerTest, ScoresMergeTheHighestFirstThenTheLeftmost) {
  const auto vocabulary = sentence_piece({"a", "b", "c", "ab", "bc", "aa", "▁", "▁a"});
  ASSERT_TRUE(vocabulary.ok());
  std::vector<float> scores(256, 0.0f);
  scores.insert(scores.end(), {-9, -9, -9, -2, -1, -3, -9, -3});
  const auto merger = BpeMerger::from_scores(*vocabulary, scores);
  ASSERT_TRUE(merger.ok()) << merger.status().to_string();
  EXPECT_EQ(merged(*merger, "abc"), (std::vector<TokenId>{0, 4}));
  EXPECT_EQ(merged(*merger, "aaa"), (std::vector<TokenId>{5, 0}));
  // "▁a" and "aa" have one score: the left one wins.
  EXPECT_EQ(merged(*merger, " aa"), (std::vector<TokenId>{7, 0}));
  // A character without a token is its bytes; so is a byte that begins no character.
  EXPECT_EQ(merged(*merger, "aé\xFF"), (std::vector<TokenId>{0, 0xC3 - 256, 0xA9 - 256, -1}));
  EXPECT_EQ(merged(*merger, ""), std::vector<TokenId>());
  const std::string text = "a aa aab bcc";
  for (size_t begin = 0; begin < text.size();) {  // no merge is lost where the text is cut
    const size_t end = merger->independent_end(text, begin);
    EXPECT_GT(end, begin);
    begin = end;
  }
  EXPECT_EQ(merger->independent_end("a bc", 0), 1u);
  EXPECT_EQ(merger->independent_end("abcb", 0), 3u);
}

TEST(BpeMergerTest, RefusesScoresThatCannotBe) {
  const auto vocabulary = sentence_piece({"a"});
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(BpeMerger::from_scores(*vocabulary, {}).status().to_string(),
            "invalid_argument: tokenizer: 257 tokens but 0 scores");
  std::vector<float> scores(257, std::nanf(""));
  EXPECT_EQ(BpeMerger::from_scores(*vocabulary, scores).status().to_string(),
            "invalid_argument: tokenizer: a score is not a number");
  const auto long_token = sentence_piece({std::string(600, 'a')});
  scores.assign(257, 0.0f);
  EXPECT_EQ(BpeMerger::from_scores(*long_token, scores).status().to_string(),
            "invalid_argument: tokenizer: token 256 has 600 bytes; at most 512 are allowed");
  const std::vector<int32_t> types = {1};
  const auto no_bytes = Vocabulary::create(VocabularyKind::kSentencePiece, {"a"}, types);
  scores.assign(1, 0.0f);
  EXPECT_EQ(BpeMerger::from_scores(*no_bytes, scores).status().to_string(),
            "invalid_argument: tokenizer: the vocabulary has no byte token <0x00>; SentencePiece "
            "needs all 256 of them");
}

}  // namespace
}  // namespace baton::tokenizer
