// Calls of interpreter.h: macros, methods and the global functions.

#include "common/tokenizer/chat_template/interpreter.h"
#include "common/tokenizer/chat_template/methods.h"
#include "common/tokenizer/chat_template/strftime.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

// As in jinja2's sandbox.
constexpr int64_t kMaxRange = 100'000;

Result<Value> raise_exception(const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("raise_exception", arguments, {"message"}, 1));
  BATON_ASSIGN_OR_RETURN(std::string message, to_text(*bound.get(0), budget));
  return invalid_argument(std::move(message));
}

Result<Value> strftime_now(const Arguments& arguments, std::chrono::sys_seconds now) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("strftime_now", arguments, {"format"}, 1));
  BATON_ASSIGN_OR_RETURN(const std::string format, bound.text(0, ""));
  BATON_ASSIGN_OR_RETURN(std::string text, format_time(format, now));
  return Value::string(std::move(text));
}

// dict(...) and namespace(...) take at most one mapping, and names.
Result<Dict> collect(std::string_view function, const Arguments& arguments, Budget& budget) {
  Dict dict;
  if (arguments.positional.size() > 1) {
    return type_error(std::string(function) + " expected at most 1 argument");
  }
  if (!arguments.positional.empty()) {
    if (!arguments.positional[0].is(Kind::kDict)) {
      return unsupported("chat template: " + std::string(function) +
                         "() of anything but a mapping is not supported");
    }
    const auto& entries = arguments.positional[0].as_dict().entries;
    BATON_RETURN_IF_ERROR(budget.spend(4 * kElementUnits * entries.size()));
    dict = arguments.positional[0].as_dict();
  }
  for (const auto& [name, value] : arguments.named) {
    BATON_RETURN_IF_ERROR(budget.spend(4 * kElementUnits));
    dict.set(Value::string(name), value);
  }
  return dict;
}

Result<Value> make_namespace(const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(const Dict dict, collect("namespace", arguments, runtime.budget()));
  std::vector<std::pair<std::string, Value>> attributes;
  for (const auto& [key, value] : dict.entries) {
    if (!key.is_string() || key.as_string().starts_with('_')) {
      return type_error("a namespace cannot have such an attribute");
    }
    attributes.emplace_back(key.as_string(), value);
  }
  return runtime.make_namespace(std::move(attributes));
}

}  // namespace

Result<Value> Interpreter::call(const Value& callee, const Arguments& arguments) {
  const DepthGuard guard(*this);
  BATON_RETURN_IF_ERROR(guard.check());
  switch (callee.kind()) {
    case Kind::kUndefined:
      return undefined_error(callee);
    case Kind::kBuiltin:
      return call_builtin(callee.as_builtin(), arguments);
    case Kind::kMacro:
      return call_macro(callee.as_macro(), arguments);
    case Kind::kMethod:
      return call_method(callee.as_method(), arguments, runtime_);
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kGenerator:
      break;
  }
  return type_error("'" + std::string(type_name(callee)) + "' object is not callable");
}

Result<Value> Interpreter::call_builtin(Builtin builtin, const Arguments& arguments) {
  switch (builtin) {
    case Builtin::kRaiseException:
      return raise_exception(arguments, runtime_.budget());
    case Builtin::kStrftimeNow:
      return strftime_now(arguments, runtime_.now());
    case Builtin::kRange:
      return make_range(arguments);
    case Builtin::kNamespace:
      return make_namespace(arguments, runtime_);
    case Builtin::kDict: {
      BATON_ASSIGN_OR_RETURN(Dict dict, collect("dict", arguments, runtime_.budget()));
      return make_dict(std::move(dict));
    }
  }
  return internal_error("unknown function");
}

Result<Value> Interpreter::make_range(const Arguments& arguments) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("range", arguments, {"a", "b", "step"}, 1));
  BATON_ASSIGN_OR_RETURN(const int64_t a, bound.integer(0, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t b, bound.integer(1, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t step, bound.integer(2, 1));
  if (step == 0) {
    return type_error("range() arg 3 must not be zero");
  }
  const int64_t start = bound.has(1) ? a : 0;
  const int64_t stop = bound.has(1) ? b : a;
  const auto span =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? step : -static_cast<__int128>(step);
  const __int128 count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > kMaxRange) {
    return type_error("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(kElementUnits * static_cast<uint64_t>(count + 1)));
  List items;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    items.push_back(Value::integer(start + i * step));
  }
  return make_list(std::move(items));
}

Status Interpreter::bind_parameters(const MacroDefinition& definition, const Arguments& arguments,
                                    std::vector<bool>& used) {
  const size_t count = definition.parameters.size();
  const size_t first_default = count - definition.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = definition.parameters[i];
    Value value = Value::undefined("parameter '" + name + "' was not provided");
    bool given = i < arguments.positional.size();
    if (given) {
      value = arguments.positional[i];
    }
    for (size_t k = 0; !given && k < arguments.named.size(); ++k) {
      if (arguments.named[k].first == name) {
        value = arguments.named[k].second;
        used[k] = true;
        given = true;
      }
    }
    if (!given && i >= first_default) {
      BATON_ASSIGN_OR_RETURN(value, evaluate(*definition.defaults[i - first_default]));
    }
    scope_->names.insert_or_assign(name, std::move(value));
  }
  return {};
}

// jinja2 gives a macro caller, kwargs and varargs only when its body reads them; what is left over
// otherwise is an error.
Status Interpreter::bind_specials(const MacroDefinition& definition, const Arguments& arguments,
                                  const std::vector<bool>& used) {
  Dict leftover;
  Value caller = Value::undefined("No caller defined");
  for (size_t k = 0; k < arguments.named.size(); ++k) {
    const auto& [name, value] = arguments.named[k];
    if (used[k]) {
      continue;
    }
    if (name == "caller" && definition.reads_caller) {
      caller = value;
    } else if (definition.reads_kwargs) {
      leftover.set(Value::string(name), value);
    } else {
      return type_error("macro '" + definition.name + "' takes no keyword argument '" + name + "'");
    }
  }
  const size_t count = definition.parameters.size();
  List extra;
  if (arguments.positional.size() > count) {
    if (!definition.reads_varargs) {
      return type_error("macro '" + definition.name + "' takes not more than " +
                        std::to_string(count) + " argument(s)");
    }
    extra.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                 arguments.positional.end());
  }
  // insert keeps a parameter of the same name.
  if (definition.reads_caller) {
    scope_->names.insert({"caller", std::move(caller)});
  }
  if (definition.reads_kwargs) {
    BATON_ASSIGN_OR_RETURN(Value kwargs, make_dict(std::move(leftover)));
    scope_->names.insert({"kwargs", std::move(kwargs)});
  }
  if (definition.reads_varargs) {
    BATON_ASSIGN_OR_RETURN(Value varargs, make_tuple(std::move(extra)));
    scope_->names.insert({"varargs", std::move(varargs)});
  }
  return {};
}

Result<Value> Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const MacroDefinition& definition = *macro.definition;
  BATON_RETURN_IF_ERROR(runtime_.budget().spend(
      kElementUnits * (4 + arguments.positional.size() + arguments.named.size())));
  const ScopeGuard scope(*this, macro.scope);
  std::vector<bool> used(arguments.named.size(), false);
  BATON_RETURN_IF_ERROR(bind_parameters(definition, arguments, used));
  BATON_RETURN_IF_ERROR(bind_specials(definition, arguments, used));
  BATON_ASSIGN_OR_RETURN(std::string text, capture(definition.body));
  return Value::string(std::move(text));
}

}  // namespace baton::chat_template
