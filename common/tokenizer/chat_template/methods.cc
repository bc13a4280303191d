#include "common/tokenizer/chat_template/methods.h"

#include <algorithm>
#include <array>
#include <span>

#include "common/tokenizer/chat_template/string_methods.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 6> kDictSafe = {"copy",  "fromkeys", "get",
                                                       "items", "keys",     "values"};
constexpr std::array<std::string_view, 5> kDictUnsafe = {"clear", "pop", "popitem", "setdefault",
                                                         "update"};
constexpr std::array<std::string_view, 3> kListSafe = {"copy", "count", "index"};
constexpr std::array<std::string_view, 8> kListUnsafe = {"append", "clear",  "extend",  "insert",
                                                         "pop",    "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 2> kTupleSafe = {"count", "index"};
constexpr std::array<std::string_view, 2> kLoopSafe = {"changed", "cycle"};

bool holds(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

MethodAccess access_in(Names safe, Names unsafe, std::string_view name) {
  return holds(safe, name)     ? MethodAccess::kSafe
         : holds(unsafe, name) ? MethodAccess::kUnsafe
                               : MethodAccess::kNone;
}

Status not_supported(const Value& self, std::string_view name) {
  return unsupported("chat template: the method '" + std::string(name) + "' of " +
                     std::string(type_name(self)) + " is not supported");
}

Result<Value> dict_get(const Dict& dict, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("get", arguments, {"key", "default"}, 1));
  if (!is_hashable(*bound.get(0))) {
    return type_error("unhashable type: '" + std::string(type_name(*bound.get(0))) + "'");
  }
  BATON_RETURN_IF_ERROR(
      budget.spend(bound.get(0)->is_string() ? bound.get(0)->as_string().size() : 0));
  if (const Value* found = dict.find(*bound.get(0))) {
    return *found;
  }
  return bound.has(1) ? *bound.get(1) : Value::none();
}

// Keys, values and items are lists here; Python's views print differently but walk alike.
Result<Value> call_dict(const Value& self, const std::string& name, const Arguments& arguments,
                        Runtime& runtime) {
  const Dict& dict = self.as_dict();
  if (name == "get") {
    return dict_get(dict, arguments, runtime.budget());
  }
  if (name == "fromkeys") {
    return not_supported(self, name);
  }
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::bind(name, arguments, {}, 0));
  if (name == "copy") {
    return self;
  }
  BATON_RETURN_IF_ERROR(runtime.budget().spend(4 * kElementUnits * (dict.entries.size() + 1)));
  List out;
  for (const auto& [key, value] : dict.entries) {
    if (name == "items") {
      BATON_ASSIGN_OR_RETURN(Value pair, make_tuple({key, value}));
      out.push_back(std::move(pair));
    } else {
      out.push_back(name == "keys" ? key : value);
    }
  }
  return make_list(std::move(out));
}

Result<Value> call_sequence(const Value& self, const std::string& name, const Arguments& arguments,
                            Budget& budget) {
  if (name == "copy") {
    BATON_ASSIGN_OR_RETURN(const BoundArguments none, BoundArguments::bind(name, arguments, {}, 0));
    return self;
  }
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind(name, arguments, {"value"}, 1));
  int64_t count = 0;
  for (size_t i = 0; i < self.items().size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const bool same, equals(self.items()[i], *bound.get(0), budget));
    if (same && name == "index") {
      return Value::integer(static_cast<int64_t>(i));
    }
    count += same ? 1 : 0;
  }
  if (name == "index") {
    return type_error("the value is not in the " + std::string(type_name(self)));
  }
  return Value::integer(count);
}

Result<Value> call_loop(Loop& loop, const std::string& name, const Arguments& arguments,
                        Budget& budget) {
  if (!arguments.named.empty()) {
    return type_error(name + "() takes no keyword arguments");
  }
  if (name == "cycle") {
    if (arguments.positional.empty()) {
      return type_error("no items for cycling given");
    }
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  if (loop.has_changed_value && loop.changed_value.size() == arguments.positional.size()) {
    bool same = true;
    for (size_t i = 0; same && i < loop.changed_value.size(); ++i) {
      BATON_ASSIGN_OR_RETURN(same, equals(loop.changed_value[i], arguments.positional[i], budget));
    }
    if (same) {
      return Value::boolean(false);
    }
  }
  loop.has_changed_value = true;
  loop.changed_value = arguments.positional;
  return Value::boolean(true);
}

}  // namespace

MethodAccess method_access(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kString:
      return is_string_method(name) ? MethodAccess::kSafe : MethodAccess::kNone;
    case Kind::kDict:
      return access_in(kDictSafe, kDictUnsafe, name);
    case Kind::kList:
      return access_in(kListSafe, kListUnsafe, name);
    case Kind::kTuple:
      return access_in(kTupleSafe, {}, name);
    case Kind::kLoop:
      return access_in(kLoopSafe, {}, name);
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kGenerator:
    case Kind::kMacro:
    case Kind::kBuiltin:
    case Kind::kMethod:
      return MethodAccess::kNone;
  }
  return MethodAccess::kNone;
}

Result<Value> call_method(const Method& method, const Arguments& arguments, Runtime& runtime) {
  const Value& self = *method.self;
  switch (self.kind()) {
    case Kind::kString:
      return call_string_method(self.as_string(), method.name, arguments, runtime.budget());
    case Kind::kDict:
      return call_dict(self, method.name, arguments, runtime);
    case Kind::kList:
    case Kind::kTuple:
      return call_sequence(self, method.name, arguments, runtime.budget());
    case Kind::kLoop:
      return call_loop(self.as_loop(), method.name, arguments, runtime.budget());
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kGenerator:
    case Kind::kMacro:
    case Kind::kBuiltin:
    case Kind::kMethod:
      break;
  }
  return not_supported(self, method.name);
}

}  // namespace baton::chat_template
