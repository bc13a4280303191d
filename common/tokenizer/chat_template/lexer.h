#pragma once

// Cuts a template into tokens as jinja2's lexer does with trim_blocks and lstrip_blocks on.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace baton::chat_template {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 0;
  std::string text;  // of data, name, operator; the value of a string
  int64_t integer = 0;
  double real = 0;

  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool is_operator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
};

// The last token is kEnd. Comments are dropped, raw blocks become data, newlines become "\n" and
// one newline at the very end is dropped. `source` is valid UTF-8.
Result<std::vector<Token>> tokenize(std::string_view source);

// "chat template line 3: ...".
Status syntax_error(int line, std::string_view message);
Status unsupported_syntax(int line, std::string_view what);

}  // namespace baton::chat_template
