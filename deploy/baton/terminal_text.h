#pragma once

// Text on its way to a terminal.

#include <string>
#include <string_view>

namespace baton::cli {

// What a model or a server said, without what a terminal would obey: control characters other than
// line feed and tab become U+FFFD, those of Unicode (U+0080 to U+009F) too. A carriage return
// before a line feed is dropped. Looks at each piece alone: pieces are whole characters.
std::string printable(std::string_view text);

// The same on one line: line feeds and tabs become spaces.
std::string one_line(std::string_view text);

struct ScreenSize {
  int rows = 24;
  int columns = 80;
};
// Of the terminal behind `fd`; 24 x 80 when it does not tell.
ScreenSize screen_size(int fd);

// ASCII text (a table) as the lines of a screen: what is wider goes on in the next row, what is
// higher is cut, and the last row says so. No line feed at the end.
std::string fit_screen(std::string_view text, ScreenSize size);

}  // namespace baton::cli
