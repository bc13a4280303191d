#include "common/tokenizer/chat_template/tests.h"

#include <algorithm>
#include <array>

#include "common/tokenizer/chat_template/filters.h"
#include "common/tokenizer/chat_template/string_methods.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

template <bool (*Is)(const Value&)>
Result<bool> plain(const Value& value, const Arguments& arguments, Budget&) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none, BoundArguments::bind("test", arguments, {}, 0));
  return Is(value);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_not_defined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is(Kind::kNone); }
bool is_boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_the_true(const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }
bool is_the_false(const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }
bool is_integer(const Value& v) { return v.is(Kind::kInt); }
bool is_float(const Value& v) { return v.is(Kind::kFloat); }
bool is_any_number(const Value& v) { return v.is_number(); }
bool is_text(const Value& v) { return v.is_string(); }
bool is_mapping(const Value& v) { return v.is(Kind::kDict); }
bool is_sequence(const Value& v) {
  return v.is_string() || v.is_sequence() || v.is(Kind::kDict) || v.is_undefined();
}
bool is_iterable(const Value& v) {
  return is_sequence(v) || v.is(Kind::kGenerator) || v.is(Kind::kLoop);
}
bool is_callable(const Value& v) {
  // An undefined value has a __call__ too: the one that fails.
  return v.is(Kind::kMacro) || v.is(Kind::kBuiltin) || v.is(Kind::kMethod) || v.is_undefined() ||
         v.is(Kind::kLoop);
}

Result<Value> operand(std::string_view test, const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind(test, arguments, {"other"}, 1));
  return *bound.get(0);
}

template <Operator Op>
Result<bool> comparison(const Value& value, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const Value other, operand("test", arguments));
  return compare(Op, value, other, budget);
}

Result<bool> remainder_is(const Value& value, const Value& divisor, int64_t wanted,
                          Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const Value rest, arithmetic(Operator::kModulo, value, divisor, budget));
  return equals(rest, Value::integer(wanted), budget);
}

Result<bool> odd(const Value& value, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none, BoundArguments::bind("odd", arguments, {}, 0));
  return remainder_is(value, Value::integer(2), 1, budget);
}

Result<bool> even(const Value& value, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none, BoundArguments::bind("even", arguments, {}, 0));
  return remainder_is(value, Value::integer(2), 0, budget);
}

Result<bool> divisible_by(const Value& value, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const Value other, operand("divisibleby", arguments));
  return remainder_is(value, other, 0, budget);
}

// Python's `is`: the same singleton, or the same small value.
Result<bool> same_as(const Value& value, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const Value other, operand("sameas", arguments));
  if (value.kind() != other.kind()) {
    return false;
  }
  return equals(value, other, budget);
}

Result<bool> lower(const Value& value, const Arguments&, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const std::string text, to_text(value, budget));
  return is_lower_text(text);
}

Result<bool> upper(const Value& value, const Arguments&, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const std::string text, to_text(value, budget));
  return is_upper_text(text);
}

Result<bool> filter_exists(const Value& value, const Arguments&, Budget&) {
  return value.is_string() && find_filter(value.as_string()) != nullptr;
}

Result<bool> test_exists(const Value& value, const Arguments&, Budget&) {
  return value.is_string() && find_test(value.as_string()) != nullptr;
}

struct Entry {
  std::string_view name;
  TestFunction function;
};

constexpr std::array<Entry, 38> kTests = {{
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", divisible_by},
    {"eq", comparison<Operator::kEqual>},
    {"equalto", comparison<Operator::kEqual>},
    {"even", even},
    {"false", plain<is_the_false>},
    {"filter", filter_exists},
    {"float", plain<is_float>},
    {"ge", comparison<Operator::kGreaterEqual>},
    {"greaterthan", comparison<Operator::kGreater>},
    {"gt", comparison<Operator::kGreater>},
    {"in", comparison<Operator::kIn>},
    {"integer", plain<is_integer>},
    {"iterable", plain<is_iterable>},
    {"le", comparison<Operator::kLessEqual>},
    {"lessthan", comparison<Operator::kLess>},
    {"lower", lower},
    {"lt", comparison<Operator::kLess>},
    {"mapping", plain<is_mapping>},
    {"ne", comparison<Operator::kNotEqual>},
    {"none", plain<is_none>},
    {"number", plain<is_any_number>},
    {"odd", odd},
    {"sameas", same_as},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_text>},
    {"test", test_exists},
    {"true", plain<is_the_true>},
    {"undefined", plain<is_not_defined>},
    {"upper", upper},
    {"==", comparison<Operator::kEqual>},
    {"!=", comparison<Operator::kNotEqual>},
    {">", comparison<Operator::kGreater>},
    {">=", comparison<Operator::kGreaterEqual>},
    {"<", comparison<Operator::kLess>},
    {"<=", comparison<Operator::kLessEqual>},
}};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto it = std::find_if(kTests.begin(), kTests.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return it == kTests.end() ? nullptr : it->function;
}

}  // namespace baton::chat_template
