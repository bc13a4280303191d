#include "common/tokenizer/chat_template/runtime.h"

#include <iterator>

namespace baton::chat_template {

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : attributes) {
    if (key == name) {
      return &value;
    }
  }
  return nullptr;
}

void Namespace::set(std::string name, Value value) {
  if (Value* old = find(name)) {
    *old = std::move(value);
  } else {
    attributes.emplace_back(std::move(name), std::move(value));
  }
}

List Generator::take() {
  List rest(std::make_move_iterator(items.begin() + static_cast<std::ptrdiff_t>(next)),
            std::make_move_iterator(items.end()));
  items.clear();
  next = 0;
  return rest;
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
    if (const auto it = scope->names.find(name); it != scope->names.end()) {
      return &it->second;
    }
  }
  return nullptr;
}

Result<Value> Runtime::make_namespace(std::vector<std::pair<std::string, Value>> attributes) {
  BATON_RETURN_IF_ERROR(budget_.spend(kElementUnits * (attributes.size() + 4)));
  namespaces_.push_back(std::make_unique<Namespace>(Namespace{std::move(attributes)}));
  return Value::of(namespaces_.back().get());
}

Result<Value> Runtime::make_generator(List items) {
  BATON_RETURN_IF_ERROR(budget_.spend(kElementUnits * (items.size() + 4)));
  generators_.push_back(std::make_unique<Generator>(Generator{std::move(items), 0}));
  return Value::of(generators_.back().get());
}

Result<Value> Runtime::make_macro(const MacroDefinition& definition, Scope& scope) {
  BATON_RETURN_IF_ERROR(budget_.spend(kElementUnits * 4));
  for (Scope* s = &scope; s != nullptr; s = s->parent) {
    s->captured = true;
  }
  macros_.push_back(std::make_unique<Macro>(Macro{&definition, &scope}));
  return Value::of(static_cast<const Macro*>(macros_.back().get()));
}

Loop& Runtime::make_loop(List items, int depth) {
  auto loop = std::make_unique<Loop>();
  loop->items = std::move(items);
  loop->depth = depth;
  loops_.push_back(std::move(loop));
  return *loops_.back();
}

}  // namespace baton::chat_template
