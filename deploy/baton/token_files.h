#pragma once

// Token ids in files: a JSON list, or numbers with whitespace or commas between them.

#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"

namespace baton::cli {

inline constexpr size_t kMaxTextFile = size_t{256} << 20;

// invalid_argument with the first thing that is no id of the vocabulary, and its place.
Result<std::vector<TokenId>> parse_token_ids(std::string_view text, int vocab_size);
// As parse_token_ids; errors name the file.
Result<std::vector<TokenId>> read_token_ids(const std::string& path, int vocab_size);

// A whole file of at most kMaxTextFile bytes.
Result<std::string> read_text_file(const std::string& path);

}  // namespace baton::cli
