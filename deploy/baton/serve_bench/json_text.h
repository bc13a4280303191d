#pragma once

// Writes one JSON object, in the order of the calls, with plain decimal numbers.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace baton::serve_bench {

class JsonText {
 public:
  JsonText& text(std::string_view key, std::string_view value);
  JsonText& number(std::string_view key, double value, int digits = 3);  // null if not finite
  JsonText& boolean(std::string_view key, bool value);
  JsonText& null(std::string_view key);
  JsonText& raw(std::string_view key, std::string_view json);  // an object or array
  template <std::integral Number>
    requires(!std::same_as<Number, bool>)
  JsonText& count(std::string_view key, Number value) {
    return raw(key, std::to_string(value));
  }
  std::string str() const { return out_ + "}"; }

 private:
  void key(std::string_view name);
  std::string out_ = "{";
};

}  // namespace baton::serve_bench
