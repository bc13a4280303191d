#pragma once

// "function.name" as jinja2's filters take it: which item of a value to look at.

#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

class ItemPath {
 public:
  // The value itself.
  ItemPath() = default;
  // From text (dots separate, digits are positions) or an integer; the value itself from none.
  static Result<ItemPath> parse(const Value& attribute);

  // `otherwise`, when not null, stands for what is undefined on the way.
  Result<Value> read(const Value& value, const Value* otherwise, Budget& budget) const;

 private:
  List parts_;
};

// Lower case for text, anything else as it is: how sort and unique compare by default.
Result<Value> ignore_case(const Value& value, Budget& budget);

}  // namespace baton::chat_template
