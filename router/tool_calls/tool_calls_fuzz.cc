// What models write and clients send about calls. The first byte chooses how the answer is read;
// the rest is its text, which must read the same however it is cut, and a message of the history if
// it is JSON.

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "router/tool_calls/answer_reader.h"
#include "router/tool_calls/history.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using namespace baton::router;

std::string read(const AnswerForm& form, const ToolRequest& tools, std::string_view text,
                 size_t step, bool cut) {
  AnswerReader reader(form, tools);
  AnswerPiece all;
  std::string calls;
  const auto add = [&all, &calls](const AnswerPiece& piece) {
    all.reasoning += piece.reasoning;
    all.content += piece.content;
    for (const CallPiece& call : piece.calls) {
      calls += call.name.empty() ? call.arguments : "\n" + call.name + " " + call.arguments;
    }
  };
  for (size_t at = 0; at < text.size(); at += step) {
    add(reader.feed(text.substr(at, step)));
  }
  add(reader.finish(cut));
  return all.reasoning + "\n" + all.content + calls;
}

void read_history(std::string_view text, const TemplateTraits& traits, CallForm form) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse({text.data(), text.size()}, error);
  if (error || !value.is_object() || !check_calls(value.get_object()).ok()) {
    return;
  }
  boost::json::object message = value.get_object();
  message["role"] = message.contains("tool_calls") ? "assistant" : "tool";
  message["content"] = "c";
  const boost::json::array out = messages_for({message, message}, {value}, traits, form);
  BATON_CHECK(!out.empty(), "messages were lost");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  AnswerForm form;
  form.call_form = static_cast<CallForm>(data[0] % 3);
  form.has_calls = (data[0] & 4) == 0;
  form.has_reasoning = (data[0] & 8) != 0;
  form.begins_in_reasoning = form.has_reasoning && (data[0] & 16) != 0;
  const bool cut = (data[0] & 32) != 0;
  ToolRequest tools;
  tools.choice = ToolChoice::kAuto;
  tools.parallel = (data[0] & 64) == 0;
  tools.callable = {{"f", "{}"}, {"get_weather", "{}"}};
  const std::string whole = read(form, tools, text, text.size() + 1, cut);
  for (const size_t step : {size_t{1}, size_t{3}, size_t{7}}) {
    BATON_CHECK(read(form, tools, text, step, cut) == whole,
                "an answer reads differently in parts");
  }
  TemplateTraits traits;
  traits.has_tools = (data[0] & 1) != 0;
  traits.arguments_as_text = (data[0] & 2) != 0;
  traits.short_ids = (data[0] & 4) != 0;
  traits.has_system = (data[0] & 8) != 0;
  read_history(text, traits, form.call_form);
  return 0;
}
