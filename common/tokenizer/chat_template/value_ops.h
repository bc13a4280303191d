#pragma once

// What Python does with values: truth, equality, order, text, iteration, items and attributes.
// Whatever walks a value spends from the budget, for a shared value may be walked very often.

#include <string>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/ast.h"
#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/runtime.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

bool is_true(const Value& value);
Result<bool> equals(const Value& a, const Value& b, Budget& budget);
// a < b; an error for kinds that have no order.
Result<bool> less_than(const Value& a, const Value& b, Budget& budget);
Result<bool> compare(Operator op, const Value& a, const Value& b, Budget& budget);
Result<bool> contains(const Value& container, const Value& item, Budget& budget);
Result<Value> arithmetic(Operator op, const Value& a, const Value& b, Budget& budget);
Result<Value> negate(const Value& value);

// str(value) and repr(value).
Result<std::string> to_text(const Value& value, Budget& budget);
Result<std::string> to_repr(const Value& value, Budget& budget);

// len(value).
Result<int64_t> length_of(const Value& value, Budget& budget);
// list(value): keys of a dict, code points of a string; takes a generator's rest.
Result<List> to_list(const Value& value, Budget& budget);

// value[key] and value.name as jinja2's sandbox does them.
Result<Value> get_item(const Value& value, const Value& key, Budget& budget);
Result<Value> get_attribute(const Value& value, const std::string& name, Budget& budget);
// value[start:stop:step]; none where a bound is absent.
Result<Value> get_slice(const Value& value, const Value& start, const Value& stop,
                        const Value& step, Budget& budget);

// The error of using an undefined value, and of a wrong type.
Status undefined_error(const Value& value);
Status type_error(std::string message);

}  // namespace baton::chat_template
