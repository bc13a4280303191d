// What follows an operand in parser.h: attributes, subscripts, calls, filters and tests.

#include "common/tokenizer/chat_template/filters.h"
#include "common/tokenizer/chat_template/parser.h"
#include "common/tokenizer/chat_template/parser_nodes.h"
#include "common/tokenizer/chat_template/tests.h"

namespace baton::chat_template {

// jinja2 reads dots into the name: "a|b.c" is the filter "b.c".
Result<std::string> ExpressionParser::dotted_name() {
  BATON_ASSIGN_OR_RETURN(std::string name, stream_.expect_name());
  while (stream_.skip_operator(".")) {
    BATON_ASSIGN_OR_RETURN(const std::string part, stream_.expect_name());
    name += "." + part;
  }
  return name;
}

Result<ExpressionPtr> ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    const Token& token = stream_.current();
    if (token.is_operator(".") || token.is_operator("[")) {
      BATON_ASSIGN_OR_RETURN(node, subscript(std::move(node)));
    } else if (token.is_operator("(")) {
      BATON_ASSIGN_OR_RETURN(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    const Token& token = stream_.current();
    if (token.is_operator("|")) {
      BATON_ASSIGN_OR_RETURN(node, filter(std::move(node)));
    } else if (token.is_name("is")) {
      BATON_ASSIGN_OR_RETURN(node, test(std::move(node)));
    } else if (token.is_operator("(")) {
      BATON_ASSIGN_OR_RETURN(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::subscript(ExpressionPtr node) {
  const int line = stream_.line();
  if (stream_.skip_operator(".")) {
    const Token& token = stream_.current();
    if (token.kind == TokenKind::kInteger) {
      ExpressionPtr index = make_constant(Value::integer(token.integer), line);
      stream_.skip();
      return finish(make_binary(ExpressionKind::kItem, line, std::move(node), std::move(index)));
    }
    BATON_ASSIGN_OR_RETURN(std::string attribute, stream_.expect_name());
    node = make_unary(ExpressionKind::kAttribute, line, std::move(node));
    node->name = std::move(attribute);
    return finish(std::move(node));
  }
  stream_.skip();
  ExpressionPtr start;
  if (!stream_.current().is_operator(":")) {
    BATON_ASSIGN_OR_RETURN(start, expression());
  }
  if (stream_.current().is_operator(":")) {
    return slice(std::move(node), std::move(start), line);
  }
  if (stream_.current().is_operator(",")) {
    return unsupported_syntax(line, "a subscript with commas");
  }
  BATON_RETURN_IF_ERROR(stream_.expect_operator("]"));
  return finish(make_binary(ExpressionKind::kItem, line, std::move(node), std::move(start)));
}

Result<ExpressionPtr> ExpressionParser::slice(ExpressionPtr node, ExpressionPtr start, int line) {
  node = make_binary(ExpressionKind::kSlice, line, std::move(node), std::move(start));
  for (int part = 0; part < 2; ++part) {
    ExpressionPtr bound;
    if (stream_.skip_operator(":") && !stream_.current().is_operator(":") &&
        !stream_.current().is_operator("]")) {
      BATON_ASSIGN_OR_RETURN(bound, expression());
    }
    node->operands.push_back(std::move(bound));
  }
  if (stream_.current().is_operator(",")) {
    return unsupported_syntax(line, "a subscript with commas");
  }
  BATON_RETURN_IF_ERROR(stream_.expect_operator("]"));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::call(ExpressionPtr node) {
  node = make_unary(ExpressionKind::kCall, stream_.line(), std::move(node));
  BATON_ASSIGN_OR_RETURN(node->arguments, arguments());
  return finish(std::move(node));
}

Status ExpressionParser::one_argument(ArgumentExpressions& out) {
  const Status misplaced =
      syntax_error(stream_.line(), "invalid syntax for function call expression");
  if (stream_.skip_operator("*")) {
    if (out.rest || out.named_rest) {
      return misplaced;
    }
    BATON_ASSIGN_OR_RETURN(out.rest, expression());
    return {};
  }
  if (stream_.skip_operator("**")) {
    if (out.named_rest) {
      return misplaced;
    }
    BATON_ASSIGN_OR_RETURN(out.named_rest, expression());
    return {};
  }
  if (stream_.current().kind == TokenKind::kName && stream_.ahead().is_operator("=")) {
    if (out.named_rest) {
      return misplaced;
    }
    std::string key = stream_.current().text;
    stream_.skip();
    stream_.skip();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expression());
    out.named.emplace_back(std::move(key), std::move(value));
    return {};
  }
  if (out.rest || out.named_rest || !out.named.empty()) {
    return misplaced;
  }
  BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expression());
  out.positional.push_back(std::move(value));
  return {};
}

Result<std::unique_ptr<ArgumentExpressions>> ExpressionParser::arguments() {
  BATON_RETURN_IF_ERROR(stream_.expect_operator("("));
  auto out = std::make_unique<ArgumentExpressions>();
  bool needs_comma = false;
  while (!stream_.current().is_operator(")")) {
    if (needs_comma) {
      BATON_RETURN_IF_ERROR(stream_.expect_operator(","));
      if (stream_.current().is_operator(")")) {
        break;
      }
    }
    BATON_RETURN_IF_ERROR(one_argument(*out));
    needs_comma = true;
  }
  BATON_RETURN_IF_ERROR(stream_.expect_operator(")"));
  return out;
}

Result<ExpressionPtr> ExpressionParser::filter(ExpressionPtr node) {
  while (stream_.skip_operator("|")) {
    const int line = stream_.line();
    BATON_ASSIGN_OR_RETURN(std::string filter_name, dotted_name());
    if (find_filter(filter_name) == nullptr) {
      return unsupported_syntax(line, "the filter '" + filter_name + "'");
    }
    node = make_unary(ExpressionKind::kFilter, line, std::move(node));
    node->name = std::move(filter_name);
    node->arguments = std::make_unique<ArgumentExpressions>();
    if (stream_.current().is_operator("(")) {
      BATON_ASSIGN_OR_RETURN(node->arguments, arguments());
    }
    BATON_ASSIGN_OR_RETURN(node, finish(std::move(node)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::filter_chain(bool starts_with_name) {
  const int line = stream_.line();
  if (!starts_with_name) {
    return filter(nullptr);
  }
  BATON_ASSIGN_OR_RETURN(std::string filter_name, dotted_name());
  if (find_filter(filter_name) == nullptr) {
    return unsupported_syntax(line, "the filter '" + filter_name + "'");
  }
  ExpressionPtr node = make_unary(ExpressionKind::kFilter, line, nullptr);
  node->name = std::move(filter_name);
  node->arguments = std::make_unique<ArgumentExpressions>();
  if (stream_.current().is_operator("(")) {
    BATON_ASSIGN_OR_RETURN(node->arguments, arguments());
  }
  BATON_ASSIGN_OR_RETURN(node, finish(std::move(node)));
  return filter(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::test(ExpressionPtr node) {
  const int line = stream_.line();
  stream_.skip();
  const bool negated = stream_.skip_name("not");
  BATON_ASSIGN_OR_RETURN(std::string test_name, dotted_name());
  if (find_test(test_name) == nullptr) {
    return unsupported_syntax(line, "the test '" + test_name + "'");
  }
  node = make_unary(ExpressionKind::kTest, line, std::move(node));
  node->name = std::move(test_name);
  node->arguments = std::make_unique<ArgumentExpressions>();
  const Token& token = stream_.current();
  const bool has_operand = (token.kind == TokenKind::kName && token.text != "else" &&
                            token.text != "or" && token.text != "and") ||
                           token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
                           token.kind == TokenKind::kFloat || token.is_operator("[") ||
                           token.is_operator("{");
  if (token.is_operator("(")) {
    BATON_ASSIGN_OR_RETURN(node->arguments, arguments());
  } else if (has_operand) {
    if (token.is_name("is")) {
      return syntax_error(line, "You cannot chain multiple tests with is");
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, primary());
    BATON_ASSIGN_OR_RETURN(operand, postfix(std::move(operand)));
    node->arguments->positional.push_back(std::move(operand));
  }
  BATON_ASSIGN_OR_RETURN(node, finish(std::move(node)));
  return negated ? finish(make_unary(ExpressionKind::kNot, line, std::move(node)))
                 : Result<ExpressionPtr>(std::move(node));
}

}  // namespace baton::chat_template
