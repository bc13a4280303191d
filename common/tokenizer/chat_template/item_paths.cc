#include "common/tokenizer/chat_template/item_paths.h"

#include <algorithm>
#include <charconv>

#include "common/tokenizer/chat_template/text.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {

Result<ItemPath> ItemPath::parse(const Value& attribute) {
  ItemPath path;
  if (attribute.is(Kind::kNone)) {
    return path;
  }
  if (!attribute.is_string()) {
    path.parts_.push_back(attribute);
    return path;
  }
  for (const std::string_view part : split(attribute.as_string(), ".", -1)) {
    int64_t index = 0;
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    const bool is_index =
        digits && std::from_chars(part.data(), part.data() + part.size(), index).ec == std::errc();
    path.parts_.push_back(is_index ? Value::integer(index) : Value::string(std::string(part)));
  }
  return path;
}

Result<Value> ItemPath::read(const Value& value, const Value* otherwise, Budget& budget) const {
  Value item = value;
  for (const Value& part : parts_) {
    BATON_RETURN_IF_ERROR(budget.spend(kNodeUnits));
    BATON_ASSIGN_OR_RETURN(item, get_item(item, part, budget));
    if (otherwise != nullptr && !otherwise->is(Kind::kNone) && item.is_undefined()) {
      item = *otherwise;
    }
  }
  return item;
}

Result<Value> ignore_case(const Value& value, Budget& budget) {
  if (!value.is_string()) {
    return value;
  }
  BATON_RETURN_IF_ERROR(budget.spend(8 * value.as_string().size()));
  return Value::string(to_lower(value.as_string()));
}

}  // namespace baton::chat_template
