#include "router/tool_calls/answer_reader.h"

#include <algorithm>
#include <utility>

namespace baton::router {
namespace {

constexpr std::string_view kSpace = " \n\t\r";
constexpr size_t kLongestName = 300;  // with what stands between a name and its arguments

// White space that may belong to what follows is held back, so much of it at most.
constexpr size_t kMostSpace = 256;

size_t space_at_end(std::string_view text) {
  text = text.substr(text.size() - std::min(text.size(), kMostSpace));
  const size_t last = text.find_last_not_of(kSpace);
  return last == std::string_view::npos ? text.size() : text.size() - last - 1;
}

// Length of the longest end of `text` that is a proper beginning of `marker`.
size_t begun(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(marker.size() - 1, text.size()); n > 0; --n) {
    if (text.ends_with(marker.substr(0, n))) {
      return n;
    }
  }
  return 0;
}

bool is_begun(std::string_view text, std::string_view marker) {
  return text.size() < marker.size() && marker.starts_with(text);
}

}  // namespace

AnswerReader::AnswerReader(const AnswerForm& form, const ToolRequest& tools)
    : form_(form),
      tools_(tools),
      at_(form.begins_in_calls       ? At::kCallBegin
          : form.begins_in_reasoning ? At::kReasoning
          : form.has_reasoning       ? At::kStart
                                     : At::kContent),
      skip_space_(form.begins_in_reasoning) {}

AnswerPiece AnswerReader::feed(std::string_view text) {
  held_ += text;
  AnswerPiece out;
  while (step(out)) {
  }
  return out;
}

bool AnswerReader::step(AnswerPiece& out) {
  if (skip_space_) {
    drop_space();
    skip_space_ = held_.empty();
  }
  if (held_.empty()) {
    return false;
  }
  switch (at_) {
    case At::kStart:
      return start();
    case At::kReasoning:
      return reasoning(out);
    case At::kContent:
      return content(out);
    case At::kCallBegin:
      return call_begin(out);
    case At::kCallName:
      return call_name(out);
    case At::kCall:
      return call(out);
    case At::kCallEnd:
      return call_end();
    case At::kIgnored:
      return ignored();
  }
  return false;
}

void AnswerReader::drop_space() { held_.erase(0, held_.find_first_not_of(kSpace)); }

size_t AnswerReader::settled(std::string_view marker) const {
  const std::string_view sure(held_.data(), held_.size() - begun(held_, marker));
  return sure.size() - space_at_end(sure);
}

bool AnswerReader::start() {
  const size_t first = held_.find_first_not_of(kSpace);
  const std::string_view rest = std::string_view(held_).substr(std::min(first, held_.size()));
  const bool near = held_.size() - rest.size() <= kMostSpace;
  if (near && (rest.empty() || is_begun(rest, kThinkBegin))) {
    return false;
  }
  if (near && rest.starts_with(kThinkBegin)) {
    held_.erase(0, first + kThinkBegin.size());
    skip_space_ = true;
    at_ = At::kReasoning;
  } else {
    at_ = At::kContent;
  }
  return true;
}

bool AnswerReader::reasoning(AnswerPiece& out) {
  const size_t end = held_.find(kThinkEnd);
  const size_t given = end == std::string::npos
                           ? settled(kThinkEnd)
                           : end - space_at_end(std::string_view(held_).substr(0, end));
  if (form_.shows_reasoning) {
    out.reasoning += held_.substr(0, given);
  }
  held_.erase(0, end == std::string::npos ? given : end + kThinkEnd.size());
  if (end == std::string::npos) {
    return false;
  }
  at_ = At::kContent;
  skip_space_ = true;
  return true;
}

bool AnswerReader::content(AnswerPiece& out) {
  if (!form_.has_calls) {
    out.content += std::exchange(held_, {});
    return false;
  }
  const size_t first = held_.find_first_not_of(kSpace);
  if (form_.call_form == CallForm::kLlama3 && !any_content_ && calls_ == 0 && first <= kMostSpace &&
      held_[first] == '{') {
    raw_ = held_.substr(0, first);
    held_.erase(0, first);
    tentative_ = true;
    begin_call(CallReader());
    return true;
  }
  const std::string_view marker = call_marker(form_.call_form);
  const size_t found = held_.find(marker);
  const size_t given = found == std::string::npos
                           ? settled(marker)
                           : found - space_at_end(std::string_view(held_).substr(0, found));
  out.content += held_.substr(0, given);
  any_content_ = any_content_ || given > 0;
  if (found == std::string::npos) {
    held_.erase(0, given);
    return false;
  }
  raw_ = held_.substr(given, found + marker.size() - given);
  held_.erase(0, found + marker.size());
  at_ = At::kCallBegin;
  return true;
}

void AnswerReader::begin_call(CallReader reader) {
  reader_ = std::move(reader);
  named_ = false;
  at_ = At::kCall;
}

// What seemed to be a call is text.
void AnswerReader::not_a_call(AnswerPiece& out) {
  out.content += std::exchange(raw_, {});
  any_content_ = true;
  tentative_ = false;
  in_list_ = false;
  at_ = At::kContent;
}

bool AnswerReader::call_begin(AnswerPiece& out) {
  const size_t first = std::min(held_.find_first_not_of(kSpace), held_.size());
  raw_ += held_.substr(0, first);
  held_.erase(0, first);
  if (held_.empty()) {
    return false;
  }
  const bool mistral = form_.call_form == CallForm::kMistral;
  if (held_[0] == '{') {
    begin_call(CallReader());
  } else if (mistral && held_[0] == '[' && !in_list_) {
    in_list_ = true;
    raw_ += '[';
    held_.erase(0, 1);
  } else if (mistral && !in_list_) {
    at_ = At::kCallName;
  } else {
    not_a_call(out);
  }
  return true;
}

// f[ARGS]{...}, f[CALL_ID]...[ARGS]{...} or f{...}
bool AnswerReader::call_name(AnswerPiece& out) {
  const size_t object = held_.find('{');
  if (object == std::string::npos && held_.size() <= kLongestName) {
    return false;
  }
  const std::string head = held_.substr(0, std::min(object, held_.size()));
  const std::string name = head.substr(0, head.find_first_of("[ \n\t\r"));
  if (object == std::string::npos || !tools_.knows(name)) {
    raw_ += head;
    held_.erase(0, head.size());
    not_a_call(out);
    return true;
  }
  raw_ += head;
  held_.erase(0, head.size());
  begin_call(CallReader::of_arguments(name));
  return true;
}

bool AnswerReader::call(AnswerPiece& out) {
  size_t read = 0;
  const auto more = [this] {
    const CallReader::State state = reader_.state();
    return state == CallReader::State::kUnnamed || (named_ && state == CallReader::State::kNamed);
  };
  if (reader_.state() == CallReader::State::kNamed && !named_) {
    return name_call(out);
  }
  while (read < held_.size() && more()) {
    reader_.feed(held_[read++]);
  }
  if (!named_) {
    raw_ += held_.substr(0, read);
  }
  held_.erase(0, read);
  const bool broken = reader_.state() == CallReader::State::kBroken;
  if (broken && !named_) {
    not_a_call(out);
    return true;
  }
  if (named_) {
    give_arguments(out);
  }
  if (broken) {
    at_ = At::kIgnored;
  } else if (reader_.state() == CallReader::State::kWhole) {
    at_ = At::kCallEnd;
  }
  return !held_.empty() || reader_.state() == CallReader::State::kNamed;
}

// The function is known now.
bool AnswerReader::name_call(AnswerPiece& out) {
  if (!tools_.knows(reader_.name())) {
    not_a_call(out);
    return true;
  }
  named_ = true;
  raw_.clear();
  tentative_ = false;
  shown_ = (tools_.parallel && !form_.single_call) || calls_ == 0;
  if (shown_) {
    out.calls.push_back({calls_++, reader_.name(), ""});
  }
  give_arguments(out);
  return true;
}

void AnswerReader::give_arguments(AnswerPiece& out) {
  std::string arguments = reader_.take_arguments();
  if (!shown_ || arguments.empty()) {
    return;
  }
  const int index = calls_ - 1;
  if (out.calls.empty() || out.calls.back().index != index) {
    out.calls.push_back({index, "", ""});
  }
  out.calls.back().arguments += arguments;
}

bool AnswerReader::call_end() {
  drop_space();
  if (held_.empty()) {
    return false;
  }
  const CallForm form = form_.call_form;
  const std::string_view next =
      form == CallForm::kHermes ? kToolCallEnd : call_marker(CallForm::kLlama3);
  if (form != CallForm::kMistral && is_begun(held_, next)) {
    return false;
  }
  raw_.clear();
  at_ = At::kContent;
  skip_space_ = true;
  if (form == CallForm::kHermes) {
    if (held_.starts_with(next)) {
      held_.erase(0, next.size());
    } else if (held_[0] == '{') {
      at_ = At::kCallBegin;
    }
  } else if (form == CallForm::kLlama3) {
    const size_t taken = held_.starts_with(next) ? next.size() : held_[0] == ';' ? 1 : 0;
    raw_ = held_.substr(0, taken);
    held_.erase(0, taken);
    if (taken > 0 || held_[0] == '{') {
      at_ = At::kCallBegin;
    }
  } else if (in_list_) {
    const char c = held_[0];
    in_list_ = c == ',';
    if (c == ',' || c == ']') {
      raw_ = c;
      held_.erase(0, 1);
    }
    at_ = c == ',' ? At::kCallBegin : At::kContent;
  }
  return true;
}

bool AnswerReader::ignored() {
  const size_t end =
      form_.call_form == CallForm::kHermes ? held_.find(kToolCallEnd) : std::string::npos;
  if (end == std::string::npos) {
    held_.erase(0, held_.size() - begun(held_, kToolCallEnd));
    return false;
  }
  held_.erase(0, end + kToolCallEnd.size());
  at_ = At::kContent;
  skip_space_ = true;
  return true;
}

AnswerPiece AnswerReader::finish(bool cut) {
  AnswerPiece out;
  std::string rest = std::exchange(held_, {});
  const auto without_half = [&rest, cut](std::string_view marker) {
    const size_t half = begun(rest, marker);
    return cut && half > 1 ? rest.substr(0, rest.size() - half) : rest;
  };
  switch (at_) {
    case At::kReasoning:
      rest = without_half(kThinkEnd);
      if (form_.shows_reasoning) {
        out.reasoning = rest;
      }
      break;
    case At::kStart:
      out.content = without_half(kThinkBegin);
      break;
    case At::kContent:
      out.content = form_.has_calls ? without_half(call_marker(form_.call_form)) : rest;
      break;
    case At::kCallBegin:
    case At::kCallName:
    case At::kCall: {
      // A separator after the last call is no text.
      const bool nothing = at_ == At::kCallBegin && calls_ > 0 && raw_.size() <= 1 && rest.empty();
      if (!named_call() && !nothing && (!cut || tentative_)) {
        out.content = raw_ + rest;
      }
      break;
    }
    case At::kCallEnd:
    case At::kIgnored:
      break;
  }
  return out;
}

}  // namespace baton::router
