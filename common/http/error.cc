#include "common/http/error.h"

#include <algorithm>
#include <cstdint>

namespace baton::http {
namespace {

// They may quote what a client has sent.
constexpr size_t kLongestMessage = 1'000;
constexpr size_t kLongestName = 200;

// Length of the well-formed UTF-8 sequence at the front of `text`, 0 if there is none
// (Unicode 15, table 3-7).
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  size_t length = 0;
  uint8_t low = 0x80;  // bounds of the second byte
  uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    low = first == 0xE0 ? 0xA0 : 0x80;
    high = first == 0xED ? 0x9F : 0xBF;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    low = first == 0xF0 ? 0x90 : 0x80;
    high = first == 0xF4 ? 0x8F : 0xBF;
  }
  if (length == 0 || text.size() < length || byte(1) < low || byte(1) > high) {
    return 0;
  }
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) {
      return 0;
    }
  }
  return length;
}

void append_escape(std::string& out, uint32_t code) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) {
    out += kHex[(code >> shift) & 0xF];
  }
}

// ASCII that stands for itself in JSON.
bool is_plain(char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
    append_escape(out, static_cast<uint8_t>(c));
  } else {
    out += c;
  }
}

// At most so many bytes, without a part of a character at the end.
void append_shortened(std::string& out, std::string_view text, size_t most) {
  if (text.size() <= most) {
    append_json_string(out, text);
    return;
  }
  size_t end = most;
  while (end > most - 4 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  append_json_string(out, std::string(text.substr(0, end)) + "...");
}

void append_nullable(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_shortened(out, text, kLongestName);
  }
}

// Mistakes of the caller are told by type and param; the other labels say which part failed.
bool has_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnauthenticated:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
      return false;
    case StatusCode::kIncompatible:
    case StatusCode::kResourceExhausted:
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kUnavailable:
    case StatusCode::kWorkerLost:
    case StatusCode::kWorkerCrashed:
    case StatusCode::kInternal:
      return true;
  }
  return true;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + 2);
  out += '"';
  while (true) {
    const auto plain =
        static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_plain) - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) {
      break;
    }
    const size_t length = sequence_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      continue;
    }
    const std::string_view sequence = text.substr(0, length);
    text.remove_prefix(length);
    if (length == 1) {
      append_ascii(out, sequence[0]);
    } else if (sequence == "\xC2\x85") {
      append_escape(out, 0x85);
    } else if (sequence == "\xE2\x80\xA8") {
      append_escape(out, 0x2028);
    } else if (sequence == "\xE2\x80\xA9") {
      append_escape(out, 0x2029);
    } else {
      out += sequence;
    }
  }
  out += '"';
}

ApiError to_api_error(const Status& status, std::string_view param, std::string_view code) {
  const StatusCodeInfo& info = status_code_info(status.code());
  ApiError error;
  error.http_status = info.http_status;
  error.message = status.message();
  error.type = info.http_type;
  error.param = param;
  error.code = code;
  if (code.empty() && has_code(status.code())) {
    error.code = info.label;
  }
  return error;
}

std::string error_json(const ApiError& error) {
  std::string out = "{\"error\":{\"message\":";
  append_shortened(out, error.message, kLongestMessage);
  out += ",\"type\":";
  append_json_string(out, error.type);
  out += ",\"param\":";
  append_nullable(out, error.param);
  out += ",\"code\":";
  append_nullable(out, error.code);
  out += "}}";
  return out;
}

Response json_response(int status, std::string json) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.body = std::move(json);
  return response;
}

Response text_response(int status, std::string text) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", "text/plain; charset=utf-8");
  response.body = std::move(text);
  return response;
}

Response error_response(const ApiError& error, int retry_after_s) {
  Response response = json_response(error.http_status, error_json(error));
  if (error.http_status == 429 || error.http_status == 503) {
    response.headers.add("Retry-After", std::to_string(retry_after_s));
  }
  if (error.http_status == 401) {
    response.headers.add("WWW-Authenticate", "Bearer");
  }
  return response;
}

Response error_response(const Status& status, std::string_view param, std::string_view code) {
  return error_response(to_api_error(status, param, code));
}

}  // namespace baton::http
