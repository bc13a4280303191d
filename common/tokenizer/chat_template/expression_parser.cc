// Operators and literals of parser.h; suffix_parser.cc has what follows an operand.

#include <algorithm>
#include <array>

#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/parser.h"
#include "common/tokenizer/chat_template/parser_nodes.h"

namespace baton::chat_template {
namespace {

struct OperatorName {
  std::string_view text;
  Operator op;
};
constexpr std::array<OperatorName, 6> kComparisons = {{{"==", Operator::kEqual},
                                                       {"!=", Operator::kNotEqual},
                                                       {"<", Operator::kLess},
                                                       {"<=", Operator::kLessEqual},
                                                       {">", Operator::kGreater},
                                                       {">=", Operator::kGreaterEqual}}};
constexpr std::array<OperatorName, 2> kSums = {{{"+", Operator::kAdd}, {"-", Operator::kSubtract}}};
constexpr std::array<OperatorName, 4> kProducts = {{{"*", Operator::kMultiply},
                                                    {"/", Operator::kDivide},
                                                    {"//", Operator::kFloorDivide},
                                                    {"%", Operator::kModulo}}};

template <size_t N>
const OperatorName* find_operator(const std::array<OperatorName, N>& table, const Token& token) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const OperatorName& entry) {
    return token.is_operator(entry.text);
  });
  return it == table.end() ? nullptr : &*it;
}

void note_special_name(ParseState& state, std::string_view name) {
  for (MacroDefinition* macro : state.macros) {
    macro->reads_caller |= name == "caller";
    macro->reads_varargs |= name == "varargs";
    macro->reads_kwargs |= name == "kwargs";
  }
}

int deepest_argument(const ArgumentExpressions& arguments) {
  int depth = 0;
  for (const ExpressionPtr& value : arguments.positional) {
    depth = std::max(depth, value->depth);
  }
  for (const auto& [name, value] : arguments.named) {
    depth = std::max(depth, value->depth);
  }
  for (const ExpressionPtr* value : {&arguments.rest, &arguments.named_rest}) {
    depth = std::max(depth, *value ? (*value)->depth : 0);
  }
  return depth;
}

}  // namespace

Result<ExpressionPtr> ExpressionParser::finish(ExpressionPtr node) const {
  int depth = node->arguments ? deepest_argument(*node->arguments) : 0;
  for (const ExpressionPtr& operand : node->operands) {
    depth = std::max(depth, operand ? operand->depth : 0);
  }
  node->depth = depth + 1;
  if (node->depth > kMaxSyntaxDepth) {
    return syntax_error(node->line, "the expression is too deep");
  }
  return node;
}

bool ExpressionParser::at_tuple_end(std::string_view end) const {
  const Token& token = stream_.current();
  return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd ||
         token.is_operator(")") || (!end.empty() && token.is_name(end));
}

Result<ExpressionPtr> ExpressionParser::expression(bool with_conditional) {
  const DepthGuard guard(state_);
  if (guard.too_deep()) {
    return syntax_error(stream_.line(), "the expression is too deep");
  }
  return with_conditional ? conditional() : disjunction();
}

Result<ExpressionPtr> ExpressionParser::tuple(bool with_conditional, std::string_view end,
                                              bool in_parentheses) {
  ExpressionPtr node = make(ExpressionKind::kTuple, stream_.line());
  bool is_tuple = false;
  while (true) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(stream_.expect_operator(","));
    }
    if (at_tuple_end(end)) {
      break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, expression(with_conditional));
    node->operands.push_back(std::move(item));
    if (!stream_.current().is_operator(",")) {
      break;
    }
    is_tuple = true;
  }
  if (!is_tuple && !node->operands.empty()) {
    return std::move(node->operands[0]);
  }
  if (!is_tuple && !in_parentheses) {
    return syntax_error(stream_.line(), "Expected an expression");
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::conditional() {
  int line = stream_.line();
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, disjunction());
  while (stream_.skip_name("if")) {
    ExpressionPtr outer = make_unary(ExpressionKind::kConditional, line, std::move(node));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr condition, disjunction());
    outer->operands.push_back(std::move(condition));
    outer->operands.push_back(nullptr);
    if (stream_.skip_name("else")) {
      BATON_ASSIGN_OR_RETURN(outer->operands[2], expression());
    }
    BATON_ASSIGN_OR_RETURN(node, finish(std::move(outer)));
    line = stream_.line();
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::disjunction() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, conjunction());
  while (stream_.current().is_name("or")) {
    const int line = stream_.line();
    stream_.skip();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, conjunction());
    BATON_ASSIGN_OR_RETURN(
        node, finish(make_binary(ExpressionKind::kOr, line, std::move(node), std::move(right))));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::conjunction() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, negation());
  while (stream_.current().is_name("and")) {
    const int line = stream_.line();
    stream_.skip();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, negation());
    BATON_ASSIGN_OR_RETURN(
        node, finish(make_binary(ExpressionKind::kAnd, line, std::move(node), std::move(right))));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::negation() {
  const int line = stream_.line();
  if (!stream_.skip_name("not")) {
    return comparison();
  }
  const DepthGuard guard(state_);
  if (guard.too_deep()) {
    return syntax_error(line, "the expression is too deep");
  }
  BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, negation());
  return finish(make_unary(ExpressionKind::kNot, line, std::move(operand)));
}

Result<ExpressionPtr> ExpressionParser::comparison() {
  const int line = stream_.line();
  BATON_ASSIGN_OR_RETURN(ExpressionPtr first, sum());
  ExpressionPtr node = make_unary(ExpressionKind::kCompare, line, std::move(first));
  while (true) {
    if (const OperatorName* found = find_operator(kComparisons, stream_.current())) {
      stream_.skip();
      node->ops.push_back(found->op);
    } else if (stream_.skip_name("in")) {
      node->ops.push_back(Operator::kIn);
    } else if (stream_.current().is_name("not") && stream_.ahead().is_name("in")) {
      stream_.skip();
      stream_.skip();
      node->ops.push_back(Operator::kNotIn);
    } else {
      break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, sum());
    node->operands.push_back(std::move(right));
  }
  if (node->ops.empty()) {
    return std::move(node->operands[0]);
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::sum() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, concatenation());
  while (const OperatorName* found = find_operator(kSums, stream_.current())) {
    const int line = stream_.line();
    stream_.skip();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, concatenation());
    node = make_binary(ExpressionKind::kArithmetic, line, std::move(node), std::move(right));
    node->ops.push_back(found->op);
    BATON_ASSIGN_OR_RETURN(node, finish(std::move(node)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::concatenation() {
  const int line = stream_.line();
  BATON_ASSIGN_OR_RETURN(ExpressionPtr first, product());
  if (!stream_.current().is_operator("~")) {
    return first;
  }
  ExpressionPtr node = make_unary(ExpressionKind::kConcat, line, std::move(first));
  while (stream_.skip_operator("~")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr next, product());
    node->operands.push_back(std::move(next));
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::product() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, power());
  while (const OperatorName* found = find_operator(kProducts, stream_.current())) {
    const int line = stream_.line();
    stream_.skip();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, power());
    node = make_binary(ExpressionKind::kArithmetic, line, std::move(node), std::move(right));
    node->ops.push_back(found->op);
    BATON_ASSIGN_OR_RETURN(node, finish(std::move(node)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::power() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, unary(true));
  while (stream_.current().is_operator("**")) {
    const int line = stream_.line();
    stream_.skip();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, unary(true));
    node = make_binary(ExpressionKind::kArithmetic, line, std::move(node), std::move(right));
    node->ops.push_back(Operator::kPower);
    BATON_ASSIGN_OR_RETURN(node, finish(std::move(node)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::unary(bool with_filter) {
  const DepthGuard guard(state_);
  const int line = stream_.line();
  if (guard.too_deep()) {
    return syntax_error(line, "the expression is too deep");
  }
  ExpressionPtr node;
  if (stream_.current().is_operator("-") || stream_.current().is_operator("+")) {
    const bool minus = stream_.current().is_operator("-");
    stream_.skip();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, unary(false));
    BATON_ASSIGN_OR_RETURN(
        node, finish(make_unary(minus ? ExpressionKind::kNegate : ExpressionKind::kPlus, line,
                                std::move(operand))));
  } else {
    BATON_ASSIGN_OR_RETURN(node, primary());
  }
  BATON_ASSIGN_OR_RETURN(node, postfix(std::move(node)));
  return with_filter ? filters_and_tests(std::move(node)) : Result<ExpressionPtr>(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::primary() {
  const Token& token = stream_.current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::kName:
      return name();
    case TokenKind::kString: {
      std::string text;
      while (stream_.current().kind == TokenKind::kString) {
        text += stream_.current().text;
        stream_.skip();
      }
      return make_constant(Value::string(std::move(text)), line);
    }
    case TokenKind::kInteger: {
      Value value = Value::integer(token.integer);
      stream_.skip();
      return make_constant(std::move(value), line);
    }
    case TokenKind::kFloat: {
      Value value = Value::real(token.real);
      stream_.skip();
      return make_constant(std::move(value), line);
    }
    case TokenKind::kOperator:
    case TokenKind::kData:
    case TokenKind::kVariableBegin:
    case TokenKind::kVariableEnd:
    case TokenKind::kBlockBegin:
    case TokenKind::kBlockEnd:
    case TokenKind::kEnd:
      break;
  }
  if (stream_.skip_operator("(")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr node, tuple(true, "", true));
    BATON_RETURN_IF_ERROR(stream_.expect_operator(")"));
    return node;
  }
  if (token.is_operator("[")) {
    return list();
  }
  if (token.is_operator("{")) {
    return dict();
  }
  return stream_.unexpected();
}

Result<ExpressionPtr> ExpressionParser::name() {
  const int line = stream_.line();
  const std::string text = stream_.current().text;
  stream_.skip();
  if (text == "true" || text == "True" || text == "false" || text == "False") {
    return make_constant(Value::boolean(text == "true" || text == "True"), line);
  }
  if (text == "none" || text == "None") {
    return make_constant(Value::none(), line);
  }
  note_special_name(state_, text);
  ExpressionPtr node = make(ExpressionKind::kName, line);
  node->name = text;
  return node;
}

Result<ExpressionPtr> ExpressionParser::list() {
  ExpressionPtr node = make(ExpressionKind::kList, stream_.line());
  stream_.skip();
  while (!stream_.current().is_operator("]")) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(stream_.expect_operator(","));
    }
    if (stream_.current().is_operator("]")) {
      break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, expression());
    node->operands.push_back(std::move(item));
  }
  stream_.skip();
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::dict() {
  ExpressionPtr node = make(ExpressionKind::kDict, stream_.line());
  stream_.skip();
  while (!stream_.current().is_operator("}")) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(stream_.expect_operator(","));
    }
    if (stream_.current().is_operator("}")) {
      break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr key, expression());
    BATON_RETURN_IF_ERROR(stream_.expect_operator(":"));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expression());
    node->operands.push_back(std::move(key));
    node->operands.push_back(std::move(value));
  }
  stream_.skip();
  return finish(std::move(node));
}

}  // namespace baton::chat_template
