#include "common/tokenizer/chat_template/json_text.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/tokenizer/chat_template/text.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

std::string float_json(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-Infinity" : "Infinity";
  }
  return float_repr(value);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  Status write(const Value& value, int level) {
    switch (value.kind()) {
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        return put(scalar(value));
      case Kind::kString:
        return put(string_json(value.as_string(), style_.ensure_ascii));
      case Kind::kList:
      case Kind::kTuple:
        return write_list(value.items(), level);
      case Kind::kDict:
        return write_dict(value.as_dict(), level);
      case Kind::kUndefined:
      case Kind::kNamespace:
      case Kind::kLoop:
      case Kind::kGenerator:
      case Kind::kMacro:
      case Kind::kBuiltin:
      case Kind::kMethod:
        break;
    }
    return type_error("Object of type " + std::string(type_name(value)) +
                      " is not JSON serializable");
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return value.as_bool() ? "true" : "false";
      case Kind::kInt:
        return std::to_string(value.as_int());
      default:
        return float_json(value.as_real());
    }
  }

  Status put(std::string_view text) {
    BATON_RETURN_IF_ERROR(budget_.spend(text.size() + kNodeUnits));
    out_ += text;
    return {};
  }

  Status new_line(int level) {
    if (!style_.indent) {
      return {};
    }
    BATON_RETURN_IF_ERROR(budget_.spend(style_.indent->size() * static_cast<size_t>(level)));
    out_ += '\n';
    for (int i = 0; i < level; ++i) {
      out_ += *style_.indent;
    }
    return {};
  }

  Status write_list(const List& items, int level) {
    if (items.empty()) {
      return put("[]");
    }
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        BATON_RETURN_IF_ERROR(put(style_.item_separator));
      }
      BATON_RETURN_IF_ERROR(new_line(level + 1));
      BATON_RETURN_IF_ERROR(write(items[i], level + 1));
    }
    BATON_RETURN_IF_ERROR(new_line(level));
    out_ += ']';
    return {};
  }

  Result<std::string> key_text(const Value& key) {
    if (key.is_string()) {
      return string_json(key.as_string(), style_.ensure_ascii);
    }
    if (key.is(Kind::kNone) || key.is_number()) {
      return '"' + scalar(key) + '"';
    }
    return type_error("keys must be str, int, float, bool or None, not " +
                      std::string(type_name(key)));
  }

  Result<std::vector<const std::pair<Value, Value>*>> ordered(const Dict& dict) {
    BATON_RETURN_IF_ERROR(budget_.spend(dict.entries.size() * 16));
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) {
      order.push_back(&entry);
    }
    if (style_.sort_keys) {
      for (const auto* entry : order) {
        if (!entry->first.is_string()) {
          return unsupported("chat template: sort_keys with keys that are not strings");
        }
      }
      std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        return a->first.as_string() < b->first.as_string();
      });
    }
    return order;
  }

  Status write_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) {
      return put("{}");
    }
    BATON_ASSIGN_OR_RETURN(const auto order, ordered(dict));
    out_ += '{';
    bool first = true;
    for (const auto* entry : order) {
      if (!first) {
        BATON_RETURN_IF_ERROR(put(style_.item_separator));
      }
      first = false;
      BATON_RETURN_IF_ERROR(new_line(level + 1));
      BATON_ASSIGN_OR_RETURN(const std::string key, key_text(entry->first));
      BATON_RETURN_IF_ERROR(put(key));
      BATON_RETURN_IF_ERROR(put(style_.key_separator));
      BATON_RETURN_IF_ERROR(write(entry->second, level + 1));
    }
    BATON_RETURN_IF_ERROR(new_line(level));
    out_ += '}';
    return {};
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
};

}  // namespace

Result<std::string> to_json_text(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  BATON_RETURN_IF_ERROR(writer.write(value, 0));
  return writer.take();
}

}  // namespace baton::chat_template
