#include "common/tokenizer/chat_template/value_ops.h"

#include <algorithm>
#include <string>

#include "common/tokenizer/chat_template/text.h"

namespace baton::chat_template {
namespace {

Result<bool> equal_items(const List& a, const List& b, Budget& budget) {
  if (a.size() != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const bool same, equals(a[i], b[i], budget));
    if (!same) {
      return false;
    }
  }
  return true;
}

Result<bool> equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) {
    return false;
  }
  for (const auto& [key, value] : a.entries) {
    BATON_RETURN_IF_ERROR(budget.spend(key.is_string() ? key.as_string().size() : 0));
    const Value* other = b.find(key);
    if (other == nullptr) {
      return false;
    }
    BATON_ASSIGN_OR_RETURN(const bool same, equals(value, *other, budget));
    if (!same) {
      return false;
    }
  }
  return true;
}

bool equal_methods(const Method& a, const Method& b) {
  return a.self == b.self && a.name == b.name;
}

Status no_order(const Value& a, const Value& b) {
  return type_error("'<' not supported between instances of '" + std::string(type_name(a)) +
                    "' and '" + std::string(type_name(b)) + "'");
}

Result<bool> list_less(const List& a, const List& b, Budget& budget) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    BATON_ASSIGN_OR_RETURN(const bool same, equals(a[i], b[i], budget));
    if (!same) {
      return less_than(a[i], b[i], budget);
    }
  }
  return a.size() < b.size();
}

Result<bool> generator_contains(Generator& generator, const Value& item, Budget& budget) {
  while (generator.next < generator.items.size()) {
    BATON_ASSIGN_OR_RETURN(const bool same,
                           equals(generator.items[generator.next++], item, budget));
    if (same) {
      return true;
    }
  }
  return false;
}

Result<std::string> repr_items(const List& items, Budget& budget) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      out += ", ";
    }
    BATON_ASSIGN_OR_RETURN(const std::string item, to_repr(items[i], budget));
    out += item;
  }
  return out;
}

Result<std::string> repr_dict(const Dict& dict, Budget& budget) {
  std::string out = "{";
  for (const auto& [key, value] : dict.entries) {
    if (out.size() > 1) {
      out += ", ";
    }
    BATON_ASSIGN_OR_RETURN(const std::string key_text, to_repr(key, budget));
    BATON_ASSIGN_OR_RETURN(const std::string value_text, to_repr(value, budget));
    out += key_text;
    out += ": ";
    out += value_text;
  }
  return out + "}";
}

}  // namespace

Status undefined_error(const Value& value) {
  return invalid_argument("chat template: " + std::string(value.undefined_message()));
}

Status type_error(std::string message) {
  return invalid_argument("chat template: " + std::move(message));
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_real() != 0;
    case Kind::kString:
      return !value.as_string().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.items().empty();
    case Kind::kDict:
      return !value.as_dict().entries.empty();
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kGenerator:  // true even when it is empty
    case Kind::kMacro:
    case Kind::kBuiltin:
    case Kind::kMethod:
      return true;
  }
  return true;
}

Result<bool> equals(const Value& a, const Value& b, Budget& budget) {
  BATON_RETURN_IF_ERROR(budget.spend(kNodeUnits));
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.as_int() == b.as_int()
                                              : a.as_real() == b.as_real();
  }
  if (a.kind() != b.kind()) {
    return false;
  }
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return true;
    case Kind::kString:
      BATON_RETURN_IF_ERROR(budget.spend(std::min(a.as_string().size(), b.as_string().size())));
      return a.as_string() == b.as_string();
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(a.items(), b.items(), budget);
    case Kind::kDict:
      return equal_dicts(a.as_dict(), b.as_dict(), budget);
    case Kind::kNamespace:
      return &a.as_namespace() == &b.as_namespace();
    case Kind::kLoop:
      return &a.as_loop() == &b.as_loop();
    case Kind::kGenerator:
      return &a.as_generator() == &b.as_generator();
    case Kind::kMacro:
      return &a.as_macro() == &b.as_macro();
    case Kind::kBuiltin:
      return a.as_builtin() == b.as_builtin();
    case Kind::kMethod:
      return equal_methods(a.as_method(), b.as_method());
  }
  return false;
}

Result<bool> less_than(const Value& a, const Value& b, Budget& budget) {
  BATON_RETURN_IF_ERROR(budget.spend(kNodeUnits));
  if (a.is_undefined() || b.is_undefined()) {
    return undefined_error(a.is_undefined() ? a : b);
  }
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.as_int() < b.as_int() : a.as_real() < b.as_real();
  }
  if (a.is_string() && b.is_string()) {
    BATON_RETURN_IF_ERROR(budget.spend(std::min(a.as_string().size(), b.as_string().size())));
    return a.as_string() < b.as_string();
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    return list_less(a.items(), b.items(), budget);
  }
  return no_order(a, b);
}

Result<bool> compare(Operator op, const Value& a, const Value& b, Budget& budget) {
  const bool negated = op == Operator::kNotEqual || op == Operator::kNotIn;
  if (op == Operator::kIn || op == Operator::kNotIn) {
    BATON_ASSIGN_OR_RETURN(const bool found, contains(b, a, budget));
    return found != negated;
  }
  if (op == Operator::kEqual || op == Operator::kNotEqual) {
    BATON_ASSIGN_OR_RETURN(const bool same, equals(a, b, budget));
    return same != negated;
  }
  const bool swapped = op == Operator::kGreater || op == Operator::kGreaterEqual;
  const Value& left = swapped ? b : a;
  const Value& right = swapped ? a : b;
  BATON_ASSIGN_OR_RETURN(const bool less, less_than(left, right, budget));
  if (less || op == Operator::kLess || op == Operator::kGreater) {
    return less;
  }
  // Or equal; NaN is neither.
  return equals(left, right, budget);
}

Result<bool> contains(const Value& container, const Value& item, Budget& budget) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString: {
      if (!item.is_string()) {
        return type_error("'in <string>' requires string as left operand, not " +
                          std::string(type_name(item)));
      }
      const size_t size = container.as_string().size();
      BATON_RETURN_IF_ERROR(budget.spend(size + size * (item.as_string().size() / 16)));
      return container.as_string().find(item.as_string()) != std::string::npos;
    }
    case Kind::kList:
    case Kind::kTuple:
      for (const Value& other : container.items()) {
        BATON_ASSIGN_OR_RETURN(const bool same, equals(other, item, budget));
        if (same) {
          return true;
        }
      }
      return false;
    case Kind::kDict:
      if (!is_hashable(item)) {
        return type_error("unhashable type: '" + std::string(type_name(item)) + "'");
      }
      BATON_RETURN_IF_ERROR(budget.spend(item.is_string() ? item.as_string().size() : 0));
      return container.as_dict().find(item) != nullptr;
    case Kind::kGenerator:
      return generator_contains(container.as_generator(), item, budget);
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kMacro:
    case Kind::kBuiltin:
    case Kind::kMethod:
      break;
  }
  return type_error("argument of type '" + std::string(type_name(container)) + "' is not iterable");
}

Result<std::string> to_text(const Value& value, Budget& budget) {
  if (value.is_string()) {
    BATON_RETURN_IF_ERROR(budget.spend(value.as_string().size()));
    return value.as_string();
  }
  if (value.is_undefined()) {
    return std::string();
  }
  return to_repr(value, budget);
}

Result<std::string> to_repr(const Value& value, Budget& budget) {
  BATON_RETURN_IF_ERROR(budget.spend(kNodeUnits));
  switch (value.kind()) {
    case Kind::kUndefined:
      return std::string("Undefined");
    case Kind::kNone:
      return std::string("None");
    case Kind::kBool:
      return std::string(value.as_bool() ? "True" : "False");
    case Kind::kInt:
      return std::to_string(value.as_int());
    case Kind::kFloat:
      return float_repr(value.as_real());
    case Kind::kString:
      // An escape is at most ten bytes for one.
      BATON_RETURN_IF_ERROR(budget.spend(4 * value.as_string().size()));
      return string_repr(value.as_string());
    case Kind::kList: {
      BATON_ASSIGN_OR_RETURN(const std::string items, repr_items(value.items(), budget));
      BATON_RETURN_IF_ERROR(budget.spend(items.size()));
      return "[" + items + "]";
    }
    case Kind::kTuple: {
      BATON_ASSIGN_OR_RETURN(const std::string items, repr_items(value.items(), budget));
      BATON_RETURN_IF_ERROR(budget.spend(items.size()));
      return "(" + items + (value.items().size() == 1 ? ",)" : ")");
    }
    case Kind::kDict:
      return repr_dict(value.as_dict(), budget);
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kGenerator:
    case Kind::kMacro:
    case Kind::kBuiltin:
    case Kind::kMethod:
      break;
  }
  return unsupported("chat template: a " + std::string(type_name(value)) +
                     " cannot be written as text");
}

Result<int64_t> length_of(const Value& value, Budget& budget) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return int64_t{0};
    case Kind::kString:
      BATON_RETURN_IF_ERROR(budget.spend(value.as_string().size()));
      return static_cast<int64_t>(count_code_points(value.as_string()));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as_dict().entries.size());
    case Kind::kLoop:
      return static_cast<int64_t>(value.as_loop().items.size());
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
  return type_error("object of type '" + std::string(type_name(value)) + "' has no len()");
}

Result<List> to_list(const Value& value, Budget& budget) {
  List out;
  switch (value.kind()) {
    case Kind::kUndefined:
      return out;
    case Kind::kString: {
      const std::string& text = value.as_string();
      BATON_RETURN_IF_ERROR(budget.spend(kElementUnits * 2 * (text.size() + 1)));
      for (size_t at = 0; at < text.size();) {
        const size_t start = at;
        next_code_point(text, at);
        out.push_back(Value::string(text.substr(start, at - start)));
      }
      return out;
    }
    case Kind::kList:
    case Kind::kTuple:
      BATON_RETURN_IF_ERROR(budget.spend(kElementUnits * (value.items().size() + 1)));
      return value.items();
    case Kind::kDict:
      BATON_RETURN_IF_ERROR(budget.spend(kElementUnits * (value.as_dict().entries.size() + 1)));
      for (const auto& [key, unused] : value.as_dict().entries) {
        out.push_back(key);
      }
      return out;
    case Kind::kGenerator:
      BATON_RETURN_IF_ERROR(budget.spend(kElementUnits));
      return value.as_generator().take();
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kMacro:
    case Kind::kBuiltin:
    case Kind::kMethod:
      break;
  }
  return type_error("'" + std::string(type_name(value)) + "' object is not iterable");
}

}  // namespace baton::chat_template
