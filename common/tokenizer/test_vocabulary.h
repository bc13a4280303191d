#pragma once

// Vocabularies for this folder's tests, and the oracle files of tests/data/tokenizer.

#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/vocabulary.h"

namespace baton::tokenizer {

// The 256 bytes, "he", "ll", "hell", "hello", " h", " hello", then the control tokens <|bos|>,
// <|im_end|>, <|endoftext|> and the user-defined <think>.
VocabularySpec small_vocabulary();
// tests/data/tokenizer/vocabulary_<name>_reduced.txt
VocabularySpec reduced_vocabulary(const std::string& name);
// models/smollm2-135m-instruct-q4_1.gguf of the source tree; a missing file is a failure.
VocabularySpec smollm2_vocabulary();
Tokenizer smollm2_tokenizer();

std::string read_test_data(const std::string& name);    // of tests/data/tokenizer
std::string read_source_file(const std::string& name);  // path from the source tree's root
std::vector<std::string_view> split_at(std::string_view text, char separator);
// Undoes make_cases.py's escape().
std::string unescape(std::string_view text);
std::vector<TokenId> numbers(std::string_view text);

}  // namespace baton::tokenizer
