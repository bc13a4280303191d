#pragma once

// Builds the syntax tree, following jinja2's parser (jinja2/parser.py) rule by rule, so that
// precedence and tuples agree. What the subset does not have is refused by name and line.

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/ast.h"
#include "common/tokenizer/chat_template/lexer.h"

namespace baton::chat_template {

// Reads tokens, front to back. Borrowed by the parsers below.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  void skip() { at_ += at_ + 1 < tokens_.size() ? 1 : 0; }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  Status expect_operator(std::string_view op);
  Status expect(TokenKind kind, std::string_view what);
  Result<std::string> expect_name();
  // "unexpected 'x'".
  Status unexpected() const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// How many levels deep a parser is; both parsers of a template share it.
struct ParseState {
  int depth = 0;
  std::vector<MacroDefinition*> macros;  // innermost last, to note the special names they read
};

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& stream, ParseState& state) : stream_(stream), state_(state) {}

  Result<ExpressionPtr> expression(bool with_conditional = true);
  // One expression, or a tuple when commas follow; `end` is a name that ends it.
  Result<ExpressionPtr> tuple(bool with_conditional, std::string_view end, bool in_parentheses);
  // "|a(1)|b" behind nothing, for filter blocks and block sets.
  Result<ExpressionPtr> filter_chain(bool starts_with_name);

 private:
  Result<ExpressionPtr> conditional();
  Result<ExpressionPtr> disjunction();
  Result<ExpressionPtr> conjunction();
  Result<ExpressionPtr> negation();
  Result<ExpressionPtr> comparison();
  Result<ExpressionPtr> sum();
  Result<ExpressionPtr> concatenation();
  Result<ExpressionPtr> product();
  Result<ExpressionPtr> power();
  Result<ExpressionPtr> unary(bool with_filter);
  Result<ExpressionPtr> primary();
  Result<ExpressionPtr> name();
  Result<ExpressionPtr> list();
  Result<ExpressionPtr> dict();
  Result<std::string> dotted_name();
  Result<ExpressionPtr> postfix(ExpressionPtr node);
  Result<ExpressionPtr> filters_and_tests(ExpressionPtr node);
  Result<ExpressionPtr> subscript(ExpressionPtr node);
  Result<ExpressionPtr> slice(ExpressionPtr node, ExpressionPtr start, int line);
  Result<ExpressionPtr> call(ExpressionPtr node);
  Result<ExpressionPtr> filter(ExpressionPtr node);
  Result<ExpressionPtr> test(ExpressionPtr node);
  Result<std::unique_ptr<ArgumentExpressions>> arguments();
  Status one_argument(ArgumentExpressions& out);
  // Fills in depth and refuses what is too deep to walk.
  Result<ExpressionPtr> finish(ExpressionPtr node) const;
  bool at_tuple_end(std::string_view end) const;

  TokenStream& stream_;
  ParseState& state_;
};

Result<Block> parse_template(std::string_view source);

}  // namespace baton::chat_template
