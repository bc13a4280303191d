#include "common/tokenizer/chat_template/value_json.h"

#include <boost/json/value.hpp>

#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/text.h"

namespace baton::chat_template {
namespace {

Result<Value> convert(const boost::json::value& json, int depth);

Result<Value> convert_text(std::string_view text) {
  if (!is_valid_utf8(text)) {
    return invalid_argument("text is not valid UTF-8");
  }
  return Value::string(std::string(text));
}

Result<Value> convert_array(const boost::json::array& array, int depth) {
  List items;
  items.reserve(array.size());
  for (const boost::json::value& item : array) {
    BATON_ASSIGN_OR_RETURN(Value value, convert(item, depth + 1));
    items.push_back(std::move(value));
  }
  return make_list(std::move(items));
}

Result<Value> convert_object(const boost::json::object& object, int depth) {
  Dict dict;
  for (const auto& [key, item] : object) {
    BATON_ASSIGN_OR_RETURN(Value name, convert_text(std::string_view(key.data(), key.size())));
    BATON_ASSIGN_OR_RETURN(Value value, convert(item, depth + 1));
    dict.set(std::move(name), std::move(value));
  }
  return make_dict(std::move(dict));
}

Result<Value> convert(const boost::json::value& json, int depth) {
  if (depth > kMaxValueDepth) {
    return invalid_argument("JSON nests deeper than " + std::to_string(kMaxValueDepth));
  }
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::none();
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64:
      if (json.get_uint64() > static_cast<uint64_t>(INT64_MAX)) {
        return invalid_argument("integer beyond 64 bit signed: " +
                                std::to_string(json.get_uint64()));
      }
      return Value::integer(static_cast<int64_t>(json.get_uint64()));
    case boost::json::kind::double_:
      return Value::real(json.get_double());
    case boost::json::kind::string:
      return convert_text(std::string_view(json.get_string().data(), json.get_string().size()));
    case boost::json::kind::array:
      return convert_array(json.get_array(), depth);
    case boost::json::kind::object:
      return convert_object(json.get_object(), depth);
  }
  return internal_error("unknown kind of JSON value");
}

}  // namespace

Result<Value> value_from_json(const boost::json::value& json) { return convert(json, 0); }

}  // namespace baton::chat_template
