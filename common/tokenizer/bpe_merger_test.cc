#include "common/tokenizer/bpe_merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
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

}  // namespace
}  // namespace baton::tokenizer
