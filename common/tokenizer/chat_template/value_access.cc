// Items, attributes and slices of value_ops.h.

#include <algorithm>

#include "common/tokenizer/chat_template/methods.h"
#include "common/tokenizer/chat_template/text.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

Value no_attribute(const Value& value, std::string_view name) {
  return Value::undefined("'" + object_name(value) + "' has no attribute " + string_repr(name));
}

Result<Value> no_element(const Value& value, const Value& key, Budget& budget) {
  // Reading text of a namespace or generator as a key is no error in Python, only pointless.
  const Result<std::string> text = to_repr(key, budget);
  return Value::undefined(object_name(value) + " has no element " +
                          (text.ok() ? *text : std::string(type_name(key))));
}

Value loop_attribute(const Value& value, std::string_view name) {
  const Loop& loop = value.as_loop();
  const auto index = static_cast<int64_t>(loop.index);
  const auto size = static_cast<int64_t>(loop.items.size());
  if (name == "index0") {
    return Value::integer(index);
  }
  if (name == "index") {
    return Value::integer(index + 1);
  }
  if (name == "first") {
    return Value::boolean(index == 0);
  }
  if (name == "last") {
    return Value::boolean(index + 1 == size);
  }
  if (name == "length") {
    return Value::integer(size);
  }
  if (name == "revindex") {
    return Value::integer(size - index);
  }
  if (name == "revindex0") {
    return Value::integer(size - index - 1);
  }
  if (name == "depth") {
    return Value::integer(loop.depth);
  }
  if (name == "depth0") {
    return Value::integer(loop.depth - 1);
  }
  if (name == "previtem") {
    return index == 0 ? Value::undefined("there is no previous item") : loop.items[loop.index - 1];
  }
  if (name == "nextitem") {
    return index + 1 == size ? Value::undefined("there is no next item")
                             : loop.items[loop.index + 1];
  }
  return no_attribute(value, name);
}

// What getattr(value, name) gives; absent when Python would raise AttributeError.
std::optional<Value> python_attribute(const Value& value, const std::string& name) {
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4) {
    return Value::undefined("access to attribute " + string_repr(name) + " of '" +
                            std::string(type_name(value)) + "' object is unsafe.");
  }
  switch (method_access(value, name)) {
    case MethodAccess::kSafe:
      return Value::method(value, name);
    case MethodAccess::kUnsafe:
      return Value::undefined("access to attribute " + string_repr(name) + " of '" +
                              std::string(type_name(value)) + "' object is unsafe.");
    case MethodAccess::kNone:
      break;
  }
  if (value.is(Kind::kNamespace)) {
    if (const Value* found = value.as_namespace().find(name)) {
      return *found;
    }
  }
  if (value.is(Kind::kLoop)) {
    return loop_attribute(value, name);
  }
  return std::nullopt;
}

// The byte range of code point `index`, or false when out of range.
bool code_point_at(std::string_view text, int64_t index, std::string& out) {
  const auto size = static_cast<int64_t>(count_code_points(text));
  if (index < 0) {
    index += size;
  }
  if (index < 0 || index >= size) {
    return false;
  }
  size_t at = 0;
  for (int64_t i = 0; i < index; ++i) {
    next_code_point(text, at);
  }
  const size_t start = at;
  next_code_point(text, at);
  out = text.substr(start, at - start);
  return true;
}

// value[key] where Python gives a value; absent for TypeError and LookupError.
Result<std::optional<Value>> python_item(const Value& value, const Value& key, Budget& budget) {
  if (value.is(Kind::kDict)) {
    BATON_RETURN_IF_ERROR(budget.spend(key.is_string() ? key.as_string().size() : kNodeUnits));
    const Value* found = value.as_dict().find(key);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  if (!key.is_integral()) {
    return std::optional<Value>();
  }
  int64_t index = key.as_int();
  if (value.is_sequence()) {
    const auto size = static_cast<int64_t>(value.items().size());
    index += index < 0 ? size : 0;
    return index < 0 || index >= size
               ? std::optional<Value>()
               : std::optional<Value>(value.items()[static_cast<size_t>(index)]);
  }
  if (value.is_string()) {
    BATON_RETURN_IF_ERROR(budget.spend(2 * value.as_string().size()));
    std::string found;
    if (code_point_at(value.as_string(), index, found)) {
      return std::optional<Value>(Value::string(std::move(found)));
    }
  }
  return std::optional<Value>();
}

struct SliceBounds {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

Result<int64_t> bound(const Value& value, int64_t absent) {
  if (value.is(Kind::kNone)) {
    return absent;
  }
  if (!value.is_integral()) {
    return type_error("slice indices must be integers or None or have an __index__ method");
  }
  return value.as_int();
}

// PySlice_AdjustIndices.
int64_t clamp_index(int64_t index, int64_t size, bool backwards) {
  if (index < 0) {
    index = index < -size ? -1 : index + size;
    return index < 0 ? (backwards ? -1 : 0) : index;
  }
  return index >= size ? (backwards ? size - 1 : size) : index;
}

Result<SliceBounds> slice_bounds(const Value& start, const Value& stop, const Value& step,
                                 int64_t size) {
  SliceBounds b;
  BATON_ASSIGN_OR_RETURN(b.step, bound(step, 1));
  if (b.step == 0) {
    return type_error("slice step cannot be zero");
  }
  const bool backwards = b.step < 0;
  // Any step this long reaches one element only; keeps index arithmetic in range.
  b.step = std::clamp<int64_t>(b.step, -size - 1, size + 1);
  BATON_ASSIGN_OR_RETURN(b.start, bound(start, backwards ? size : 0));
  b.start = clamp_index(b.start, size, backwards);
  const bool open = stop.is(Kind::kNone);
  BATON_ASSIGN_OR_RETURN(b.stop, bound(stop, size));
  b.stop = open && backwards ? -1 : clamp_index(b.stop, size, backwards);
  return b;
}

std::vector<size_t> slice_indices(const SliceBounds& b) {
  std::vector<size_t> indices;
  for (int64_t i = b.start; b.step > 0 ? i < b.stop : i > b.stop; i += b.step) {
    indices.push_back(static_cast<size_t>(i));
  }
  return indices;
}

}  // namespace

Result<Value> get_item(const Value& value, const Value& key, Budget& budget) {
  if (value.is_undefined()) {
    return undefined_error(value);
  }
  BATON_ASSIGN_OR_RETURN(const std::optional<Value> item, python_item(value, key, budget));
  if (item) {
    return *item;
  }
  if (!key.is_string()) {
    return no_element(value, key, budget);
  }
  const std::optional<Value> attribute = python_attribute(value, key.as_string());
  return attribute ? *attribute : no_attribute(value, key.as_string());
}

Result<Value> get_attribute(const Value& value, const std::string& name, Budget& budget) {
  BATON_RETURN_IF_ERROR(budget.spend(kNodeUnits));
  if (value.is_undefined()) {
    return undefined_error(value);
  }
  if (const std::optional<Value> attribute = python_attribute(value, name)) {
    return *attribute;
  }
  if (value.is(Kind::kDict)) {
    if (const Value* found = value.as_dict().find(std::string_view(name))) {
      return *found;
    }
  }
  return no_attribute(value, name);
}

Result<Value> get_slice(const Value& value, const Value& start, const Value& stop,
                        const Value& step, Budget& budget) {
  if (value.is_undefined()) {
    return undefined_error(value);
  }
  if (!value.is_string() && !value.is_sequence()) {
    return type_error("'" + std::string(type_name(value)) + "' object is not subscriptable");
  }
  if (value.is_string()) {
    BATON_RETURN_IF_ERROR(budget.spend(16 * value.as_string().size()));
    const std::vector<uint32_t> text = to_code_points(value.as_string());
    BATON_ASSIGN_OR_RETURN(const SliceBounds b,
                           slice_bounds(start, stop, step, static_cast<int64_t>(text.size())));
    std::string out;
    for (const size_t i : slice_indices(b)) {
      append_code_point(text[i], out);
    }
    return Value::string(std::move(out));
  }
  const List& items = value.items();
  BATON_RETURN_IF_ERROR(budget.spend(kElementUnits * (items.size() + 1)));
  BATON_ASSIGN_OR_RETURN(const SliceBounds b,
                         slice_bounds(start, stop, step, static_cast<int64_t>(items.size())));
  List out;
  for (const size_t i : slice_indices(b)) {
    out.push_back(items[i]);
  }
  return value.is(Kind::kList) ? make_list(std::move(out)) : make_tuple(std::move(out));
}

}  // namespace baton::chat_template
