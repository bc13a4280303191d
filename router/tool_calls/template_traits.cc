#include "router/tool_calls/template_traits.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "common/tokenizer/chat_template/value_json.h"

namespace baton::router {
namespace {

// Words that no template has of its own.
constexpr std::string_view kTools =
    R"([{"type":"function","function":{"name":"probefunction","description":"probedescription",
         "parameters":{"type":"object","properties":{"probeparameter":{"type":"string"}},
                       "required":["probeparameter"]}}}])";
constexpr std::string_view kUser = R"({"role":"user","content":"probeuser"})";
constexpr std::string_view kResult =
    R"({"role":"tool","name":"probefunction","content":"proberesult","tool_call_id":"ID"})";

constexpr const char* kLongId = "call_0123456789";
constexpr const char* kShortId = "call01234";

class Probe {
 public:
  Probe(const chat_template::ChatTemplate& chat, const std::string& bos, const std::string& eos)
      : chat_(chat), bos_(bos), eos_(eos) {}

  // Empty when the template refuses.
  std::string render(const std::string& messages, bool tools) const {
    chat_template::RenderInput input;
    input.bos_token = bos_;
    input.eos_token = eos_;
    input.messages = value_of("[" + messages + "]");
    if (tools) {
      input.tools = value_of(kTools);
    }
    const Result<std::string> text = chat_.render(input);
    return text.ok() ? *text : std::string();
  }

  std::string with_call(const std::string& arguments, const std::string& id, int count = 1) const {
    const std::string one = R"({"id":")" + id +
                            R"(","type":"function","function":{"name":"probefunction",)" +
                            R"("arguments":)" + arguments + "}}";
    const std::string call = R"({"role":"assistant","content":"","tool_calls":[)" + one +
                             (count > 1 ? "," + one : "") + "]}";
    std::string result(kResult);
    result.replace(result.find("ID"), 2, id);
    return render(std::string(kUser) + "," + call + "," + result, true);
  }

 private:
  static chat_template::Value value_of(std::string_view json) {
    boost::system::error_code error;
    const boost::json::value parsed = boost::json::parse({json.data(), json.size()}, error);
    Result<chat_template::Value> value = chat_template::value_from_json(parsed);
    return value.ok() ? std::move(value).value() : chat_template::Value::none();
  }

  const chat_template::ChatTemplate& chat_;
  const std::string& bos_;
  const std::string& eos_;
};

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

enum class Arguments : uint8_t { kNone, kObject, kText };

// How the template prints arguments as it should, JSON once.
Arguments arguments_of(const Probe& probe, const std::string& id) {
  const std::string object = probe.with_call(R"({"probeargument":"v"})", id);
  const std::string text = probe.with_call(R"("{\"probeargument\": \"v\"}")", id);
  const auto printed = [](const std::string& out, std::string_view argument) {
    return has(out, argument) && has(out, "proberesult");
  };
  if (printed(object, R"("probeargument")")) {
    return Arguments::kObject;
  }
  if (printed(text, R"({"probeargument")")) {
    return Arguments::kText;
  }
  // In a notation of its own.
  return printed(object, "probeargument") && !has(object, "'probeargument'") ? Arguments::kObject
                                                                             : Arguments::kNone;
}

}  // namespace

TemplateTraits traits_of(const chat_template::ChatTemplate& chat, const std::string& bos,
                         const std::string& eos) {
  const Probe probe(chat, bos, eos);
  const std::string user(kUser);
  const auto with_first = [&](const std::string& role) {
    return has(probe.render(R"({"role":")" + role + R"(","content":"probefirst"},)" + user, false),
               "probefirst");
  };
  TemplateTraits traits;
  traits.has_system = with_first("system");
  traits.has_developer = with_first("developer");
  if (!has(probe.render(user, true), "probefunction")) {
    return traits;
  }
  Arguments arguments = arguments_of(probe, kLongId);
  if (arguments == Arguments::kNone) {
    arguments = arguments_of(probe, kShortId);
    traits.short_ids = arguments != Arguments::kNone;
  }
  traits.has_tools = arguments != Arguments::kNone;
  const std::string id = traits.short_ids ? kShortId : kLongId;
  const char* both = arguments == Arguments::kText ? R"("{}")" : "{}";
  traits.single_call =
      traits.has_tools && probe.with_call(both, id, 1) != "" && probe.with_call(both, id, 2) == "";
  traits.arguments_as_text = arguments == Arguments::kText;
  return traits;
}

std::optional<CallForm> call_form_in(std::string_view source) {
  if (has(source, "[TOOL_CALLS]")) {
    return CallForm::kMistral;
  }
  // Qwen3-Coder and GLM write arguments as tags inside.
  if (has(source, "<tool_call>") && !has(source, "<parameter=") && !has(source, "<arg_key>")) {
    return CallForm::kHermes;
  }
  if (has(source, "<|python_tag|>") || has(source, R"("parameters": dictionary)")) {
    return CallForm::kLlama3;
  }
  return std::nullopt;
}

}  // namespace baton::router
