#pragma once

// Walks the syntax tree. One per render; not thread-safe, while the tree may be shared.

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/arguments.h"
#include "common/tokenizer/chat_template/ast.h"
#include "common/tokenizer/chat_template/runtime.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

class Interpreter {
 public:
  Interpreter(Runtime& runtime, std::vector<std::pair<std::string, Value>> globals);

  Result<std::string> run(const Block& block);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Statements (interpreter.cc).
  Result<Flow> execute(const Block& block);
  Result<Flow> execute(const Statement& statement);
  Result<Flow> execute_if(const Statement& statement);
  Result<Flow> execute_for(const Statement& statement);
  // Whether an iteration reached the body's end: jinja2 runs the else part when none did, also
  // after break or continue.
  Result<bool> iterate(const Statement& statement, List items);
  Result<Flow> execute_with(const Statement& statement);
  Status execute_set_block(const Statement& statement);
  Status execute_filter_block(const Statement& statement);
  Status execute_call_block(const Statement& statement);
  Status assign(const Target& target, Value value);
  Result<List> filtered(const Statement& statement, List items);
  // The block's output as text, in a scope of its own when `scope` is given.
  Result<std::string> capture(const Block& block);
  Status emit(std::string_view text);
  Status emit_value(const Value& value);

  // Expressions (evaluator.cc).
  Result<Value> evaluate(const Expression& node);
  Result<Value> evaluate_node(const Expression& node);
  Result<Value> evaluate_name(const Expression& node);
  Result<Value> evaluate_sequence(const Expression& node);
  Result<Value> evaluate_dict(const Expression& node);
  Result<Value> evaluate_slice(const Expression& node);
  Result<Value> evaluate_logic(const Expression& node);
  Result<Value> evaluate_conditional(const Expression& node);
  Result<Value> evaluate_concat(const Expression& node);
  Result<Value> evaluate_compare(const Expression& node);
  Result<Value> evaluate_call(const Expression& node);
  Result<Value> evaluate_test(const Expression& node);
  // A chain of filters; its head, when null, is `head`.
  Result<Value> evaluate_filter(const Expression& node, const Value* head);
  Result<Arguments> evaluate_arguments(const ArgumentExpressions& arguments);

  // Calls (evaluator_calls.cc).
  Result<Value> call(const Value& callee, const Arguments& arguments);
  Result<Value> call_builtin(Builtin builtin, const Arguments& arguments);
  Result<Value> call_macro(const Macro& macro, const Arguments& arguments);
  Status bind_parameters(const MacroDefinition& definition, const Arguments& arguments,
                         std::vector<bool>& used);
  Status bind_specials(const MacroDefinition& definition, const Arguments& arguments,
                       const std::vector<bool>& used);
  Result<Value> make_range(const Arguments& arguments);

  // Enters a scope below `parent` for its lifetime; hands it to the runtime if a macro kept it.
  class ScopeGuard;
  class DepthGuard;

  Runtime& runtime_;
  std::unique_ptr<Scope> root_;
  Scope* scope_;
  std::string* out_ = nullptr;
  int depth_ = 0;
  int loop_depth_ = 0;
};

class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& owner, Scope* parent) : owner_(owner), outer_(owner.scope_) {
    scope_ = std::make_unique<Scope>();
    scope_->parent = parent;
    owner_.scope_ = scope_.get();
  }
  ~ScopeGuard() {
    owner_.scope_ = outer_;
    if (scope_->captured) {
      owner_.runtime_.keep(std::move(scope_));
    }
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& owner_;
  Scope* outer_;
  std::unique_ptr<Scope> scope_;
};

class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& owner) : owner_(owner) { ++owner_.depth_; }
  ~DepthGuard() { --owner_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  // resource_exhausted when the render nests too deep.
  Status check() const;

 private:
  Interpreter& owner_;
};

}  // namespace baton::chat_template
