#pragma once

// How the parsers make nodes and bound their own recursion. Private to the parsers.

#include <memory>
#include <utility>

#include "common/tokenizer/chat_template/ast.h"
#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/parser.h"

namespace baton::chat_template {

class DepthGuard {
 public:
  explicit DepthGuard(ParseState& state) : state_(state) { ++state_.depth; }
  ~DepthGuard() { --state_.depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  bool too_deep() const { return state_.depth > kMaxSyntaxDepth; }

 private:
  ParseState& state_;
};

inline ExpressionPtr make(ExpressionKind kind, int line) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

inline ExpressionPtr make_constant(Value value, int line) {
  ExpressionPtr node = make(ExpressionKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

inline ExpressionPtr make_unary(ExpressionKind kind, int line, ExpressionPtr operand) {
  ExpressionPtr node = make(kind, line);
  node->operands.push_back(std::move(operand));
  return node;
}

inline ExpressionPtr make_binary(ExpressionKind kind, int line, ExpressionPtr left,
                                 ExpressionPtr right) {
  ExpressionPtr node = make_unary(kind, line, std::move(left));
  node->operands.push_back(std::move(right));
  return node;
}

}  // namespace baton::chat_template
