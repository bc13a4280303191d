#include "router/tool_calls/history.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <string>
#include <utility>

#include "common/tokenizer/chat_template/json_text.h"
#include "common/tokenizer/chat_template/value_json.h"

namespace baton::router {
namespace {

namespace json = boost::json;

std::string text_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

bool is_text_or_absent(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() || value->is_string();
}

Status check_function(const json::value* function) {
  const json::object* object = function != nullptr ? function->if_object() : nullptr;
  const json::value* arguments = object != nullptr ? object->if_contains("arguments") : nullptr;
  if (object == nullptr || text_in(*object, "name").empty()) {
    return invalid_argument("a call in a message must have a function with a 'name'");
  }
  if (arguments != nullptr && !arguments->is_null() && !arguments->is_string() &&
      !arguments->is_object()) {
    return invalid_argument("'arguments' of a call in a message must be a string of JSON");
  }
  return Status();
}

// As Python's json.dumps writes it, which is what models have been trained on.
std::string json_text(const json::value& value) {
  const Result<chat_template::Value> read = chat_template::value_from_json(value);
  if (read.ok()) {
    constexpr uint64_t kUnits = uint64_t{64} << 20;
    chat_template::Budget budget(kUnits);
    Result<std::string> text = chat_template::to_json_text(*read, {}, budget);
    if (text.ok()) {
      return std::move(text).value();
    }
  }
  return json::serialize(value);
}

// The object that a string holds; the value itself if it holds none.
json::value unpacked(const json::value& arguments) {
  if (!arguments.is_string()) {
    return arguments.is_null() ? json::value(json::object()) : arguments;
  }
  boost::system::error_code error;
  json::value inner = json::parse(arguments.get_string(), error);
  return error || !inner.is_object() ? arguments : inner;
}

json::value packed(const json::value& arguments) {
  return arguments.is_string() ? arguments : json::value(json_text(unpacked(arguments)));
}

// Nine letters and digits, the same for the same id.
std::string short_id(std::string_view id) {
  constexpr size_t kLength = 9;
  std::string out;
  std::copy_if(id.begin(), id.end(), std::back_inserter(out),
               [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
  out = out.size() > kLength ? out.substr(out.size() - kLength) : out;
  return std::string(kLength - out.size(), '0') + out;
}

class Writer {
 public:
  Writer(const TemplateTraits& traits, CallForm form) : traits_(traits), form_(form) {}

  json::array write(const json::array& messages) {
    for (const json::value& entry : messages) {
      json::object message = entry.get_object();
      modernise(message);
      if (message["role"] == "developer" && !traits_.has_developer && traits_.has_system) {
        message["role"] = "system";
      }
      if (traits_.has_tools) {
        write_calls(message);
      } else {
        write_as_text(message);
      }
    }
    return std::move(out_);
  }

 private:
  // From `function_call` and role `function` to `tool_calls` and role `tool`.
  static void modernise(json::object& message) {
    const json::value* old = message.if_contains("function_call");
    if (old != nullptr && old->is_object()) {
      json::object call;
      call["id"] = "call_" + text_in(old->get_object(), "name");
      call["type"] = "function";
      call["function"] = *old;
      message["tool_calls"] = json::array{std::move(call)};
    }
    message.erase("function_call");
    if (message["role"] == "function") {
      message["role"] = "tool";
      message["tool_call_id"] = "call_" + text_in(message, "name");
    }
    const json::value* calls = message.if_contains("tool_calls");
    if (calls != nullptr && (!calls->is_array() || calls->get_array().empty())) {
      message.erase("tool_calls");
    }
  }

  void write_calls(json::object& message) {
    if (json::value* calls = message.if_contains("tool_calls")) {
      for (json::value& call : calls->get_array()) {
        json::object& function = call.get_object()["function"].get_object();
        json::value& arguments = function["arguments"];
        arguments = traits_.arguments_as_text ? packed(arguments) : unpacked(arguments);
        shorten_id(call.get_object(), "id");
      }
    }
    shorten_id(message, "tool_call_id");
    out_.push_back(std::move(message));
  }

  void shorten_id(json::object& object, std::string_view key) const {
    if (traits_.short_ids && object.contains(key)) {
      object[key] = short_id(text_in(object, key));
    }
  }

  void write_as_text(json::object& message) {
    const std::string content = text_in(message, "content");
    if (const json::value* calls = message.if_contains("tool_calls")) {
      message["content"] = content + (content.empty() ? "" : "\n") + calls_text(calls->get_array());
      message.erase("tool_calls");
    }
    const bool result = message["role"] == "tool";
    if (result) {
      const std::string text = "<tool_response>\n" + content + "\n</tool_response>";
      if (after_result_) {
        json::value& before = out_.back().get_object()["content"];
        before = std::string(before.get_string()) + "\n" + text;
        return;
      }
      message = json::object{{"role", "user"}, {"content", text}};
    }
    after_result_ = result;
    out_.push_back(std::move(message));
  }

  std::string calls_text(const json::array& calls) const {
    std::string out;
    for (const json::value& entry : calls) {
      const json::object& function = entry.at("function").get_object();
      const json::value* given = function.if_contains("arguments");
      json::object call;
      call["name"] = function.at("name");
      call[form_ == CallForm::kLlama3 ? "parameters" : "arguments"] =
          unpacked(given != nullptr ? *given : json::value());
      const std::string text = json_text(call);
      switch (form_) {
        case CallForm::kHermes:
          out += (out.empty() ? "" : "\n") + ("<tool_call>\n" + text) + "\n</tool_call>";
          break;
        case CallForm::kLlama3:
          out += (out.empty() ? "" : "; ") + text;
          break;
        case CallForm::kMistral:
          out += (out.empty() ? "[TOOL_CALLS] [" : ", ") + text;
          break;
      }
    }
    return form_ == CallForm::kMistral ? out + "]" : out;
  }

  const TemplateTraits& traits_;
  CallForm form_;
  json::array out_;
  bool after_result_ = false;
};

std::string tools_text(const json::array& tools, CallForm form) {
  std::string out =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
      "provided with function signatures within <tools></tools> XML tags:\n<tools>";
  for (const json::value& tool : tools) {
    out += "\n" + json_text(tool);
  }
  out += "\n</tools>\n\n";
  switch (form) {
    case CallForm::kHermes:
      return out +
             "For each function call, return a json object with function name and arguments within "
             "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
             "\"arguments\": <args-json-object>}\n</tool_call>";
    case CallForm::kLlama3:
      return out +
             "For a function call, return only a json object with function name and arguments:\n"
             "{\"name\": <function-name>, \"parameters\": <args-json-object>}";
    case CallForm::kMistral:
      return out +
             "For function calls, return [TOOL_CALLS] and a list of json objects with function "
             "name and arguments:\n[TOOL_CALLS] [{\"name\": <function-name>, \"arguments\": "
             "<args-json-object>}]";
  }
  return out;
}

// Tells of the tools where the template lets instructions stand.
void add_tools_text(json::array& messages, const std::string& text, bool has_system) {
  const std::string_view wanted = has_system ? "system" : "user";
  const bool at_first = !messages.empty() && text_in(messages[0].get_object(), "role") == wanted;
  if (at_first) {
    json::object& first = messages[0].get_object();
    const std::string content = text_in(first, "content");
    first["content"] =
        has_system ? content + (content.empty() ? "" : "\n\n") + text : text + "\n\n" + content;
    return;
  }
  messages.insert(messages.begin(), json::object{{"role", wanted}, {"content", text}});
}

}  // namespace

Status check_calls(const json::object& message) {
  const json::value* calls = message.if_contains("tool_calls");
  if (calls != nullptr && !calls->is_null()) {
    if (!calls->is_array()) {
      return invalid_argument("'tool_calls' of a message must be a list");
    }
    for (const json::value& call : calls->get_array()) {
      const json::object* object = call.if_object();
      BATON_RETURN_IF_ERROR(check_function(object ? object->if_contains("function") : nullptr));
      if (!is_text_or_absent(*object, "id")) {
        return invalid_argument("'id' of a call in a message must be a string");
      }
    }
  }
  const json::value* old = message.if_contains("function_call");
  if (old != nullptr && !old->is_null()) {
    BATON_RETURN_IF_ERROR(check_function(old));
  }
  return is_text_or_absent(message, "tool_call_id")
             ? Status()
             : invalid_argument("'tool_call_id' of a message must be a string");
}

json::array messages_for(const json::array& messages, const json::array& tools,
                         const TemplateTraits& traits, CallForm form) {
  json::array out = Writer(traits, form).write(messages);
  if (!tools.empty() && !traits.has_tools) {
    add_tools_text(out, tools_text(tools, form), traits.has_system);
  }
  return out;
}

}  // namespace baton::router
