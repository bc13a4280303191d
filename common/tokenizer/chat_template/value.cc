#include "common/tokenizer/chat_template/value.h"

#include <algorithm>
#include <cmath>

#include "common/tokenizer/chat_template/budget.h"

namespace baton::chat_template {
namespace {

int deepest(const List& items) {
  int depth = 0;
  for (const Value& item : items) {
    depth = std::max(depth, item.depth());
  }
  return depth;
}

Status too_deep() {
  return invalid_argument("chat template: values nest deeper than " +
                          std::to_string(kMaxValueDepth));
}

// Equal texts for equal keys, whatever their kinds: 1, 1.0 and true are one key in Python.
void append_key(const Value& key, std::string& out) {
  switch (key.kind()) {
    case Kind::kString:
      out += 's';
      out += std::to_string(key.as_string().size());
      out += ':';
      out += key.as_string();
      return;
    case Kind::kBool:
    case Kind::kInt:
      out += 'i';
      out += std::to_string(key.as_int());
      return;
    case Kind::kFloat: {
      const double v = key.as_real();
      if (v == std::floor(v) && std::fabs(v) < 0x1p62) {
        out += 'i';
        out += std::to_string(static_cast<int64_t>(v));
      } else {
        out += 'f';
        out.append(reinterpret_cast<const char*>(&v), sizeof(v));
      }
      return;
    }
    case Kind::kTuple:
      out += '(';
      for (const Value& item : key.items()) {
        append_key(item, out);
      }
      out += ')';
      return;
    case Kind::kUndefined:
      out += 'u';
      return;
    case Kind::kNone:
    case Kind::kList:
    case Kind::kDict:
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kGenerator:
    case Kind::kMacro:
    case Kind::kBuiltin:
    case Kind::kMethod:
      out += 'n';
      return;
  }
}

std::string string_key(std::string_view text) {
  std::string out = "s" + std::to_string(text.size()) + ":";
  out += text;
  return out;
}

}  // namespace

Value Value::undefined(std::string message) {
  return Value(
      Rep(std::in_place_index<0>, std::make_shared<const std::string>(std::move(message))));
}

Value Value::string(std::string v) {
  return Value(Rep(std::in_place_index<5>, std::make_shared<const std::string>(std::move(v))));
}

Value Value::method(Value self, std::string name) {
  return Value(Rep(std::in_place_index<14>,
                   std::make_shared<const Method>(
                       Method{std::make_shared<const Value>(std::move(self)), std::move(name)})));
}

std::string_view Value::undefined_message() const {
  const auto& message = std::get<0>(rep_);
  return message ? std::string_view(*message) : "value is undefined";
}

const List& Value::items() const {
  return is(Kind::kList) ? std::get<6>(rep_)->items : std::get<7>(rep_)->items;
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kList:
      return std::get<6>(rep_)->depth;
    case Kind::kTuple:
      return std::get<7>(rep_)->depth;
    case Kind::kDict:
      return as_dict().depth;
    case Kind::kMethod:
      return as_method().self->depth();
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kString:
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kGenerator:
    case Kind::kMacro:
    case Kind::kBuiltin:
      return 0;
  }
  return 0;
}

const Value* Dict::find(const Value& key) const {
  if (!is_hashable(key)) {
    return nullptr;
  }
  std::string text;
  append_key(key, text);
  const auto it = index_.find(text);
  return it == index_.end() ? nullptr : &entries[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto it = index_.find(string_key(key));
  return it == index_.end() ? nullptr : &entries[it->second].second;
}

void Dict::set(Value key, Value value) {
  std::string text;
  append_key(key, text);
  const auto [it, inserted] = index_.emplace(std::move(text), entries.size());
  if (inserted) {
    entries.emplace_back(std::move(key), std::move(value));
  } else {
    entries[it->second].second = std::move(value);
  }
}

bool is_hashable(const Value& value) {
  if (value.is(Kind::kTuple)) {
    return std::all_of(value.items().begin(), value.items().end(), is_hashable);
  }
  return value.is_undefined() || value.is(Kind::kNone) || value.is_number() || value.is_string();
}

Result<Value> make_list(List items) {
  const int depth = deepest(items) + 1;
  if (depth > kMaxValueDepth) {
    return too_deep();
  }
  return Value(Value::Rep(std::in_place_index<6>,
                          std::make_shared<const Sequence>(Sequence{std::move(items), depth})));
}

Result<Value> make_tuple(List items) {
  const int depth = deepest(items) + 1;
  if (depth > kMaxValueDepth) {
    return too_deep();
  }
  return Value(Value::Rep(std::in_place_index<7>,
                          std::make_shared<const Sequence>(Sequence{std::move(items), depth})));
}

Result<Value> make_dict(Dict dict) {
  int depth = 0;
  for (const auto& [key, value] : dict.entries) {
    depth = std::max({depth, key.depth(), value.depth()});
  }
  dict.depth = depth + 1;
  if (dict.depth > kMaxValueDepth) {
    return too_deep();
  }
  return Value(Value::Rep(std::in_place_index<8>, std::make_shared<const Dict>(std::move(dict))));
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kGenerator:
      return "generator";
    case Kind::kMacro:
      return "Macro";
    case Kind::kBuiltin:
      return "function";
    case Kind::kMethod:
      return "method";
  }
  return "object";
}

std::string object_name(const Value& value) {
  return value.is(Kind::kNone) ? "None" : std::string(type_name(value)) + " object";
}

}  // namespace baton::chat_template
