#include "common/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/json_text.h"
#include "common/grammar/regex.h"

namespace baton::grammar {
namespace {

namespace json = boost::json;

constexpr std::array kAnnotations = {
    "$schema",     "$id",     "$anchor",  "$comment", "$defs",      "definitions", "title",
    "description", "default", "examples", "example",  "deprecated", "readOnly",    "writeOnly"};
// Keywords that restrict values of one type, with that type.
constexpr std::array<std::pair<const char*, const char*>, 16> kTyped = {{
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
    {"uniqueItems", "array"},
}};
constexpr std::array<std::pair<const char*, const char*>, 7> kFormats = {{
    {"date", R"(\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8]))"},
    {"time", R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))"},
    {"date-time",
     R"(\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))"},
    {"uuid", R"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"},
    {"ipv4", R"(((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d))"},
    {"email",
     R"([A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@([A-Za-z0-9]+(-[A-Za-z0-9]+)*\.)+[A-Za-z]{2,63})"},
    {"hostname", R"(([A-Za-z0-9]+(-[A-Za-z0-9]+)*\.)*[A-Za-z0-9]+(-[A-Za-z0-9]+)*)"},
}};
constexpr std::array kTypes = {"object", "array", "string", "number", "integer", "boolean", "null"};

using Names = std::vector<std::string>;

bool is_annotation(std::string_view key) {
  return std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end();
}

std::string text_of(const json::value& value) {
  if (value.is_double()) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value.get_double()).ptr;
    return {digits, end};
  }
  if (value.is_string()) {
    return quoted_json({value.get_string().data(), value.get_string().size()});
  }
  return json::serialize(value);
}

bool has_type(const json::value& value, std::string_view type) {
  const bool integral = value.is_int64() || value.is_uint64() ||
                        (value.is_double() && value.get_double() == std::floor(value.get_double()));
  return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
         (type == "string" && value.is_string()) || (type == "boolean" && value.is_bool()) ||
         (type == "null" && value.is_null()) || (type == "integer" && integral) ||
         (type == "number" && value.is_number());
}

class SchemaReader {
 public:
  SchemaReader(const json::value& root, JsonText& parts, Expressions& out)
      : root_(root), out_(out), text_(parts) {}

  Status read(int32_t root_rule) {
    BATON_ASSIGN_OR_RETURN(const ExprId body, schema(root_, "#", 0));
    out_.define(root_rule, body);
    while (!pending_.empty()) {
      const auto [reference, rule] = pending_.back();
      pending_.pop_back();
      BATON_RETURN_IF_ERROR(resolve(reference, rule));
    }
    return Status();
  }

 private:
  static Status wrong(const std::string& where, const std::string& what) {
    return invalid_argument(what + " (at " + where + " of the schema)");
  }
  static Status refuse(const std::string& where, std::string_view keyword,
                       std::string_view why = "") {
    return unsupported("the schema keyword \"" + std::string(keyword) + "\" at " + where +
                       " is not supported" + (why.empty() ? "" : ": ") + std::string(why));
  }

  Status resolve(const std::string& reference, int32_t rule) {
    json::error_code error;
    const std::string pointer = reference.substr(1);
    const json::value* found =
        pointer.empty() ? &root_
                        : static_cast<const json::value&>(root_).find_pointer(pointer, error);
    if (found == nullptr || error) {
      return invalid_argument("$ref \"" + reference + "\" leads to nothing in the schema");
    }
    BATON_ASSIGN_OR_RETURN(const ExprId body, schema(*found, reference, 0));
    out_.define(rule, body);
    return Status();
  }

  Result<ExprId> schema(const json::value& value, const std::string& where, int depth) {
    BATON_RETURN_IF_ERROR(out_.status());
    if (depth > kMaxSchemaDepth) {
      return wrong(where, "schemas nested deeper than " + std::to_string(kMaxSchemaDepth));
    }
    if (value.is_bool()) {
      return value.get_bool() ? Result<ExprId>(text_.any_value())
                              : Result<ExprId>(wrong(where, "false allows no value at all"));
    }
    if (!value.is_object()) {
      return wrong(where, "a schema is an object, true or false");
    }
    const json::object& object = value.get_object();
    BATON_RETURN_IF_ERROR(check_keywords(object, where));
    for (const char* keyword : {"$ref", "anyOf", "oneOf", "allOf", "const", "enum"}) {
      if (const json::value* found = object.if_contains(keyword)) {
        BATON_RETURN_IF_ERROR(check_alone(object, keyword, where));
        return composed(object, keyword, *found, where, depth);
      }
    }
    return typed(object, where, depth);
  }

  Status check_keywords(const json::object& object, const std::string& where) const {
    static constexpr std::array kOther = {"type",  "$ref", "anyOf", "oneOf",
                                          "allOf", "enum", "const"};
    for (const auto& member : object) {
      const std::string_view key(member.key().data(), member.key().size());
      const bool known = is_annotation(key) ||
                         std::find(kOther.begin(), kOther.end(), key) != kOther.end() ||
                         std::any_of(kTyped.begin(), kTyped.end(),
                                     [&](const auto& row) { return row.first == key; });
      if (!known) {
        return refuse(where, key);
      }
    }
    return Status();
  }

  // Keywords that restrict the value beside one that says it all would have to be combined.
  static Status check_alone(const json::object& object, std::string_view keyword,
                            const std::string& where) {
    const bool listed = keyword == "enum" || keyword == "const";
    for (const auto& member : object) {
      const std::string_view key(member.key().data(), member.key().size());
      if (key != keyword && !is_annotation(key) && !(listed && key == "type")) {
        return refuse(where, keyword, "beside \"" + std::string(key) + "\"");
      }
    }
    return Status();
  }

  Result<ExprId> composed(const json::object& object, std::string_view keyword,
                          const json::value& value, const std::string& where, int depth) {
    if (keyword == "$ref") {
      return reference(value, where);
    }
    if (keyword == "const") {
      return listed(object, json::array{value}, where);
    }
    if (!value.is_array() || value.get_array().empty()) {
      return wrong(where, std::string(keyword) + " is a list with at least one entry");
    }
    const json::array& choices = value.get_array();
    if (keyword == "enum") {
      return listed(object, choices, where);
    }
    if (keyword == "allOf" && choices.size() > 1) {
      return refuse(where, "allOf", "with more than one schema");
    }
    std::vector<ExprId> out;
    for (size_t i = 0; i < choices.size(); ++i) {
      const std::string place = where + "/" + std::string(keyword) + "/" + std::to_string(i);
      BATON_ASSIGN_OR_RETURN(const ExprId choice, schema(choices[i], place, depth + 1));
      out.push_back(choice);
    }
    return out_.alt(std::move(out));
  }

  Result<ExprId> reference(const json::value& value, const std::string& where) {
    if (!value.is_string() || !value.get_string().starts_with('#')) {
      return refuse(where, "$ref", "to anything but a place in the same schema (#/...)");
    }
    const std::string name(value.get_string());
    const auto found = references_.find(name);
    if (found != references_.end()) {
      return out_.rule(found->second);
    }
    const int32_t rule = out_.new_rule();
    references_.emplace(name, rule);
    pending_.emplace_back(name, rule);
    return out_.rule(rule);
  }

  Result<ExprId> listed(const json::object& object, const json::array& values,
                        const std::string& where) {
    BATON_ASSIGN_OR_RETURN(const Names types, types_of(object, where));
    std::vector<std::string> out;
    for (const json::value& value : values) {
      const bool wanted =
          types.empty() || std::any_of(types.begin(), types.end(),
                                       [&](const auto& type) { return has_type(value, type); });
      if (wanted) {
        out.push_back(text_of(value));
      }
    }
    if (out.empty()) {
      return wrong(where, "no listed value has the type that is asked for");
    }
    return out_.any_of(std::move(out));
  }

  // Empty when the schema does not say.
  static Result<Names> types_of(const json::object& object, const std::string& where) {
    Names out;
    const json::value* type = object.if_contains("type");
    if (type == nullptr) {
      return out;
    }
    const json::array one = {*type};
    for (const json::value& entry : type->is_array() ? type->get_array() : one) {
      const std::string name = entry.is_string() ? std::string(entry.get_string()) : text_of(entry);
      if (std::find(kTypes.begin(), kTypes.end(), name) == kTypes.end()) {
        return wrong(
            where,
            "type " + name + " is none of object, array, string, number, integer, boolean, null");
      }
      out.push_back(name);
    }
    if (out.empty()) {
      return wrong(where, "type is an empty list");
    }
    return out;
  }

  Result<ExprId> typed(const json::object& object, const std::string& where, int depth) {
    BATON_ASSIGN_OR_RETURN(Names types, types_of(object, where));
    if (types.empty()) {
      for (const auto& [keyword, type] : kTyped) {
        if (object.contains(keyword) &&
            std::find(types.begin(), types.end(), type) == types.end()) {
          types.emplace_back(type);
        }
      }
    }
    if (types.empty()) {
      return text_.any_value();
    }
    std::vector<ExprId> out;
    for (const std::string& type : types) {
      BATON_ASSIGN_OR_RETURN(const ExprId value, of_type(type, object, where, depth));
      out.push_back(value);
    }
    return out_.alt(std::move(out));
  }

  Result<ExprId> of_type(std::string_view type, const json::object& object,
                         const std::string& where, int depth) {
    if (type == "object") {
      return object_value(object, where, depth);
    }
    if (type == "array") {
      return array_value(object, where, depth);
    }
    if (type == "string") {
      return string_value(object, where);
    }
    if (type == "boolean") {
      return out_.alt({out_.literal("true"), out_.literal("false")});
    }
    if (type == "null") {
      return out_.literal("null");
    }
    return number_value(object, where, type == "integer");
  }

  // A count such as minItems; `otherwise` when it is not there.
  static Result<int32_t> count_of(const json::object& object, const char* keyword,
                                  int32_t otherwise, const std::string& where) {
    const json::value* value = object.if_contains(keyword);
    if (value == nullptr) {
      return otherwise;
    }
    if (!value->is_int64() || value->get_int64() < 0 || value->get_int64() > kMaxRepeat) {
      return wrong(where, std::string(keyword) + " is a whole number from 0 to " +
                              std::to_string(kMaxRepeat));
    }
    return static_cast<int32_t>(value->get_int64());
  }

  Result<ExprId> string_value(const json::object& object, const std::string& where) {
    BATON_ASSIGN_OR_RETURN(const int32_t min, count_of(object, "minLength", 0, where));
    BATON_ASSIGN_OR_RETURN(const int32_t max, count_of(object, "maxLength", -1, where));
    if (max >= 0 && max < min) {
      return wrong(where, "maxLength is less than minLength");
    }
    const json::value* pattern = object.if_contains("pattern");
    const json::value* format = object.if_contains("format");
    if (pattern == nullptr && format == nullptr) {
      return text_.string(min, max);
    }
    if (min > 0 || max >= 0 || (pattern != nullptr && format != nullptr)) {
      return refuse(where, pattern != nullptr ? "pattern" : "format",
                    "together with other keywords of strings");
    }
    const json::value& value = pattern != nullptr ? *pattern : *format;
    if (!value.is_string()) {
      return wrong(where, "pattern and format are strings");
    }
    const std::string_view text(value.get_string().data(), value.get_string().size());
    RegexOptions options{RegexMatch::kPart, TextForm::kJsonString};
    std::string_view expression = text;
    if (format != nullptr) {
      const auto* found = std::find_if(kFormats.begin(), kFormats.end(),
                                       [&](const auto& row) { return row.first == text; });
      if (found == kFormats.end()) {
        return refuse(where, "format", text);
      }
      options.match = RegexMatch::kWhole;
      expression = found->second;
    }
    Result<ExprId> body = read_regex(expression, options, out_);
    if (!body.ok()) {
      return body.status().with_context("pattern at " + where + " of the schema");
    }
    return out_.concat({out_.literal("\""), *body, out_.literal("\"")});
  }

  // Bounds of integers are rounded inwards; those of other numbers have to be whole.
  static Status read_bound(const json::object& object, const char* keyword, bool integer,
                           NumberRange& range, const std::string& where) {
    const json::value* value = object.if_contains(keyword);
    if (value == nullptr) {
      return Status();
    }
    if (!value->is_number()) {
      return wrong(where, std::string(keyword) + " is a number");
    }
    const double bound = value->to_number<double>();
    const bool is_low = std::string_view(keyword).ends_with("inimum");
    bool exclusive = std::string_view(keyword).starts_with("exclusive");
    if (!(std::fabs(bound) <= static_cast<double>(kMaxBound))) {
      return refuse(where, keyword, "beyond 10^16");
    }
    const bool whole = bound == std::floor(bound);
    if (!whole && !integer) {
      return refuse(where, keyword, "with a fraction");
    }
    const auto rounded = static_cast<int64_t>(is_low ? std::ceil(bound) : std::floor(bound));
    exclusive = exclusive && whole;
    std::optional<int64_t>& side = is_low ? range.low : range.high;
    bool& open = is_low ? range.low_exclusive : range.high_exclusive;
    const bool tighter = !side || (is_low ? rounded > *side : rounded < *side);
    if (tighter || (side == rounded && exclusive)) {
      side = rounded;
      open = exclusive;
    }
    return Status();
  }

  Result<ExprId> number_value(const json::object& object, const std::string& where, bool integer) {
    NumberRange range;
    for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      BATON_RETURN_IF_ERROR(read_bound(object, keyword, integer, range, where));
    }
    const std::optional<ExprId> out = integer ? text_.integer(range) : text_.number(range);
    if (!out) {
      return wrong(where, "no number lies between the bounds");
    }
    return *out;
  }

  Result<ExprId> array_value(const json::object& object, const std::string& where, int depth) {
    BATON_ASSIGN_OR_RETURN(const int32_t min, count_of(object, "minItems", 0, where));
    BATON_ASSIGN_OR_RETURN(const int32_t max, count_of(object, "maxItems", -1, where));
    if (max >= 0 && max < min) {
      return wrong(where, "maxItems is less than minItems");
    }
    if (const json::value* unique = object.if_contains("uniqueItems")) {
      if (!unique->is_bool() || unique->get_bool()) {
        return refuse(where, "uniqueItems");
      }
    }
    const json::value* items = object.if_contains("items");
    if (items != nullptr && items->is_array()) {
      return refuse(where, "items", "as a list; write prefixItems");
    }
    const json::value* prefix = object.if_contains("prefixItems");
    if (prefix != nullptr) {
      return tuple_value(*prefix, items, {min, max}, where, depth);
    }
    const bool none = items != nullptr && items->is_bool() && !items->get_bool();
    if (none && min > 0) {
      return wrong(where, "items: false allows no item, minItems asks for some");
    }
    ExprId item = text_.any_value();
    if (items != nullptr && !none) {
      BATON_ASSIGN_OR_RETURN(item, schema(*items, where + "/items", depth + 1));
    }
    return text_.list('[', as_rule(item), min, none ? 0 : max, ']');
  }

  // All items of the prefix are written, then those of `items`.
  Result<ExprId> tuple_value(const json::value& prefix, const json::value* items,
                             std::pair<int32_t, int32_t> counts, const std::string& where,
                             int depth) {
    if (!prefix.is_array() || prefix.get_array().empty()) {
      return wrong(where, "prefixItems is a list with at least one schema");
    }
    std::vector<ExprId> parts = {out_.literal("["), text_.space()};
    const auto fixed = static_cast<int32_t>(prefix.get_array().size());
    for (int32_t i = 0; i < fixed; ++i) {
      const std::string place = where + "/prefixItems/" + std::to_string(i);
      BATON_ASSIGN_OR_RETURN(const ExprId item,
                             schema(prefix.get_array()[static_cast<size_t>(i)], place, depth + 1));
      if (i > 0) {
        parts.push_back(text_.comma());
      }
      parts.push_back(item);
    }
    const bool more = items != nullptr && !(items->is_bool() && !items->get_bool());
    const int32_t min = std::max(0, counts.first - fixed);
    const int32_t max = counts.second < 0 ? -1 : counts.second - fixed;
    if ((counts.second >= 0 && max < 0) || (!more && min > 0)) {
      return wrong(where, "prefixItems, items, minItems and maxItems allow no array");
    }
    if (more && max != 0) {
      BATON_ASSIGN_OR_RETURN(const ExprId item, schema(*items, where + "/items", depth + 1));
      parts.push_back(out_.repeat(out_.concat({text_.comma(), as_rule(item)}), min, max));
    }
    parts.push_back(text_.space());
    parts.push_back(out_.literal("]"));
    return out_.concat(std::move(parts));
  }

  struct Member {
    std::string name;
    ExprId text = 0;  // "name": value
    bool required = false;
  };

  Result<ExprId> object_value(const json::object& object, const std::string& where, int depth) {
    BATON_ASSIGN_OR_RETURN(std::vector<Member> members, members_of(object, where, depth));
    const json::value* more = object.if_contains("additionalProperties");
    const bool open = more == nullptr ? members.empty() : !(more->is_bool() && !more->get_bool());
    std::optional<ExprId> other;
    if (open) {
      BATON_ASSIGN_OR_RETURN(other, other_member(members, more, where, depth));
    }
    return out_.concat(
        {out_.literal("{"), text_.space(), member_list(members, other), out_.literal("}")});
  }

  Result<std::vector<Member>> members_of(const json::object& object, const std::string& where,
                                         int depth) {
    std::vector<Member> members;
    if (const json::value* properties = object.if_contains("properties")) {
      if (!properties->is_object()) {
        return wrong(where, "properties is an object");
      }
      for (const auto& property : properties->get_object()) {
        const std::string name(property.key());
        BATON_ASSIGN_OR_RETURN(const ExprId value,
                               schema(property.value(), where + "/properties/" + name, depth + 1));
        members.push_back({name, named(text_.string_literal(name), value), false});
      }
    }
    if (const json::value* required = object.if_contains("required")) {
      if (!required->is_array()) {
        return wrong(where, "required is a list of names");
      }
      std::map<std::string_view, Member*> by_name;
      for (Member& member : members) {
        by_name.emplace(member.name, &member);
      }
      for (const json::value& entry : required->get_array()) {
        const auto found = entry.is_string()
                               ? by_name.find(std::string_view(entry.get_string().data(),
                                                               entry.get_string().size()))
                               : by_name.end();
        if (found == by_name.end()) {
          return wrong(where, "required names " + text_of(entry) + ", which properties does not");
        }
        found->second->required = true;
      }
    }
    return members;
  }

  ExprId named(ExprId name, ExprId value) {
    return as_rule(out_.concat({name, out_.literal(":"), text_.space(), value}));
  }

  // A member that properties does not name.
  Result<ExprId> other_member(const std::vector<Member>& members, const json::value* schema_of,
                              const std::string& where, int depth) {
    ExprId value = text_.any_value();
    if (schema_of != nullptr) {
      BATON_ASSIGN_OR_RETURN(value, schema(*schema_of, where + "/additionalProperties", depth + 1));
    }
    std::vector<std::string_view> names;
    for (const Member& member : members) {
      const bool plain = member.name.size() <= 128 &&
                         std::all_of(member.name.begin(), member.name.end(), [](char c) {
                           return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
                         });
      if (!plain) {
        return refuse(where, "additionalProperties",
                      "beside a property whose name is not plain ASCII or longer than 128");
      }
      names.push_back(member.name);
    }
    return named(names.empty() ? text_.string(0, -1) : text_.string_but(names), value);
  }

  // The members in their order with commas between those that are there, and the space after the
  // last. rest[i] is what may follow when some member came before i.
  ExprId member_list(const std::vector<Member>& members, std::optional<ExprId> other) {
    const size_t n = members.size();
    std::vector<ExprId> rest(n + 1);
    const auto after_comma = [this](ExprId member) { return out_.concat({text_.comma(), member}); };
    rest[n] = as_rule(out_.concat(
        {other ? out_.repeat(after_comma(*other), 0, -1) : out_.empty(), text_.space()}));
    for (size_t i = n; i-- > 0;) {
      const ExprId member = after_comma(members[i].text);
      rest[i] =
          as_rule(out_.concat({members[i].required ? member : out_.optional(member), rest[i + 1]}));
    }
    std::vector<ExprId> begins;  // by which member comes first
    for (size_t i = 0; i < n; ++i) {
      begins.push_back(out_.concat({members[i].text, rest[i + 1]}));
      if (members[i].required) {
        return out_.alt(std::move(begins));
      }
    }
    if (other) {
      begins.push_back(out_.concat({*other, rest[n]}));
    }
    begins.push_back(out_.empty());
    return out_.alt(std::move(begins));
  }

  ExprId as_rule(ExprId body) {
    const int32_t rule = out_.new_rule();
    out_.define(rule, body);
    return out_.rule(rule);
  }

  const json::value& root_;
  Expressions& out_;
  JsonText& text_;
  std::map<std::string, int32_t> references_;
  std::vector<std::pair<std::string, int32_t>> pending_;
};

}  // namespace

Status read_json_schema(std::string_view text, Expressions& out) {
  const int32_t root = out.new_rule();
  JsonText parts(out);
  return read_json_schema(text, root, parts, out);
}

Status read_json_schema(std::string_view text, int32_t rule, JsonText& parts, Expressions& out) {
  json::error_code error;
  json::parse_options options;
  options.max_depth = 8 * kMaxSchemaDepth;
  const json::value root = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) {
    return invalid_argument("the schema is not JSON, or nested too deeply: " + error.message());
  }
  return SchemaReader(root, parts, out).read(rule);
}

}  // namespace baton::grammar
