#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace baton {
namespace {

// Set by init_log before threads start, read only afterwards.
struct LogState {
  LogFormat format = LogFormat::kText;
  std::string program = "baton";
  std::string worker;
  std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("baton",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %v");
    return made;
  }();
};
LogState g_log;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string as_json(std::string_view level, std::string_view words,
                    std::initializer_list<LogField> fields) {
  std::string out = "\"level\":";
  append_json_string(out, level);
  out += ",\"program\":";
  append_json_string(out, g_log.program);
  out += ",\"worker\":";
  append_json_string(out, g_log.worker);
  out += ",\"message\":";
  append_json_string(out, words);
  for (const LogField& field : fields) {
    out += ',';
    append_json_string(out, field.key);
    out += ':';
    if (field.quoted) {
      append_json_string(out, field.value);
    } else {
      out += field.value;
    }
  }
  return out;
}

std::string as_text(std::string_view words, std::initializer_list<LogField> fields) {
  std::string out = g_log.program;
  if (!g_log.worker.empty()) {
    out += ' ';
    out += g_log.worker;
  }
  out += ": ";
  out += words;
  for (const LogField& field : fields) {
    out += ' ';
    out += field.key;
    out += '=';
    if (field.quoted && field.value.find_first_of(" \"\n") != std::string::npos) {
      append_json_string(out, field.value);
    } else {
      out += field.value;
    }
  }
  return out;
}

void log_line(LogLevel level, std::string_view words, std::initializer_list<LogField> fields) {
  const auto lvl = to_spdlog(level);
  if (!g_log.logger->should_log(lvl)) {
    return;
  }
  const auto name = spdlog::level::to_string_view(lvl);
  g_log.logger->log(lvl, "{}",
                    g_log.format == LogFormat::kText
                        ? as_text(words, fields)
                        : as_json({name.data(), name.size()}, words, fields));
}

}  // namespace

void init_log(const LogOptions& options) {
  g_log.format = options.format;
  g_log.program = options.program;
  g_log.worker = options.worker;
  g_log.logger->set_level(to_spdlog(options.level));
  g_log.logger->flush_on(spdlog::level::trace);
  g_log.logger->set_pattern(options.format == LogFormat::kText
                                ? "%Y-%m-%dT%H:%M:%S.%e %L %v"
                                : R"({"time":"%Y-%m-%dT%H:%M:%S.%e",%v})");
}

Result<LogLevel> parse_log_level(std::string_view text) {
  if (text == "debug") {
    return LogLevel::kDebug;
  }
  if (text == "info") {
    return LogLevel::kInfo;
  }
  if (text == "warn") {
    return LogLevel::kWarn;
  }
  if (text == "error") {
    return LogLevel::kError;
  }
  return invalid_argument("log level '" + std::string(text) +
                          "' is not one of debug, info, warn, error");
}

Result<LogFormat> parse_log_format(std::string_view text) {
  if (text == "text") {
    return LogFormat::kText;
  }
  if (text == "json") {
    return LogFormat::kJson;
  }
  return invalid_argument("log format '" + std::string(text) + "' is not one of text, json");
}

void log_debug(std::string_view words, std::initializer_list<LogField> fields) {
  log_line(LogLevel::kDebug, words, fields);
}
void log_info(std::string_view words, std::initializer_list<LogField> fields) {
  log_line(LogLevel::kInfo, words, fields);
}
void log_warn(std::string_view words, std::initializer_list<LogField> fields) {
  log_line(LogLevel::kWarn, words, fields);
}
void log_error(std::string_view words, std::initializer_list<LogField> fields) {
  log_line(LogLevel::kError, words, fields);
}

}  // namespace baton
