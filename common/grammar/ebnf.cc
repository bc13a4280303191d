#include "common/grammar/ebnf.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/char_class.h"
#include "common/grammar/json_schema.h"
#include "common/grammar/regex.h"
#include "common/grammar/text_reader.h"
#include "common/tokenizer/utf8.h"

namespace baton::grammar {
namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9') || c == '-'; }

class EbnfReader {
 public:
  EbnfReader(std::string_view text, Expressions& out) : reader_(text), out_(out) {}

  Status read(std::span<const std::string> schemas) {
    rule_of("root");
    skip_space();
    while (!reader_.at_end()) {
      BATON_RETURN_IF_ERROR(definition());
      if (rules_.size() > kMaxEbnfRules) {
        return reader_.error("more than " + std::to_string(kMaxEbnfRules) + " rules");
      }
    }
    BATON_RETURN_IF_ERROR(define_schemas(schemas));
    for (const auto& [name, number] : rules_) {
      if (out_.rules()[static_cast<size_t>(number)] < 0) {
        return invalid_argument("the rule " + name + " is not defined");
      }
    }
    return Status();
  }

 private:
  Status define_schemas(std::span<const std::string> schemas) {
    if (schemas.empty()) {
      return Status();
    }
    JsonText parts(out_);
    for (size_t i = 0; i < schemas.size(); ++i) {
      const std::string name = "schema-" + std::to_string(i + 1);
      const int32_t rule = rule_of(name);
      if (out_.rules()[static_cast<size_t>(rule)] >= 0) {
        return invalid_argument("the rule " + name + " is defined twice");
      }
      BATON_RETURN_IF_ERROR(read_json_schema(schemas[i], rule, parts, out_));
    }
    return Status();
  }

  int32_t rule_of(const std::string& name) {
    const auto found = rules_.find(name);
    return found != rules_.end() ? found->second
                                 : rules_.emplace(name, out_.new_rule()).first->second;
  }

  void skip_space() {
    for (;;) {
      while (reader_.take(' ') || reader_.take('\t') || reader_.take('\n') || reader_.take('\r')) {
      }
      if (reader_.peek() != '#') {
        return;
      }
      while (!reader_.at_end() && reader_.peek() != '\n') {
        reader_.take_code_point();
      }
    }
  }

  std::string name() {
    std::string out;
    while (is_name_part(reader_.peek()) && !reader_.at_end()) {
      out += reader_.peek();
      reader_.take_code_point();
    }
    return out;
  }

  bool at_definition() {
    const size_t begin = reader_.position();
    const bool named = !name().empty();
    skip_space();
    const bool found = named && reader_.starts_with("::=");
    reader_.seek(begin);
    return found;
  }

  Status definition() {
    if (!is_name_start(reader_.peek()) || !at_definition()) {
      return reader_.error("no rule; a rule is written: name ::= ...");
    }
    const std::string rule = name();
    skip_space();
    reader_.take("::=");
    BATON_ASSIGN_OR_RETURN(const ExprId body, alternatives(0));
    const int32_t number = rule_of(rule);
    if (out_.rules()[static_cast<size_t>(number)] >= 0) {
      return invalid_argument("the rule " + rule + " is defined twice");
    }
    out_.define(number, body);
    return Status();
  }

  Result<ExprId> alternatives(int depth) {
    if (depth > kMaxEbnfDepth) {
      return reader_.error("parentheses nested deeper than " + std::to_string(kMaxEbnfDepth));
    }
    std::vector<ExprId> choices;
    do {
      BATON_ASSIGN_OR_RETURN(const ExprId choice, sequence(depth));
      choices.push_back(choice);
    } while (reader_.take('|'));
    return out_.alt(std::move(choices));
  }

  Result<ExprId> sequence(int depth) {
    std::vector<ExprId> parts;
    for (;;) {
      BATON_RETURN_IF_ERROR(out_.status());  // a full pool makes no sense of the rest
      skip_space();
      const char c = reader_.peek();
      if (reader_.at_end() || c == '|' || c == ')' || (is_name_start(c) && at_definition())) {
        return out_.concat(std::move(parts));
      }
      BATON_ASSIGN_OR_RETURN(const ExprId item, atom(depth));
      BATON_ASSIGN_OR_RETURN(const ExprId repeated, repeats(item));
      parts.push_back(repeated);
    }
  }

  Result<ExprId> atom(int depth) {
    const char c = reader_.peek();
    if (c == '"' || c == '\'') {
      reader_.take(c);
      return quoted(c);
    }
    if (reader_.take('[')) {
      BATON_ASSIGN_OR_RETURN(const std::vector<CodeRange> ranges, read_class(reader_));
      return out_.code_point(ranges);
    }
    if (reader_.take('.')) {
      return out_.code_point(complement({}));
    }
    if (reader_.take('(')) {
      BATON_ASSIGN_OR_RETURN(const ExprId body, alternatives(depth + 1));
      if (!reader_.take(')')) {
        return reader_.error("( without )");
      }
      return body;
    }
    if (is_name_start(c)) {
      return out_.rule(rule_of(name()));
    }
    return reader_.error("neither a rule, a text in quotes, a class in [ ] nor a group in ( )");
  }

  Result<ExprId> quoted(char quote) {
    std::string bytes;
    while (!reader_.take(quote)) {
      if (reader_.at_end() || reader_.peek() == '\n') {
        return reader_.error("a text without its closing quote");
      }
      char32_t point = 0;
      if (reader_.take('\\')) {
        BATON_ASSIGN_OR_RETURN(point, read_escape(reader_));
      } else {
        point = reader_.take_code_point();
      }
      tokenizer::append_utf8(bytes, point);
    }
    return out_.literal(bytes);
  }

  Result<ExprId> repeats(ExprId item) {
    for (int count = 0;; ++count) {
      if (count > kMaxRepeatMarks) {
        return reader_.error("too many repeats of a repeat");
      }
      if (reader_.take('*')) {
        item = out_.repeat(item, 0, -1);
      } else if (reader_.take('+')) {
        item = out_.repeat(item, 1, -1);
      } else if (reader_.take('?')) {
        item = out_.optional(item);
      } else if (reader_.take('{')) {
        BATON_ASSIGN_OR_RETURN(const auto bounds, reader_.take_bounds(kMaxRepeat));
        item = out_.repeat(item, bounds.first, bounds.second);
      } else {
        return item;
      }
    }
  }

  static constexpr int kMaxRepeatMarks = 4;

  TextReader reader_;
  Expressions& out_;
  std::map<std::string, int32_t> rules_;
};

}  // namespace

Status read_ebnf(std::string_view text, Expressions& out) {
  return read_ebnf_with_schemas(text, {}, out);
}

Status read_ebnf_with_schemas(std::string_view text, std::span<const std::string> schemas,
                              Expressions& out) {
  if (!tokenizer::is_valid_utf8(text)) {
    return invalid_argument("the grammar is not UTF-8");
  }
  return EbnfReader(text, out).read(schemas);
}

}  // namespace baton::grammar
