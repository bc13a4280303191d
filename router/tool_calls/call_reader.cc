#include "router/tool_calls/call_reader.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <utility>

namespace baton::router {
namespace {

constexpr size_t kMaxBrackets = 256;
constexpr size_t kMaxKeyBytes = 256;
constexpr size_t kMaxNameBytes = 256;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// A JSON string, with its quotes, as text.
std::optional<std::string> unquoted(std::string_view json) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse({json.data(), json.size()}, error);
  if (error || !value.is_string()) {
    return std::nullopt;
  }
  return std::string(value.get_string());
}

}  // namespace

CallReader CallReader::of_arguments(std::string name) {
  CallReader reader;
  reader.name_ = std::move(name);
  reader.has_name_ = true;
  reader.bare_ = true;
  reader.state_ = State::kNamed;
  reader.at_ = At::kValue;
  reader.key_ = "\"arguments\"";
  return reader;
}

CallReader::State CallReader::feed(char c) {
  switch (at_) {
    case At::kKey:
      key_ += c;
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        at_ = At::kColon;
      }
      if (key_.size() > kMaxKeyBytes) {
        state_ = State::kBroken;
      }
      break;
    case At::kValue:
      value_byte(c);
      break;
    case At::kBegin:
    case At::kKeyOrEnd:
    case At::kColon:
    case At::kCommaOrEnd:
      if (!is_space(c) && !take_structure(c)) {
        state_ = State::kBroken;
      }
      break;
  }
  return state_;
}

// What stands between keys and values.
bool CallReader::take_structure(char c) {
  switch (at_) {
    case At::kBegin:
      at_ = At::kKeyOrEnd;
      return c == '{';
    case At::kColon:
      // The value begins with the first byte that is no space.
      at_ = At::kValue;
      closers_.clear();
      text_.clear();
      in_string_ = false;
      return c == ':';
    case At::kKeyOrEnd:
    case At::kCommaOrEnd:
      if (c == '}') {
        state_ = has_name_ ? State::kWhole : State::kBroken;
        return true;
      }
      if (at_ == At::kCommaOrEnd && c == ',') {
        at_ = At::kKeyOrEnd;
        return true;
      }
      at_ = At::kKey;
      key_ = c;
      return c == '"';
    case At::kKey:
    case At::kValue:
      break;
  }
  return false;
}

void CallReader::begin_value(char c) {
  const std::string key = unquoted(key_).value_or("");
  // Some models write {"type": "function", "function": "f", ...}.
  if (!has_name_ && (key == "name" || (key == "function" && c == '"'))) {
    value_ = Value::kName;
  } else if (!has_arguments_ && (key == "arguments" || key == "parameters")) {
    value_ = Value::kArguments;
    has_arguments_ = true;
    passes_on_ = c == '{';
  } else {
    value_ = Value::kSkipped;
  }
}

void CallReader::value_byte(char c) {
  const bool first = closers_.empty() && !in_string_ && text_.empty();
  if (first && is_space(c)) {
    return;
  }
  if (first) {
    begin_value(c);
  }
  const bool scalar = closers_.empty() && !in_string_;
  if (scalar && !first && (c == ',' || c == '}' || is_space(c))) {
    end_value();
    if (!is_space(c) && state_ != State::kBroken && !take_structure(c)) {
      state_ = State::kBroken;
    }
    return;
  }
  if (value_ == Value::kArguments && passes_on_) {
    arguments_ += c;
    text_ = c;  // not empty: the value has begun
  } else if (value_ == Value::kSkipped) {
    text_ = c;
  } else {
    text_ += c;
  }
  if (value_ == Value::kName && text_.size() > kMaxNameBytes) {
    state_ = State::kBroken;
    return;
  }
  bool closed = false;
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      closed = closers_.empty();
    }
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    closers_ += c == '{' ? '}' : ']';
    if (closers_.size() > kMaxBrackets) {
      state_ = State::kBroken;
    }
  } else if (c == '}' || c == ']') {
    if (closers_.empty() || closers_.back() != c) {
      state_ = State::kBroken;
      return;
    }
    closers_.pop_back();
    closed = closers_.empty();
  }
  if (closed) {
    end_value();
  }
}

void CallReader::end_value() {
  at_ = At::kCommaOrEnd;
  if (bare_) {
    state_ = State::kWhole;
  }
  if (value_ == Value::kName) {
    note_name();
  } else if (value_ == Value::kArguments && !passes_on_) {
    // A text that holds the object; or null, which is none.
    const std::optional<std::string> inner = unquoted(text_);
    arguments_ = inner ? *inner : text_ == "null" ? "{}" : text_;
  }
}

void CallReader::note_name() {
  const std::optional<std::string> name = unquoted(text_);
  if (!name || name->empty()) {
    state_ = State::kBroken;
    return;
  }
  name_ = *name;
  has_name_ = true;
  state_ = State::kNamed;
}

std::string CallReader::take_arguments() {
  if (!has_name_) {
    return {};
  }
  if (state_ == State::kWhole && !has_arguments_) {
    has_arguments_ = true;
    return "{}";
  }
  return std::exchange(arguments_, {});
}

}  // namespace baton::router
