#include "router/json_text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "common/http/error.h"

namespace baton::router {

void JsonText::separate() {
  if (!out_.empty() && out_.back() != '{' && out_.back() != '[' && out_.back() != ':') {
    out_ += ',';
  }
}

JsonText& JsonText::open(char bracket) {
  separate();
  out_ += bracket;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  out_ += bracket;
  return *this;
}

JsonText& JsonText::name(std::string_view name) {
  separate();
  http::append_json_string(out_, name);
  out_ += ':';
  return *this;
}

JsonText& JsonText::text(std::string_view value) {
  separate();
  http::append_json_string(out_, value);
  return *this;
}

JsonText& JsonText::count(int64_t value) {
  separate();
  out_ += std::to_string(value);
  return *this;
}

JsonText& JsonText::number(double value) {
  if (!std::isfinite(value)) {
    return null();
  }
  separate();
  std::array<char, 64> digits{};
  const bool small = std::abs(value) < 1;
  const int length = std::snprintf(digits.data(), digits.size(), small ? "%.3g" : "%.10g",
                                   small ? value : std::round(value * 1e3) / 1e3);
  out_.append(digits.data(), static_cast<size_t>(length));
  return *this;
}

JsonText& JsonText::flag(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonText& JsonText::null() {
  separate();
  out_ += "null";
  return *this;
}

}  // namespace baton::router
