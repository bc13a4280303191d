// Expressions of interpreter.h.

#include "common/tokenizer/chat_template/filters.h"
#include "common/tokenizer/chat_template/interpreter.h"
#include "common/tokenizer/chat_template/lexer.h"
#include "common/tokenizer/chat_template/tests.h"
#include "common/tokenizer/chat_template/text.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {

Result<Value> Interpreter::evaluate(const Expression& node) {
  const DepthGuard guard(*this);
  BATON_RETURN_IF_ERROR(guard.check());
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(kNodeUnits));
  return evaluate_node(node);
}

Result<Value> Interpreter::evaluate_node(const Expression& node) {
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return evaluate_name(node);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return evaluate_sequence(node);
    case ExpressionKind::kDict:
      return evaluate_dict(node);
    case ExpressionKind::kAttribute: {
      BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
      return get_attribute(value, node.name, runtime_.budget());
    }
    case ExpressionKind::kItem: {
      BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
      BATON_ASSIGN_OR_RETURN(const Value key, evaluate(*node.operands[1]));
      return get_item(value, key, runtime_.budget());
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(node);
    case ExpressionKind::kCall:
      return evaluate_call(node);
    case ExpressionKind::kFilter:
      return evaluate_filter(node, nullptr);
    case ExpressionKind::kTest:
      return evaluate_test(node);
    case ExpressionKind::kNot: {
      BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
      return Value::boolean(!is_true(value));
    }
    case ExpressionKind::kNegate: {
      BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
      return negate(value);
    }
    case ExpressionKind::kPlus: {
      BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
      return arithmetic(Operator::kAdd, Value::integer(0), value, runtime_.budget());
    }
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return evaluate_logic(node);
    case ExpressionKind::kConditional:
      return evaluate_conditional(node);
    case ExpressionKind::kConcat:
      return evaluate_concat(node);
    case ExpressionKind::kArithmetic: {
      BATON_ASSIGN_OR_RETURN(const Value left, evaluate(*node.operands[0]));
      BATON_ASSIGN_OR_RETURN(const Value right, evaluate(*node.operands[1]));
      return arithmetic(node.ops[0], left, right, runtime_.budget());
    }
    case ExpressionKind::kCompare:
      return evaluate_compare(node);
  }
  return internal_error("unknown kind of expression");
}

Result<Value> Interpreter::evaluate_name(const Expression& node) {
  if (const Value* found = scope_->find(node.name)) {
    return *found;
  }
  struct Global {
    std::string_view name;
    Builtin builtin;
  };
  constexpr Global kGlobals[] = {{"raise_exception", Builtin::kRaiseException},
                                 {"strftime_now", Builtin::kStrftimeNow},
                                 {"range", Builtin::kRange},
                                 {"namespace", Builtin::kNamespace},
                                 {"dict", Builtin::kDict}};
  for (const Global& global : kGlobals) {
    if (node.name == global.name) {
      return Value::of(global.builtin);
    }
  }
  if (node.name == "cycler" || node.name == "joiner" || node.name == "lipsum") {
    return unsupported_syntax(node.line, "the function '" + node.name + "'");
  }
  return Value::undefined(string_repr(node.name) + " is undefined");
}

Result<Value> Interpreter::evaluate_sequence(const Expression& node) {
  List items;
  for (const ExpressionPtr& operand : node.operands) {
    BATON_RETURN_IF_ERROR(runtime_.budget().spend(kElementUnits));
    BATON_ASSIGN_OR_RETURN(Value item, evaluate(*operand));
    items.push_back(std::move(item));
  }
  return node.kind == ExpressionKind::kList ? make_list(std::move(items))
                                            : make_tuple(std::move(items));
}

Result<Value> Interpreter::evaluate_dict(const Expression& node) {
  Dict dict;
  for (size_t i = 0; i < node.operands.size(); i += 2) {
    BATON_RETURN_IF_ERROR(runtime_.budget().spend(4 * kElementUnits));
    BATON_ASSIGN_OR_RETURN(Value key, evaluate(*node.operands[i]));
    BATON_ASSIGN_OR_RETURN(Value value, evaluate(*node.operands[i + 1]));
    if (!is_hashable(key)) {
      return type_error("unhashable type: '" + std::string(type_name(key)) + "'");
    }
    dict.set(std::move(key), std::move(value));
  }
  return make_dict(std::move(dict));
}

Result<Value> Interpreter::evaluate_slice(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
  Value bounds[3] = {Value::none(), Value::none(), Value::none()};
  for (size_t i = 0; i < 3; ++i) {
    if (node.operands[i + 1]) {
      BATON_ASSIGN_OR_RETURN(bounds[i], evaluate(*node.operands[i + 1]));
    }
  }
  return get_slice(value, bounds[0], bounds[1], bounds[2], runtime_.budget());
}

Result<Value> Interpreter::evaluate_logic(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(Value left, evaluate(*node.operands[0]));
  if (is_true(left) == (node.kind == ExpressionKind::kOr)) {
    return left;
  }
  return evaluate(*node.operands[1]);
}

Result<Value> Interpreter::evaluate_conditional(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value condition, evaluate(*node.operands[1]));
  if (is_true(condition)) {
    return evaluate(*node.operands[0]);
  }
  if (node.operands[2]) {
    return evaluate(*node.operands[2]);
  }
  return Value::undefined("the inline if-expression on line " + std::to_string(node.line) +
                          " evaluated to false and no else section was defined.");
}

Result<Value> Interpreter::evaluate_concat(const Expression& node) {
  std::string out;
  for (const ExpressionPtr& operand : node.operands) {
    BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*operand));
    BATON_ASSIGN_OR_RETURN(const std::string text, to_text(value, runtime_.budget()));
    BATON_RETURN_IF_ERROR(runtime_.budget().spend(text.size()));
    out += text;
  }
  return Value::string(std::move(out));
}

Result<Value> Interpreter::evaluate_compare(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(Value left, evaluate(*node.operands[0]));
  for (size_t i = 0; i < node.ops.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(Value right, evaluate(*node.operands[i + 1]));
    BATON_ASSIGN_OR_RETURN(const bool holds, compare(node.ops[i], left, right, runtime_.budget()));
    if (!holds) {
      return Value::boolean(false);
    }
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::evaluate_call(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value callee, evaluate(*node.operands[0]));
  BATON_ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(*node.arguments));
  return call(callee, arguments);
}

Result<Value> Interpreter::evaluate_test(const Expression& node) {
  BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
  BATON_ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(*node.arguments));
  BATON_ASSIGN_OR_RETURN(const bool holds,
                         find_test(node.name)(value, arguments, runtime_.budget()));
  return Value::boolean(holds);
}

Result<Value> Interpreter::evaluate_filter(const Expression& node, const Value* head) {
  Value input;
  const Expression* inner = node.operands[0].get();
  if (inner == nullptr) {
    input = *head;
  } else if (inner->kind == ExpressionKind::kFilter) {
    const DepthGuard guard(*this);
    BATON_RETURN_IF_ERROR(guard.check());
    BATON_ASSIGN_OR_RETURN(input, evaluate_filter(*inner, head));
  } else {
    BATON_ASSIGN_OR_RETURN(input, evaluate(*inner));
  }
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(kNodeUnits));
  BATON_ASSIGN_OR_RETURN(const Arguments arguments, evaluate_arguments(*node.arguments));
  return find_filter(node.name)(input, arguments, runtime_);
}

Result<Arguments> Interpreter::evaluate_arguments(const ArgumentExpressions& expressions) {
  Arguments out;
  for (const ExpressionPtr& expression : expressions.positional) {
    BATON_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    out.positional.push_back(std::move(value));
  }
  for (const auto& [name, expression] : expressions.named) {
    BATON_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    out.named.emplace_back(name, std::move(value));
  }
  if (expressions.rest) {
    BATON_ASSIGN_OR_RETURN(const Value rest, evaluate(*expressions.rest));
    BATON_ASSIGN_OR_RETURN(List items, to_list(rest, runtime_.budget()));
    for (Value& item : items) {
      out.positional.push_back(std::move(item));
    }
  }
  if (expressions.named_rest) {
    BATON_ASSIGN_OR_RETURN(const Value rest, evaluate(*expressions.named_rest));
    if (!rest.is(Kind::kDict)) {
      return type_error("argument after ** must be a mapping, not " + std::string(type_name(rest)));
    }
    for (const auto& [key, value] : rest.as_dict().entries) {
      BATON_RETURN_IF_ERROR(runtime_.budget().spend(kElementUnits));
      if (!key.is_string()) {
        return type_error("keywords must be strings");
      }
      out.named.emplace_back(key.as_string(), value);
    }
  }
  return out;
}

}  // namespace baton::chat_template
