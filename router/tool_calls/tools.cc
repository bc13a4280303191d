#include "router/tool_calls/tools.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace baton::router {
namespace {

constexpr size_t kMaxTools = 512;
constexpr size_t kMaxNameBytes = 128;
// A function without parameters takes an empty object.
constexpr std::string_view kNoArguments =
    R"({"type":"object","properties":{},"additionalProperties":false})";

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.' || c == ':' || c == '/';
         });
}

// The name in {"function": {"name": ...}} or {"name": ...}; empty when there is none.
std::string name_in(const boost::json::value& value) {
  const boost::json::object* object = value.if_object();
  const boost::json::value* name = object ? object->if_contains("name") : nullptr;
  return name != nullptr && name->is_string() ? std::string(name->get_string()) : std::string();
}

class ToolReader {
 public:
  explicit ToolReader(FieldReader& fields) : fields_(fields) {}

  ToolRequest read() {
    const boost::json::value* tools = fields_.raw("tools");
    const boost::json::value* functions = fields_.raw("functions");
    const boost::json::value* choice = fields_.raw("tool_choice");
    const boost::json::value* function_call = fields_.raw("function_call");
    request_.parallel = fields_.boolean("parallel_tool_calls").value_or(true);
    if (tools != nullptr && functions != nullptr) {
      fields_.fail("functions", "'functions' and 'tools' both name functions");
    } else if (functions != nullptr) {
      request_.legacy = true;
      request_.parallel = false;
      read_list("functions", *functions);
      read_choice("function_call", function_call);
    } else if (tools != nullptr) {
      read_list("tools", *tools);
      read_choice("tool_choice", choice);
    } else {
      need_tools("tool_choice", choice, "tools");
      need_tools("function_call", function_call, "functions");
    }
    if (!request_.may_call()) {
      request_.offered.clear();  // a model that knows no functions calls none
    }
    return std::move(request_);
  }

 private:
  void need_tools(std::string_view field, const boost::json::value* choice,
                  std::string_view needed) {
    if (choice != nullptr && !(choice->is_string() && choice->get_string() == "none")) {
      fields_.fail(field, "'" + std::string(field) + "' needs '" + std::string(needed) + "'");
    }
  }

  void read_list(std::string_view field, const boost::json::value& list) {
    if (!list.is_array() || list.get_array().empty() || list.get_array().size() > kMaxTools) {
      fields_.fail(field, "'" + std::string(field) + "' must be a list of 1 to " +
                              std::to_string(kMaxTools) + " functions");
      return;
    }
    for (const boost::json::value& entry : list.get_array()) {
      const boost::json::object* object = entry.if_object();
      const boost::json::value* function = &entry;
      if (!request_.legacy) {
        const boost::json::value* type = object ? object->if_contains("type") : nullptr;
        function = object ? object->if_contains("function") : nullptr;
        if (type == nullptr || !type->is_string() || type->get_string() != "function" ||
            function == nullptr) {
          fields_.fail(field,
                       "an entry of 'tools' must be {\"type\": \"function\", "
                       "\"function\": {\"name\": ...}}");
          return;
        }
      }
      if (!read_function(field, *function)) {
        return;
      }
      boost::json::object shown;
      shown["type"] = "function";
      shown["function"] = *function;
      request_.offered.push_back(std::move(shown));
    }
  }

  bool read_function(std::string_view field, const boost::json::value& function) {
    const std::string name = name_in(function);
    if (!valid_name(name)) {
      fields_.fail(field, "a function in '" + std::string(field) +
                              "' needs a 'name' of 1 to 128 letters, digits or _-.:/");
      return false;
    }
    if (request_.knows(name)) {
      fields_.fail(field, "the function '" + name + "' is there twice");
      return false;
    }
    const boost::json::object& object = function.get_object();
    const boost::json::value* description = object.if_contains("description");
    if (description != nullptr && !description->is_null() && !description->is_string()) {
      fields_.fail(field, "the description of function '" + name + "' must be a string");
      return false;
    }
    const boost::json::value* parameters = object.if_contains("parameters");
    if (parameters != nullptr && !parameters->is_null() && !describes_object(*parameters)) {
      fields_.fail(
          field, "the parameters of function '" + name + "' must be a JSON schema of type object");
      return false;
    }
    request_.callable.push_back({name, schema_of(parameters)});
    return true;
  }

  static bool describes_object(const boost::json::value& schema) {
    const boost::json::object* object = schema.if_object();
    const boost::json::value* type = object ? object->if_contains("type") : nullptr;
    return object != nullptr &&
           (type == nullptr || (type->is_string() && type->get_string() == "object"));
  }

  static std::string schema_of(const boost::json::value* parameters) {
    if (parameters == nullptr || parameters->is_null() || parameters->get_object().empty()) {
      return std::string(kNoArguments);
    }
    boost::json::object schema = parameters->get_object();
    const boost::json::value* properties = schema.if_contains("properties");
    const bool none =
        properties != nullptr && properties->is_object() && properties->get_object().empty();
    if (none && !schema.contains("additionalProperties")) {
      schema["additionalProperties"] = false;
    }
    return boost::json::serialize(schema);
  }

  void read_choice(std::string_view field, const boost::json::value* choice) {
    request_.choice = ToolChoice::kAuto;
    if (choice == nullptr) {
      return;
    }
    if (choice->is_string()) {
      const std::string_view word = choice->get_string();
      if (word == "none") {
        request_.choice = ToolChoice::kNone;
      } else if (word == "required" && !request_.legacy) {
        request_.choice = ToolChoice::kRequired;
      } else if (word != "auto") {
        fail_choice(field);
      }
      return;
    }
    const boost::json::object* object = choice->if_object();
    const boost::json::value* named = choice;
    if (!request_.legacy) {
      const boost::json::value* type = object ? object->if_contains("type") : nullptr;
      const bool function = type == nullptr || (type->is_string() && *type == "function");
      named = object != nullptr && function ? object->if_contains("function") : nullptr;
    }
    if (named == nullptr || name_in(*named).empty()) {
      fail_choice(field);
      return;
    }
    choose(field, name_in(*named));
  }

  // One function that must be called, once.
  void choose(std::string_view field, const std::string& name) {
    if (fields_.status().ok() && !request_.knows(name)) {
      fields_.fail(field, "'" + std::string(field) + "' names '" + shortened(name) +
                              "', which is none of the functions");
      return;
    }
    std::erase_if(request_.callable, [&](const Tool& tool) { return tool.name != name; });
    request_.choice = ToolChoice::kRequired;
    request_.parallel = false;
  }

  void fail_choice(std::string_view field) {
    fields_.fail(field, request_.legacy
                            ? "'function_call' must be none, auto or {\"name\": ...}"
                            : "'tool_choice' must be none, auto, required or {\"type\": "
                              "\"function\", \"function\": {\"name\": ...}}");
  }

  FieldReader& fields_;
  ToolRequest request_;
};

}  // namespace

bool ToolRequest::knows(std::string_view name) const {
  return std::any_of(callable.begin(), callable.end(),
                     [name](const Tool& tool) { return tool.name == name; });
}

ToolRequest read_tools(FieldReader& fields) { return ToolReader(fields).read(); }

}  // namespace baton::router
