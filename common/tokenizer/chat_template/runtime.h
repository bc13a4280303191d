#pragma once

// What one render owns: the budget, the clock's time, and every object that values point to. All of
// it dies with the render, so cycles between namespaces, macros and scopes leak nothing.

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/ast.h"
#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  Value* find(std::string_view name);
  void set(std::string name, Value value);
};

// The state behind the variable `loop`.
struct Loop {
  List items;
  size_t index = 0;
  int depth = 1;
  bool has_changed_value = false;
  List changed_value;
};

struct Generator {
  List items;
  size_t next = 0;

  // Everything not yet walked; the generator is empty afterwards.
  List take();
};

// Names of one block, chained outwards. A scope that a macro refers to is kept by the Runtime.
struct Scope {
  Scope* parent = nullptr;
  bool captured = false;
  std::map<std::string, Value, std::less<>> names;

  const Value* find(std::string_view name) const;
};

struct Macro {
  const MacroDefinition* definition = nullptr;
  Scope* scope = nullptr;  // where it was defined
};

class Runtime {
 public:
  Runtime(const Limits& limits, std::chrono::sys_seconds now)
      : limits_(limits), budget_(limits.units), now_(now) {}

  Budget& budget() { return budget_; }
  const Limits& limits() const { return limits_; }
  std::chrono::sys_seconds now() const { return now_; }

  Result<Value> make_namespace(std::vector<std::pair<std::string, Value>> attributes);
  Result<Value> make_generator(List items);
  Result<Value> make_macro(const MacroDefinition& definition, Scope& scope);
  Loop& make_loop(List items, int depth);
  void keep(std::unique_ptr<Scope> scope) { scopes_.push_back(std::move(scope)); }

 private:
  Limits limits_;
  Budget budget_;
  std::chrono::sys_seconds now_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::vector<std::unique_ptr<Generator>> generators_;
  std::vector<std::unique_ptr<Macro>> macros_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::unique_ptr<Scope>> scopes_;
};

}  // namespace baton::chat_template
