// Templates are part of model files, which may be hostile: whatever the bytes, parsing and
// rendering end in a result or an error.

#include <boost/json.hpp>
#include <cstdint>
#include <string_view>

#include "common/tokenizer/chat_template/chat_template.h"
#include "common/tokenizer/chat_template/value_json.h"

namespace {

using baton::chat_template::ChatTemplate;
using baton::chat_template::Limits;
using baton::chat_template::RenderInput;

RenderInput make_input() {
  const boost::json::value messages = boost::json::parse(
      R"([{"role": "system", "content": " s "}, {"role": "user", "content": "Hi \u00e9"},
          {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {}}]},
          {"role": "tool", "content": "<think>1</think>", "n": [1, 2.5, true]}])");
  RenderInput input;
  input.messages = *baton::chat_template::value_from_json(messages);
  input.extra = {{"d", input.messages.items()[3]}, {"s", input.messages.items()[1]}};
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Limits limits;
  limits.template_bytes = 1 << 16;
  limits.output_bytes = 1 << 20;
  limits.units = 1 << 21;
  const auto parsed =
      ChatTemplate::parse(std::string_view(reinterpret_cast<const char*>(data), size), limits);
  if (parsed.ok()) {
    (void)parsed->render(make_input()).ok();
  }
  return 0;
}
