#include "common/tokenizer/chat_template/strftime.h"

#include <array>

namespace baton::chat_template {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};

std::string padded(int64_t value, size_t width, char fill = '0') {
  std::string digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), fill) + digits : digits;
}

struct Parts {
  int64_t year;
  unsigned month;
  unsigned day;
  unsigned weekday;  // Sunday is 0
  int64_t day_of_year;
  int64_t hour;
  int64_t minute;
  int64_t second;
};

Parts parts_of(std::chrono::sys_seconds time) {
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss clock(time - days);
  const auto new_year = std::chrono::sys_days(date.year() / std::chrono::January / 1);
  return {static_cast<int>(date.year()),     static_cast<unsigned>(date.month()),
          static_cast<unsigned>(date.day()), std::chrono::weekday(days).c_encoding(),
          (days - new_year).count() + 1,     clock.hours().count(),
          clock.minutes().count(),           clock.seconds().count()};
}

// False for a directive that is not known.
bool append_directive(char directive, const Parts& t, std::string& out) {
  const int64_t hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  switch (directive) {
    case 'Y':
      out += std::to_string(t.year);
      return true;
    case 'y':
      out += padded(t.year % 100, 2);
      return true;
    case 'm':
      out += padded(t.month, 2);
      return true;
    case 'B':
      out += kMonths[t.month - 1];
      return true;
    case 'b':
    case 'h':
      out += kMonths[t.month - 1].substr(0, 3);
      return true;
    case 'd':
      out += padded(t.day, 2);
      return true;
    case 'e':
      out += padded(t.day, 2, ' ');
      return true;
    case 'A':
      out += kDays[t.weekday];
      return true;
    case 'a':
      out += kDays[t.weekday].substr(0, 3);
      return true;
    case 'j':
      out += padded(t.day_of_year, 3);
      return true;
    case 'H':
      out += padded(t.hour, 2);
      return true;
    case 'I':
      out += padded(hour12, 2);
      return true;
    case 'M':
      out += padded(t.minute, 2);
      return true;
    case 'S':
      out += padded(t.second, 2);
      return true;
    case 'p':
      out += t.hour < 12 ? "AM" : "PM";
      return true;
    case 'F':
      out += std::to_string(t.year) + "-" + padded(t.month, 2) + "-" + padded(t.day, 2);
      return true;
    case 'T':
      out += padded(t.hour, 2) + ":" + padded(t.minute, 2) + ":" + padded(t.second, 2);
      return true;
    case 'Z':  // a naive time has no zone
    case 'z':
      return true;
    case '%':
      out += '%';
      return true;
    default:
      return false;
  }
}

// glibc's "%-d": no padding.
bool append_unpadded(char directive, const Parts& t, std::string& out) {
  switch (directive) {
    case 'd':
      out += std::to_string(t.day);
      return true;
    case 'm':
      out += std::to_string(t.month);
      return true;
    case 'H':
      out += std::to_string(t.hour);
      return true;
    case 'I':
      out += std::to_string(t.hour % 12 == 0 ? 12 : t.hour % 12);
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<std::string> format_time(std::string_view format, std::chrono::sys_seconds time) {
  const Parts parts = parts_of(time);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const bool unpadded = i + 2 < format.size() && format[i + 1] == '-';
    i += unpadded ? 2 : 1;
    const char directive = i < format.size() ? format[i] : '\0';
    const bool known =
        unpadded ? append_unpadded(directive, parts, out) : append_directive(directive, parts, out);
    if (!known) {
      return unsupported("chat template: strftime_now with '" + std::string(format) +
                         "' is not supported");
    }
  }
  return out;
}

}  // namespace baton::chat_template
