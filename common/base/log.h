#pragma once

// One line an event on stderr: time, level, program, worker, words, key=value pairs. Prompts,
// outputs and keys are never logged at any level. Set up once in main() before threads start;
// logging is thread-safe.

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/status.h"

namespace baton {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string program;  // "baton-prefill"
  std::string worker;   // "p0"; empty for programs without a name
};
void init_log(const LogOptions& options);
Result<LogLevel> parse_log_level(std::string_view text);    // debug info warn error
Result<LogFormat> parse_log_format(std::string_view text);  // text json

// A key with its value as text.
struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), quoted(false) {}
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  LogField(std::string_view k, Number v) : key(k), value(std::to_string(v)), quoted(false) {}

  std::string_view key;
  std::string value;
  bool quoted = true;  // whether JSON output writes the value as a string
};

void log_debug(std::string_view words, std::initializer_list<LogField> fields = {});
void log_info(std::string_view words, std::initializer_list<LogField> fields = {});
void log_warn(std::string_view words, std::initializer_list<LogField> fields = {});
void log_error(std::string_view words, std::initializer_list<LogField> fields = {});

}  // namespace baton
