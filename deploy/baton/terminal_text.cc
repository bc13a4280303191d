#include "deploy/baton/terminal_text.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <vector>

namespace baton::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_control(unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F; }

// U+0080 to U+009F are C2 80 to C2 9F.
bool is_wide_control(std::string_view text, size_t at) {
  return text[at] == '\xC2' && at + 1 < text.size() &&
         static_cast<unsigned char>(text[at + 1]) < 0xA0;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_wide_control(text, i)) {
      out += kReplacement;
      ++i;
    } else if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') {
      continue;
    } else if (is_control(static_cast<unsigned char>(text[i]))) {
      out += kReplacement;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out = printable(text);
  std::ranges::replace(out, '\n', ' ');
  std::ranges::replace(out, '\t', ' ');
  return out;
}

ScreenSize screen_size(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    return {};
  }
  return {size.ws_row, size.ws_col};
}

std::string fit_screen(std::string_view text, ScreenSize size) {
  const auto columns = static_cast<size_t>(std::max(size.columns, 1));
  const auto rows = static_cast<size_t>(std::max(size.rows, 1));
  std::vector<std::string_view> screen;
  for (std::string_view line : lines_of(text)) {
    do {
      screen.push_back(line.substr(0, columns));
      line.remove_prefix(std::min(columns, line.size()));
    } while (!line.empty());
  }
  if (screen.size() > rows) {
    screen.resize(rows);
    screen.back() = std::string_view("...").substr(0, columns);
  }
  std::string out;
  for (size_t i = 0; i < screen.size(); ++i) {
    out += i > 0 ? "\n" : "";
    out += screen[i];
  }
  return out;
}

}  // namespace baton::cli
