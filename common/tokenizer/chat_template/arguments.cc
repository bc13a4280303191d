#include "common/tokenizer/chat_template/arguments.h"

#include <algorithm>

#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {

Result<BoundArguments> BoundArguments::bind(std::string_view function, const Arguments& arguments,
                                            std::initializer_list<std::string_view> parameters,
                                            size_t required) {
  BoundArguments bound(function, parameters);
  const std::string name(function);
  if (arguments.positional.size() > parameters.size()) {
    return type_error(name + "() takes at most " + std::to_string(parameters.size()) +
                      " arguments (" + std::to_string(arguments.positional.size()) + " given)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.slots_[i] = &arguments.positional[i];
  }
  for (const auto& [key, value] : arguments.named) {
    const auto it = std::find(bound.parameters_.begin(), bound.parameters_.end(), key);
    if (it == bound.parameters_.end()) {
      return type_error(name + "() got an unexpected keyword argument '" + key + "'");
    }
    const Value*& slot = bound.slots_[static_cast<size_t>(it - bound.parameters_.begin())];
    if (slot != nullptr) {
      return type_error(name + "() got multiple values for argument '" + key + "'");
    }
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound.slots_[i] == nullptr) {
      return type_error(name + "() missing 1 required positional argument: '" +
                        std::string(bound.parameters_[i]) + "'");
    }
  }
  return bound;
}

Status BoundArguments::wrong_type(size_t i, std::string_view expected) const {
  return type_error(function_ + "() argument '" + std::string(parameters_[i]) + "' must be " +
                    std::string(expected) + ", not " + std::string(type_name(*slots_[i])));
}

Result<int64_t> BoundArguments::integer(size_t i, int64_t otherwise) const {
  if (!has(i)) {
    return otherwise;
  }
  if (!slots_[i]->is_integral()) {
    return wrong_type(i, "int");
  }
  return slots_[i]->as_int();
}

Result<std::string> BoundArguments::text(size_t i, std::string_view otherwise) const {
  if (!has(i)) {
    return std::string(otherwise);
  }
  if (!slots_[i]->is_string()) {
    return wrong_type(i, "str");
  }
  return slots_[i]->as_string();
}

Result<std::optional<std::string_view>> BoundArguments::optional_text(size_t i) const {
  if (!has(i) || slots_[i]->is(Kind::kNone)) {
    return std::optional<std::string_view>();
  }
  if (!slots_[i]->is_string()) {
    return wrong_type(i, "str or None");
  }
  return std::optional<std::string_view>(slots_[i]->as_string());
}

bool BoundArguments::truth(size_t i, bool otherwise) const {
  return has(i) ? is_true(*slots_[i]) : otherwise;
}

}  // namespace baton::chat_template
