#include "common/tokenizer/chat_template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/tokenizer/chat_template/string_literal.h"
#include "common/tokenizer/chat_template/text.h"

namespace baton::chat_template {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// "\r\n" and "\r" become "\n"; one trailing newline goes.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) {
    out.pop_back();
  }
  return out;
}

enum class Tag : uint8_t { kBlock, kVariable };

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      BATON_RETURN_IF_ERROR(root());
    }
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts_with(std::string_view text) const { return rest().starts_with(text); }

  void advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count),
                                         '\n'));
    at_ += count;
  }

  void push(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  // Skips Unicode whitespace.
  size_t space_after(size_t from) const {
    size_t at = from;
    while (at < source_.size()) {
      size_t next = at;
      if (!is_space(next_code_point(source_, next))) {
        break;
      }
      at = next;
    }
    return at - from;
  }

  size_t find_tag() const {
    size_t at = at_;
    while ((at = source_.find('{', at)) != std::string::npos) {
      if (at + 1 < source_.size() &&
          (source_[at + 1] == '%' || source_[at + 1] == '{' || source_[at + 1] == '#')) {
        return at;
      }
      ++at;
    }
    return std::string::npos;
  }

  // The text before a tag, cut as the tag's sign and lstrip_blocks ask for.
  std::string_view before_tag(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') {
      return strip(text, Side::kRight, std::nullopt);
    }
    if (sign == '+' || is_variable) {
      return text;
    }
    const size_t newline = text.rfind('\n');
    const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_start == 0 && !at_line_start_) {
      return text;
    }
    const bool blank = strip(text.substr(line_start), Side::kBoth, std::nullopt).empty();
    return blank ? text.substr(0, line_start) : text;
  }

  void push_data(std::string_view text) {
    if (!text.empty()) {
      push(TokenKind::kData, std::string(text));
    }
  }

  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : ' ';
  }

  // The length of "raw %}" after an opening "{%", 0 when it is another tag.
  size_t raw_length(size_t from) const {
    size_t at = from + space_after(from);
    if (!std::string_view(source_).substr(at).starts_with("raw")) {
      return 0;
    }
    at += 3;
    at += space_after(at);
    const std::string_view tail = std::string_view(source_).substr(at);
    if (tail.starts_with("-%}")) {
      return at + 3 + space_after(at + 3) - from;
    }
    return tail.starts_with("%}") ? at + 2 - from : 0;
  }

  Status root() {
    const size_t tag = find_tag();
    if (tag == std::string::npos) {
      push_data(rest());
      advance(source_.size() - at_);
      return {};
    }
    const char type = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    push_data(before_tag(rest().substr(0, tag - at_), sign, type == '{'));
    advance(tag - at_);
    advance(sign == ' ' ? 2 : 3);
    at_line_start_ = false;
    if (type == '#') {
      return comment();
    }
    if (const size_t raw = type == '%' ? raw_length(at_) : 0; raw > 0) {
      advance(raw);
      at_line_start_ = source_[at_ - 1] == '\n';
      return raw_block();
    }
    push(type == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
    return inside(type == '%' ? Tag::kBlock : Tag::kVariable);
  }

  // At an end tag ("%}", "#}"): its length with what it eats behind it, or 0.
  size_t end_length(size_t at, std::string_view end, bool is_block) const {
    const std::string_view text = std::string_view(source_).substr(at);
    if (text.starts_with(end)) {
      const bool eats = is_block && text.substr(end.size()).starts_with('\n');
      return end.size() + (eats ? 1 : 0);
    }
    if (text.empty() || !text.substr(1).starts_with(end)) {
      return 0;
    }
    if (text[0] == '-') {
      return 1 + end.size() + space_after(at + 1 + end.size());
    }
    return text[0] == '+' && is_block ? 1 + end.size() : 0;
  }

  Status comment() {
    for (size_t at = at_; at < source_.size(); ++at) {
      if (const size_t length = end_length(at, "#}", true); length > 0) {
        advance(at + length - at_);
        at_line_start_ = source_[at_ - 1] == '\n';
        return {};
      }
    }
    return syntax_error(line_, "Missing end of comment tag");
  }

  Status raw_block() {
    size_t at = at_;
    while ((at = source_.find("{%", at)) != std::string::npos) {
      const char sign = sign_at(at + 2);
      size_t end = at + (sign == ' ' ? 2 : 3);
      end += space_after(end);
      if (std::string_view(source_).substr(end).starts_with("endraw")) {
        end += 6;
        end += space_after(end);
        if (const size_t length = end_length(end, "%}", true); length > 0) {
          push_data(before_tag(rest().substr(0, at - at_), sign, false));
          advance(end + length - at_);
          at_line_start_ = source_[at_ - 1] == '\n';
          return {};
        }
      }
      ++at;
    }
    return syntax_error(line_, "Missing end of raw directive");
  }

  Status inside(Tag tag) {
    const bool is_block = tag == Tag::kBlock;
    std::vector<char> open;
    while (at_ < source_.size()) {
      const size_t end = open.empty() ? end_length(at_, is_block ? "%}" : "}}", is_block) : 0;
      if (end > 0) {
        push(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
        advance(end);
        at_line_start_ = source_[at_ - 1] == '\n';
        return {};
      }
      if (const size_t space = space_after(at_); space > 0) {
        advance(space);
        continue;
      }
      BATON_RETURN_IF_ERROR(token(open));
    }
    return syntax_error(line_, "unexpected end of template inside a tag");
  }

  Status token(std::vector<char>& open) {
    const char c = source_[at_];
    if (is_digit(c)) {
      return number();
    }
    if (is_word(c)) {
      size_t end = at_;
      while (end < source_.size() && is_word(source_[end])) {
        ++end;
      }
      push(TokenKind::kName, source_.substr(at_, end - at_));
      advance(end - at_);
      return {};
    }
    if (c == '\'' || c == '"') {
      return string(c);
    }
    if (static_cast<unsigned char>(c) >= 0x80) {
      return unsupported_syntax(line_, "a name with letters beyond ASCII");
    }
    return operation(open);
  }

  Status string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) {
      return syntax_error(line_,
                          std::string("unexpected char ") + quote + ": the string has no end");
    }
    Result<std::string> value =
        unescape_literal(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
    if (!value.ok()) {
      return syntax_error(line_, value.status().message());
    }
    push(TokenKind::kString, std::move(value).value());
    advance(end + 1 - at_);
    return {};
  }

  // Digits with single underscores between them, from `at`.
  size_t digits_end(size_t at) const {
    while (at < source_.size() && is_digit(source_[at])) {
      ++at;
      if (at + 1 < source_.size() && source_[at] == '_' && is_digit(source_[at + 1])) {
        ++at;
      }
    }
    return at;
  }

  Status number() {
    const size_t whole = digits_end(at_);
    size_t end = whole;
    bool is_real = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end = digits_end(end + 1);
      is_real = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      exponent += exponent < source_.size() && sign_at(exponent) != ' ' ? 1 : 0;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        end = digits_end(exponent);
        is_real = true;
      }
    }
    // jinja2 reads "a.1.2" as two items: no float right behind a dot.
    if (is_real && at_ > 0 && source_[at_ - 1] == '.') {
      is_real = false;
      end = whole;
    }
    return is_real ? real(end) : integer(whole);
  }

  Status real(size_t end) {
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    Token token;
    token.kind = TokenKind::kFloat;
    token.line = line_;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
    if (parsed.ec != std::errc()) {
      return unsupported_syntax(line_, "the number " + digits);
    }
    tokens_.push_back(std::move(token));
    advance(end - at_);
    return {};
  }

  Status integer(size_t end) {
    int base = 10;
    size_t start = at_;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char mark = static_cast<char>(source_[at_ + 1] | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      if (base != 10) {
        start = at_ + 2;
        end = start;
        while (end < source_.size() && is_word(source_[end])) {
          ++end;
        }
      }
    }
    std::string digits = source_.substr(start, end - start);
    std::erase(digits, '_');
    if (base == 10 && digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of('0') != std::string::npos) {
      return syntax_error(line_, "an integer does not start with 0: " + digits);
    }
    Token token;
    token.kind = TokenKind::kInteger;
    token.line = line_;
    const char* last = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), last, token.integer, base);
    if (parsed.ec != std::errc() || parsed.ptr != last) {
      return unsupported_syntax(line_, "the number " + digits);
    }
    tokens_.push_back(std::move(token));
    advance(end - at_);
    return {};
  }

  Status balance(char c, std::vector<char>& open) {
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      return {};
    }
    if (c != ')' && c != ']' && c != '}') {
      return {};
    }
    if (open.empty()) {
      return syntax_error(line_, std::string("unexpected '") + c + "'");
    }
    const char expected = open.back();
    open.pop_back();
    if (c != expected) {
      return syntax_error(line_,
                          std::string("unexpected '") + c + "', expected '" + expected + "'");
    }
    return {};
  }

  Status operation(std::vector<char>& open) {
    constexpr std::array<std::string_view, 6> kPairs = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view pair : kPairs) {
      if (starts_with(pair)) {
        push(TokenKind::kOperator, std::string(pair));
        advance(2);
        return {};
      }
    }
    const char c = source_[at_];
    if (kSingles.find(c) == std::string_view::npos) {
      return syntax_error(line_, "unexpected char " + string_repr(std::string_view(&c, 1)));
    }
    BATON_RETURN_IF_ERROR(balance(c, open));
    push(TokenKind::kOperator, std::string(1, c));
    advance(1);
    return {};
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Status syntax_error(int line, std::string_view message) {
  return invalid_argument("chat template line " + std::to_string(line) + ": " +
                          std::string(message));
}

Status unsupported_syntax(int line, std::string_view what) {
  return unsupported("chat template line " + std::to_string(line) + ": " + std::string(what) +
                     " is not supported");
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalize(source)).run();
}

}  // namespace baton::chat_template
