#pragma once

// Writes one JSON text, value after value; commas are put where they belong. Numbers that JSON does
// not know become null.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::router {

class JsonText {
 public:
  JsonText& open_object() { return open('{'); }
  JsonText& close_object() { return close('}'); }
  JsonText& open_array() { return open('['); }
  JsonText& close_array() { return close(']'); }
  // Of the next value, inside an object.
  JsonText& name(std::string_view name);

  JsonText& text(std::string_view value);
  JsonText& count(int64_t value);
  JsonText& number(double value);  // three decimals, or three significant digits below 1
  JsonText& flag(bool value);
  JsonText& null();

  // A named value in one call.
  JsonText& text(std::string_view key, std::string_view value) { return name(key).text(value); }
  JsonText& count(std::string_view key, int64_t value) { return name(key).count(value); }
  JsonText& number(std::string_view key, double value) { return name(key).number(value); }
  JsonText& number(std::string_view key, std::optional<double> value) {
    return value ? number(key, *value) : name(key).null();
  }
  JsonText& flag(std::string_view key, bool value) { return name(key).flag(value); }

  std::string take() { return std::move(out_); }

 private:
  JsonText& open(char bracket);
  JsonText& close(char bracket);
  void separate();

  std::string out_;
};

}  // namespace baton::router
