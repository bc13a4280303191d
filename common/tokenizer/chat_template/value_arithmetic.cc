// +, -, *, /, //, % and ** of value_ops.h.

#include <cmath>
#include <limits>

#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

std::string_view symbol(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    case Operator::kPower:
      return "**";
    default:
      return "?";
  }
}

Status bad_operands(Operator op, const Value& a, const Value& b) {
  return type_error("unsupported operand type(s) for " + std::string(symbol(op)) + ": '" +
                    std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "'");
}

Status overflow() { return unsupported("chat template: an integer beyond 64 bit signed"); }
Status by_zero() { return type_error("division by zero"); }

Result<Value> integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return overflow();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      return overflow();
    }
  }
  return Value::integer(result);
}

Result<Value> integers(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Result<Value>(overflow())
                                                   : Value::integer(result);
    case Operator::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? Result<Value>(overflow())
                                                   : Value::integer(result);
    case Operator::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? Result<Value>(overflow())
                                                   : Value::integer(result);
    case Operator::kDivide:
      return b == 0 ? Result<Value>(by_zero())
                    : Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Operator::kFloorDivide:
    case Operator::kModulo: {
      if (b == 0) {
        return by_zero();
      }
      if (a == std::numeric_limits<int64_t>::min() && b == -1) {
        return op == Operator::kModulo ? Result<Value>(Value::integer(0)) : overflow();
      }
      // Python rounds down, so the remainder has the divisor's sign.
      const bool adjust = a % b != 0 && ((a % b < 0) != (b < 0));
      return Value::integer(op == Operator::kModulo ? a % b + (adjust ? b : 0)
                                                    : a / b - (adjust ? 1 : 0));
    }
    case Operator::kPower:
      return b < 0
                 ? (a == 0 ? Result<Value>(by_zero())
                           : Value::real(std::pow(static_cast<double>(a), static_cast<double>(b))))
                 : integer_power(a, b);
    default:
      return internal_error("not an arithmetic operator");
  }
}

Result<Value> reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::real(a + b);
    case Operator::kSubtract:
      return Value::real(a - b);
    case Operator::kMultiply:
      return Value::real(a * b);
    case Operator::kDivide:
      return b == 0 ? Result<Value>(by_zero()) : Value::real(a / b);
    case Operator::kFloorDivide:
    case Operator::kModulo: {
      if (b == 0) {
        return by_zero();
      }
      double mod = std::fmod(a, b);
      double quotient = (a - mod) / b;
      if (mod != 0 && ((b < 0) != (mod < 0))) {
        mod += b;
        quotient -= 1;
      }
      if (mod == 0) {
        mod = std::copysign(0.0, b);
      }
      const double floored = std::floor(quotient);
      return Value::real(op == Operator::kModulo ? mod
                                                 : floored + (quotient - floored > 0.5 ? 1 : 0));
    }
    case Operator::kPower:
      if (a < 0 && b != std::floor(b)) {
        return unsupported("chat template: a complex number");
      }
      return a == 0 && b < 0 ? Result<Value>(by_zero()) : Value::real(std::pow(a, b));
    default:
      return internal_error("not an arithmetic operator");
  }
}

Result<Value> repeat(const Value& value, int64_t count, Budget& budget) {
  const auto times = static_cast<uint64_t>(count < 0 ? 0 : count);
  const uint64_t size =
      value.is_string() ? value.as_string().size() : kElementUnits * value.items().size();
  if (size > 0 && times > std::numeric_limits<uint64_t>::max() / size) {
    return budget.spend(std::numeric_limits<uint64_t>::max());
  }
  BATON_RETURN_IF_ERROR(budget.spend(size * times));
  if (value.is_string()) {
    std::string out;
    out.reserve(size * times);
    for (uint64_t i = 0; size > 0 && i < times; ++i) {
      out += value.as_string();
    }
    return Value::string(std::move(out));
  }
  List out;
  for (uint64_t i = 0; size > 0 && i < times; ++i) {
    out.insert(out.end(), value.items().begin(), value.items().end());
  }
  return value.is(Kind::kList) ? make_list(std::move(out)) : make_tuple(std::move(out));
}

Result<Value> concatenate(const Value& a, const Value& b, Budget& budget) {
  if (a.is_string()) {
    BATON_RETURN_IF_ERROR(budget.spend(a.as_string().size() + b.as_string().size()));
    return Value::string(a.as_string() + b.as_string());
  }
  BATON_RETURN_IF_ERROR(budget.spend(kElementUnits * (a.items().size() + b.items().size())));
  List out = a.items();
  out.insert(out.end(), b.items().begin(), b.items().end());
  return a.is(Kind::kList) ? make_list(std::move(out)) : make_tuple(std::move(out));
}

bool is_repeatable(const Value& value) { return value.is_string() || value.is_sequence(); }

}  // namespace

Result<Value> arithmetic(Operator op, const Value& a, const Value& b, Budget& budget) {
  if (a.is_undefined() || b.is_undefined()) {
    return undefined_error(a.is_undefined() ? a : b);
  }
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? integers(op, a.as_int(), b.as_int())
                                              : reals(op, a.as_real(), b.as_real());
  }
  if (op == Operator::kAdd && is_repeatable(a) && a.kind() == b.kind()) {
    return concatenate(a, b, budget);
  }
  if (op == Operator::kMultiply && is_repeatable(a) && b.is_integral()) {
    return repeat(a, b.as_int(), budget);
  }
  if (op == Operator::kMultiply && is_repeatable(b) && a.is_integral()) {
    return repeat(b, a.as_int(), budget);
  }
  if (op == Operator::kModulo && a.is_string()) {
    return unsupported("chat template: formatting with %");
  }
  if (op == Operator::kAdd && a.is_string()) {
    return type_error("can only concatenate str (not \"" + std::string(type_name(b)) +
                      "\") to str");
  }
  return bad_operands(op, a, b);
}

Result<Value> negate(const Value& value) {
  if (value.is_undefined()) {
    return undefined_error(value);
  }
  if (value.is(Kind::kFloat)) {
    return Value::real(-value.as_real());
  }
  if (!value.is_integral()) {
    return type_error("bad operand type for unary -: '" + std::string(type_name(value)) + "'");
  }
  return integers(Operator::kSubtract, 0, value.as_int());
}

}  // namespace baton::chat_template
