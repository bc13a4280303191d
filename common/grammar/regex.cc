#include "common/grammar/regex.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/grammar/char_class.h"
#include "common/grammar/text_reader.h"
#include "common/tokenizer/utf8.h"

namespace baton::grammar {
namespace {

class RegexReader {
 public:
  RegexReader(std::string_view text, const RegexOptions& options, Expressions& out)
      : reader_(text), options_(options), out_(out) {}

  Result<ExprId> read() {
    BATON_ASSIGN_OR_RETURN(const ExprId body, alternatives(0));
    if (!reader_.at_end()) {
      return reader_.error(") without (");
    }
    return body;
  }

 private:
  // One alternative of the outermost level may begin with ^ and end with $.
  Result<ExprId> alternatives(int depth) {
    if (depth > kMaxRegexDepth) {
      return reader_.error("parentheses nested deeper than " + std::to_string(kMaxRegexDepth));
    }
    std::vector<ExprId> choices;
    do {
      BATON_ASSIGN_OR_RETURN(const ExprId choice, sequence(depth));
      choices.push_back(choice);
    } while (reader_.take('|'));
    return out_.alt(std::move(choices));
  }

  ExprId any_text() { return out_.repeat(out_.code_point(complement({}), options_.form), 0, -1); }

  Result<ExprId> sequence(int depth) {
    const bool free_ends = depth == 0 && options_.match == RegexMatch::kPart;
    std::vector<ExprId> parts;
    const bool anchored = depth == 0 && reader_.take('^');
    if (free_ends && !anchored) {
      parts.push_back(any_text());
    }
    bool ended = false;
    while (!reader_.at_end() && reader_.peek() != '|' && reader_.peek() != ')') {
      BATON_RETURN_IF_ERROR(out_.status());  // a full pool makes no sense of the rest
      if (depth == 0 && reader_.peek() == '$' &&
          (reader_.peek(1) == '\0' || reader_.peek(1) == '|')) {
        reader_.take('$');
        ended = true;
        break;
      }
      BATON_ASSIGN_OR_RETURN(const ExprId item, atom(depth));
      BATON_ASSIGN_OR_RETURN(const ExprId repeated, repeats(item));
      parts.push_back(repeated);
    }
    if (free_ends && !ended) {
      parts.push_back(any_text());
    }
    return out_.concat(std::move(parts));
  }

  Result<ExprId> atom(int depth) {
    const char c = reader_.peek();
    if (c == '^' || c == '$') {
      return reader_.refuse(std::string(1, c) + " inside the expression");
    }
    if (c == '*' || c == '+' || c == '?') {
      return reader_.error(std::string(1, c) + " with nothing to repeat");
    }
    if (reader_.take('(')) {
      return group(depth);
    }
    if (reader_.take('[')) {
      BATON_ASSIGN_OR_RETURN(const std::vector<CodeRange> ranges, read_class(reader_));
      return out_.code_point(ranges, options_.form);
    }
    if (reader_.take('.')) {
      return out_.code_point(complement({{U'\n', U'\n'}}), options_.form);
    }
    char32_t point = 0;
    if (reader_.take('\\')) {
      if (const auto named = class_of(reader_.peek())) {
        reader_.take_code_point();
        return out_.code_point(*named, options_.form);
      }
      BATON_ASSIGN_OR_RETURN(point, read_escape(reader_));
    } else {
      point = reader_.take_code_point();
    }
    const CodeRange one[] = {{point, point}};
    return out_.code_point(one, options_.form);
  }

  Result<ExprId> group(int depth) {
    if (reader_.take('?')) {
      const bool named = reader_.take("P<") || (reader_.peek() == '<' && reader_.peek(1) != '=' &&
                                                reader_.peek(1) != '!' && reader_.take('<'));
      if (named) {
        while (!reader_.at_end() && reader_.peek() != '>') {
          reader_.take_code_point();
        }
        reader_.take('>');
      } else if (!reader_.take(':')) {
        return reader_.refuse("a group that begins with (?" + std::string(1, reader_.peek()));
      }
    }
    BATON_ASSIGN_OR_RETURN(const ExprId body, alternatives(depth + 1));
    if (!reader_.take(')')) {
      return reader_.error("( without )");
    }
    return body;
  }

  Result<ExprId> repeats(ExprId item) {
    int32_t min = 0;
    int32_t max = 0;
    if (reader_.take('*')) {
      max = -1;
    } else if (reader_.take('+')) {
      min = 1;
      max = -1;
    } else if (reader_.take('?')) {
      max = 1;
    } else if (reader_.peek() == '{' && reader_.peek(1) >= '0' && reader_.peek(1) <= '9') {
      reader_.take('{');
      BATON_ASSIGN_OR_RETURN(std::tie(min, max), reader_.take_bounds(kMaxRepeat));
    } else {
      return item;
    }
    if (reader_.peek() == '+') {
      return reader_.refuse("a possessive repeat");
    }
    reader_.take('?');  // a lazy repeat matches the same texts
    if (reader_.peek() == '*' || reader_.peek() == '?') {
      return reader_.error("a repeat of a repeat");
    }
    return out_.repeat(item, min, max);
  }

  TextReader reader_;
  const RegexOptions options_;
  Expressions& out_;
};

}  // namespace

Result<ExprId> read_regex(std::string_view text, const RegexOptions& options, Expressions& out) {
  if (!tokenizer::is_valid_utf8(text)) {
    return invalid_argument("the expression is not UTF-8");
  }
  return RegexReader(text, options, out).read();
}

}  // namespace baton::grammar
