#include "deploy/baton/serve_bench/json_text.h"

#include <cmath>
#include <cstdio>

#include "common/http/error.h"

namespace baton::serve_bench {

void JsonText::key(std::string_view name) {
  if (out_.size() > 1) {
    out_ += ',';
  }
  http::append_json_string(out_, name);
  out_ += ':';
}

JsonText& JsonText::text(std::string_view name, std::string_view value) {
  key(name);
  http::append_json_string(out_, value);
  return *this;
}

JsonText& JsonText::number(std::string_view name, double value, int digits) {
  if (!std::isfinite(value)) {
    return null(name);
  }
  char text[400];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return raw(name, text);
}

JsonText& JsonText::boolean(std::string_view name, bool value) {
  return raw(name, value ? "true" : "false");
}

JsonText& JsonText::null(std::string_view name) { return raw(name, "null"); }

JsonText& JsonText::raw(std::string_view name, std::string_view json) {
  key(name);
  out_ += json;
  return *this;
}

}  // namespace baton::serve_bench
