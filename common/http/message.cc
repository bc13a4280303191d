#include "common/http/message.h"

#include <algorithm>

namespace baton::http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const Field& f) { return equals_ignoring_case(f.first, name); });
  fields_.emplace_back(std::string(name), std::move(value));
}

const std::string* Headers::find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (equals_ignoring_case(field.first, name)) {
      return &field.second;
    }
  }
  return nullptr;
}

std::string_view Headers::get(std::string_view name, std::string_view fallback) const {
  const std::string* value = find(name);
  return value != nullptr ? std::string_view(*value) : fallback;
}

size_t Headers::count(std::string_view name) const {
  return static_cast<size_t>(std::ranges::count_if(
      fields_, [&](const Field& f) { return equals_ignoring_case(f.first, name); }));
}

bool Headers::has_token(std::string_view name, std::string_view token) const {
  for (const Field& field : fields_) {
    if (!equals_ignoring_case(field.first, name)) {
      continue;
    }
    std::string_view rest = field.second;
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      if (equals_ignoring_case(trim(rest.substr(0, comma)), token)) {
        return true;
      }
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
  }
  return false;
}

std::string_view reason_phrase(int status) {
  struct Row {
    int status;
    std::string_view phrase;
  };
  static constexpr Row kRows[] = {
      {100, "Continue"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {411, "Length Required"},
      {413, "Payload Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Entity"},
      {424, "Failed Dependency"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
  };
  for (const Row& row : kRows) {
    if (row.status == status) {
      return row.phrase;
    }
  }
  return "Unknown";
}

}  // namespace baton::http
