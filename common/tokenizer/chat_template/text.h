#pragma once

// Python's string operations on UTF-8 text: positions count code points, whitespace and case follow
// Unicode whatever the locale.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::chat_template {

bool is_valid_utf8(std::string_view text);
// Preconditions of the rest: valid UTF-8.
size_t count_code_points(std::string_view text);
// Reads the code point at `at` and moves past it.
uint32_t next_code_point(std::string_view text, size_t& at);
void append_code_point(uint32_t code_point, std::string& out);
std::vector<uint32_t> to_code_points(std::string_view text);

bool is_space(uint32_t code_point);  // str.isspace
bool is_printable(uint32_t code_point);

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
std::string capitalize(std::string_view text);

enum class Side : uint8_t { kLeft, kRight, kBoth };
// Strips whitespace, or the code points of `chars` when given.
std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars);

// str.split and str.rsplit; max_splits < 0 is no limit. An absent separator splits at runs of
// whitespace and drops empty parts. A given one must not be empty.
std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t max_splits);
std::vector<std::string_view> rsplit(std::string_view text,
                                     std::optional<std::string_view> separator, int64_t max_splits);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
// At most `count` replacements when count >= 0.
std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count);

std::string float_repr(double value);            // repr(float): "1.0", "1e+16", "nan"
std::string string_repr(std::string_view text);  // repr(str)
std::string string_json(std::string_view text, bool ensure_ascii);  // json.dumps(str)
std::string escape_html(std::string_view text);                     // markupsafe.escape

}  // namespace baton::chat_template
