#include "common/tokenizer/chat_template/interpreter.h"

#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

Status cannot_unpack(size_t expected, size_t got) {
  return type_error(got < expected
                        ? "not enough values to unpack (expected " + std::to_string(expected) +
                              ", got " + std::to_string(got) + ")"
                        : "too many values to unpack (expected " + std::to_string(expected) + ")");
}

}  // namespace

Status Interpreter::DepthGuard::check() const {
  if (owner_.depth_ > owner_.runtime_.limits().depth) {
    return resource_exhausted("chat template: the render nests too deep");
  }
  return {};
}

Interpreter::Interpreter(Runtime& runtime, std::vector<std::pair<std::string, Value>> globals)
    : runtime_(runtime), root_(std::make_unique<Scope>()), scope_(root_.get()) {
  for (auto& [name, value] : globals) {
    root_->names.insert_or_assign(std::move(name), std::move(value));
  }
}

Result<std::string> Interpreter::run(const Block& block) { return capture(block); }

Result<std::string> Interpreter::capture(const Block& block) {
  std::string text;
  std::string* outer = std::exchange(out_, &text);
  const Result<Flow> flow = execute(block);
  out_ = outer;
  if (!flow.ok()) {
    return flow.status();
  }
  return text;
}

Status Interpreter::emit(std::string_view text) {
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(text.size()));
  if (text.size() > runtime_.limits().output_bytes - out_->size()) {
    return resource_exhausted("chat template: the output is larger than is allowed");
  }
  *out_ += text;
  return {};
}

Status Interpreter::emit_value(const Value& value) {
  if (value.is_string()) {
    return emit(value.as_string());
  }
  BATON_ASSIGN_OR_RETURN(const std::string text, to_text(value, runtime_.budget()));
  return emit(text);
}

Result<Interpreter::Flow> Interpreter::execute(const Block& block) {
  for (const auto& statement : block) {
    BATON_ASSIGN_OR_RETURN(const Flow flow, execute(*statement));
    if (flow != Flow::kNext) {
      return flow;
    }
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Statement& statement) {
  const DepthGuard guard(*this);
  BATON_RETURN_IF_ERROR(guard.check());
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(kNodeUnits));
  Status status;
  switch (statement.kind) {
    case StatementKind::kText:
      status = emit(statement.text);
      break;
    case StatementKind::kPrint: {
      BATON_ASSIGN_OR_RETURN(const Value value, evaluate(*statement.expressions[0]));
      status = emit_value(value);
      break;
    }
    case StatementKind::kIf:
      return execute_if(statement);
    case StatementKind::kFor:
      return execute_for(statement);
    case StatementKind::kWith:
      return execute_with(statement);
    case StatementKind::kSet: {
      BATON_ASSIGN_OR_RETURN(Value value, evaluate(*statement.expressions[0]));
      status = assign(statement.targets[0], std::move(value));
      break;
    }
    case StatementKind::kSetBlock:
      status = execute_set_block(statement);
      break;
    case StatementKind::kMacro: {
      BATON_ASSIGN_OR_RETURN(Value macro, runtime_.make_macro(*statement.macro, *scope_));
      scope_->names.insert_or_assign(statement.macro->name, std::move(macro));
      break;
    }
    case StatementKind::kCallBlock:
      status = execute_call_block(statement);
      break;
    case StatementKind::kFilterBlock:
      status = execute_filter_block(statement);
      break;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  if (!status.ok()) {
    return status;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute_if(const Statement& statement) {
  for (size_t i = 0; i < statement.expressions.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const Value condition, evaluate(*statement.expressions[i]));
    if (is_true(condition)) {
      return execute(statement.branches[i]);
    }
  }
  if (statement.branches.size() > statement.expressions.size()) {
    return execute(statement.branches.back());
  }
  return Flow::kNext;
}

Result<List> Interpreter::filtered(const Statement& statement, List items) {
  List kept;
  for (Value& item : items) {
    const ScopeGuard scope(*this, scope_);
    BATON_RETURN_IF_ERROR(assign(statement.targets[0], item));
    BATON_ASSIGN_OR_RETURN(const Value condition, evaluate(*statement.expressions[1]));
    if (is_true(condition)) {
      kept.push_back(std::move(item));
    }
  }
  return kept;
}

Result<Interpreter::Flow> Interpreter::execute_for(const Statement& statement) {
  BATON_ASSIGN_OR_RETURN(const Value iterable, evaluate(*statement.expressions[0]));
  BATON_ASSIGN_OR_RETURN(List items, to_list(iterable, runtime_.budget()));
  if (statement.expressions.size() > 1) {
    BATON_ASSIGN_OR_RETURN(items, filtered(statement, std::move(items)));
  }
  BATON_ASSIGN_OR_RETURN(const bool completed, iterate(statement, std::move(items)));
  if (completed) {
    return Flow::kNext;
  }
  const ScopeGuard scope(*this, scope_);
  return execute(statement.otherwise);
}

Result<bool> Interpreter::iterate(const Statement& statement, List items) {
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(kElementUnits * (items.size() + 4)));
  // `loop` counts nested loops of `recursive` only, so every loop is at depth 1.
  Loop& loop = runtime_.make_loop(std::move(items), 1);
  bool completed = false;
  for (; loop.index < loop.items.size(); ++loop.index) {
    BATON_RETURN_IF_ERROR(runtime_.budget().spend(kElementUnits * 4));
    const ScopeGuard scope(*this, scope_);
    scope_->names.insert_or_assign("loop", Value::of(&loop));
    BATON_RETURN_IF_ERROR(assign(statement.targets[0], loop.items[loop.index]));
    BATON_ASSIGN_OR_RETURN(const Flow flow, execute(statement.body));
    if (flow == Flow::kBreak) {
      break;
    }
    completed = completed || flow == Flow::kNext;
  }
  return completed;
}

Result<Interpreter::Flow> Interpreter::execute_with(const Statement& statement) {
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(kElementUnits * 4));
  // All values first: none sees another's name.
  List values;
  for (const ExpressionPtr& expression : statement.expressions) {
    BATON_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    BATON_RETURN_IF_ERROR(assign(statement.targets[i], std::move(values[i])));
  }
  return execute(statement.body);
}

Status Interpreter::execute_set_block(const Statement& statement) {
  std::string text;
  {
    const ScopeGuard scope(*this, scope_);
    BATON_ASSIGN_OR_RETURN(text, capture(statement.body));
  }
  Value value = Value::string(std::move(text));
  if (!statement.expressions.empty()) {
    BATON_ASSIGN_OR_RETURN(value, evaluate_filter(*statement.expressions[0], &value));
  }
  return assign(statement.targets[0], std::move(value));
}

Status Interpreter::execute_filter_block(const Statement& statement) {
  std::string text;
  {
    const ScopeGuard scope(*this, scope_);
    BATON_ASSIGN_OR_RETURN(text, capture(statement.body));
  }
  const Value head = Value::string(std::move(text));
  BATON_ASSIGN_OR_RETURN(const Value value, evaluate_filter(*statement.expressions[0], &head));
  if (!value.is_string()) {
    return type_error("a filter block must give text, not " + std::string(type_name(value)));
  }
  return emit(value.as_string());
}

Status Interpreter::execute_call_block(const Statement& statement) {
  const Expression& node = *statement.expressions[0];
  BATON_ASSIGN_OR_RETURN(Value caller, runtime_.make_macro(*statement.macro, *scope_));
  BATON_ASSIGN_OR_RETURN(const Value callee, evaluate(*node.operands[0]));
  BATON_ASSIGN_OR_RETURN(Arguments arguments, evaluate_arguments(*node.arguments));
  arguments.named.emplace_back("caller", std::move(caller));
  BATON_ASSIGN_OR_RETURN(const Value value, call(callee, arguments));
  return emit_value(value);
}

Status Interpreter::assign(const Target& target, Value value) {
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(kNodeUnits));
  if (target.is_tuple) {
    BATON_ASSIGN_OR_RETURN(List items, to_list(value, runtime_.budget()));
    if (items.size() != target.parts.size()) {
      return cannot_unpack(target.parts.size(), items.size());
    }
    for (size_t i = 0; i < items.size(); ++i) {
      BATON_RETURN_IF_ERROR(assign(target.parts[i], std::move(items[i])));
    }
    return {};
  }
  if (target.attribute.empty()) {
    scope_->names.insert_or_assign(target.name, std::move(value));
    return {};
  }
  const Value* owner = scope_->find(target.name);
  if (owner == nullptr || !owner->is(Kind::kNamespace)) {
    return type_error("cannot assign attribute on non-namespace object");
  }
  if (target.attribute.starts_with('_')) {
    return type_error("a namespace cannot have the attribute '" + target.attribute + "'");
  }
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(kElementUnits));
  owner->as_namespace().set(target.attribute, std::move(value));
  return {};
}

}  // namespace baton::chat_template
