#include "router/tool_calls/answer_form.h"

namespace baton::router {
namespace {

uint64_t hash_of(std::string_view text) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  hash = (hash ^ (hash >> 31)) * 0x94d049bb133111eb;  // so that texts with one end differ all over
  return hash ^ (hash >> 29);
}

std::string letters_of(std::string_view text, size_t count) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string out;
  for (uint64_t hash = hash_of(text); out.size() < count; hash /= kLetters.size()) {
    if (hash == 0) {
      hash = hash_of(std::string(text) + out);
    }
    out += kLetters[hash % kLetters.size()];
  }
  return out;
}

}  // namespace

std::string_view call_marker(CallForm form) {
  switch (form) {
    case CallForm::kHermes:
      return "<tool_call>";
    case CallForm::kLlama3:
      return "<|python_tag|>";
    case CallForm::kMistral:
      return "[TOOL_CALLS]";
  }
  return "";
}

std::vector<std::string_view> form_markers(CallForm form) {
  std::vector<std::string_view> markers = {kThinkBegin, kThinkEnd, call_marker(form)};
  if (form == CallForm::kHermes) {
    markers.push_back(kToolCallEnd);
  } else if (form == CallForm::kMistral) {
    markers.insert(markers.end(), {"[ARGS]", "[CALL_ID]"});
  }
  return markers;
}

std::string call_id(CallForm form, std::string_view answer_id, int choice, int call) {
  const std::string place =
      std::string(answer_id) + '/' + std::to_string(choice) + '/' + std::to_string(call);
  constexpr size_t kMistralLength = 9;
  return form == CallForm::kMistral ? letters_of(place, kMistralLength)
                                    : "call_" + letters_of(place, 12) + letters_of(place + '/', 12);
}

}  // namespace baton::router
