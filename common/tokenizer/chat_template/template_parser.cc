#include <algorithm>
#include <array>
#include <initializer_list>

#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/parser.h"
#include "common/tokenizer/chat_template/text.h"

namespace baton::chat_template {
namespace {

using Ends = std::initializer_list<std::string_view>;
using StatementPtr = std::unique_ptr<Statement>;

constexpr std::array<std::string_view, 8> kRefusedTags = {
    "include", "import", "from", "extends", "block", "autoescape", "print", "trans"};

class TemplateParser {
 public:
  explicit TemplateParser(std::vector<Token> tokens)
      : stream_(std::move(tokens)), expressions_(stream_, state_) {}

  Result<Block> run() {
    BATON_ASSIGN_OR_RETURN(Block block, statements({}));
    return block;
  }

 private:
  StatementPtr make(StatementKind kind) const {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = stream_.line();
    return statement;
  }

  // Statements up to a tag of `ends`, which is left as the current token; to the end of the
  // template when there is none.
  Result<Block> statements(Ends ends) {
    Block block;
    while (true) {
      const Token& token = stream_.current();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) {
          return syntax_error(token.line, "unexpected end of template, expected '" +
                                              std::string(*(ends.end() - 1)) + "'");
        }
        return block;
      }
      if (token.kind == TokenKind::kData) {
        StatementPtr text = make(StatementKind::kText);
        text->text = token.text;
        stream_.skip();
        block.push_back(std::move(text));
        continue;
      }
      if (token.kind == TokenKind::kVariableBegin) {
        BATON_ASSIGN_OR_RETURN(StatementPtr print, variable());
        block.push_back(std::move(print));
        continue;
      }
      stream_.skip();  // the block's begin
      if (std::any_of(ends.begin(), ends.end(),
                      [&](std::string_view end) { return stream_.current().is_name(end); })) {
        return block;
      }
      BATON_ASSIGN_OR_RETURN(StatementPtr next, nested_statement());
      block.push_back(std::move(next));
      BATON_RETURN_IF_ERROR(stream_.expect(TokenKind::kBlockEnd, "end of statement block"));
    }
  }

  // The body behind a tag's end, up to a tag of `ends`.
  Result<Block> body(Ends ends) {
    stream_.skip_operator(":");
    BATON_RETURN_IF_ERROR(stream_.expect(TokenKind::kBlockEnd, "end of statement block"));
    return statements(ends);
  }

  // The same, and past the tag.
  Result<Block> whole_body(std::string_view end) {
    BATON_ASSIGN_OR_RETURN(Block block, body({end}));
    stream_.skip();
    return block;
  }

  Result<StatementPtr> variable() {
    StatementPtr print = make(StatementKind::kPrint);
    stream_.skip();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.tuple(true, "", false));
    print->expressions.push_back(std::move(value));
    BATON_RETURN_IF_ERROR(stream_.expect(TokenKind::kVariableEnd, "end of print statement"));
    return print;
  }

  Result<StatementPtr> nested_statement() {
    if (++state_.depth > kMaxSyntaxDepth) {
      return syntax_error(stream_.line(), "blocks nest too deep");
    }
    Result<StatementPtr> statement = tag();
    --state_.depth;
    return statement;
  }

  Result<StatementPtr> tag() {
    const int line = stream_.line();
    BATON_ASSIGN_OR_RETURN(const std::string name, stream_.expect_name());
    if (name == "if") {
      return if_tag();
    }
    if (name == "for") {
      return for_tag();
    }
    if (name == "set") {
      return set_tag();
    }
    if (name == "macro") {
      return macro_tag();
    }
    if (name == "call") {
      return call_tag();
    }
    if (name == "filter") {
      StatementPtr statement = make(StatementKind::kFilterBlock);
      BATON_ASSIGN_OR_RETURN(ExpressionPtr chain, expressions_.filter_chain(true));
      statement->expressions.push_back(std::move(chain));
      BATON_ASSIGN_OR_RETURN(statement->body, whole_body("endfilter"));
      return statement;
    }
    if (name == "with") {
      return with_tag();
    }
    if (name == "generation") {
      // Marks what the assistant says, for training; here only a scope.
      StatementPtr statement = make(StatementKind::kWith);
      BATON_ASSIGN_OR_RETURN(statement->body, whole_body("endgeneration"));
      return statement;
    }
    if (name == "break" || name == "continue") {
      return loop_control(name, line);
    }
    const bool refused =
        std::find(kRefusedTags.begin(), kRefusedTags.end(), name) != kRefusedTags.end();
    return refused ? unsupported_syntax(line, "the tag '" + name + "'")
                   : syntax_error(line, "Encountered unknown tag '" + name + "'.");
  }

  Result<StatementPtr> loop_control(const std::string& name, int line) {
    if (loops_ == 0) {
      return syntax_error(line, "'" + name + "' outside loop");
    }
    return make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
  }

  Result<StatementPtr> if_tag() {
    StatementPtr statement = make(StatementKind::kIf);
    while (true) {
      BATON_ASSIGN_OR_RETURN(ExpressionPtr condition, expressions_.tuple(false, "", false));
      statement->expressions.push_back(std::move(condition));
      BATON_ASSIGN_OR_RETURN(Block branch, body({"elif", "else", "endif"}));
      statement->branches.push_back(std::move(branch));
      if (!stream_.skip_name("elif")) {
        break;
      }
    }
    if (stream_.skip_name("else")) {
      BATON_ASSIGN_OR_RETURN(Block branch, body({"endif"}));
      statement->branches.push_back(std::move(branch));
    }
    stream_.skip();  // endif
    return statement;
  }

  Result<StatementPtr> for_tag() {
    StatementPtr statement = make(StatementKind::kFor);
    BATON_ASSIGN_OR_RETURN(Target target, targets("in", false));
    statement->targets.push_back(std::move(target));
    if (!stream_.skip_name("in")) {
      return stream_.unexpected();
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr iterable, expressions_.tuple(false, "recursive", false));
    statement->expressions.push_back(std::move(iterable));
    if (stream_.skip_name("if")) {
      BATON_ASSIGN_OR_RETURN(ExpressionPtr condition, expressions_.expression());
      statement->expressions.push_back(std::move(condition));
    }
    if (stream_.current().is_name("recursive")) {
      return unsupported_syntax(stream_.line(), "a recursive loop");
    }
    ++loops_;
    Result<Block> inner = body({"endfor", "else"});
    --loops_;
    if (!inner.ok()) {
      return inner.status();
    }
    statement->body = std::move(inner).value();
    if (stream_.skip_name("else")) {
      BATON_ASSIGN_OR_RETURN(statement->otherwise, body({"endfor"}));
    }
    stream_.skip();  // endfor
    return statement;
  }

  Result<StatementPtr> set_tag() {
    StatementPtr statement = make(StatementKind::kSet);
    BATON_ASSIGN_OR_RETURN(Target target, targets("", true));
    statement->targets.push_back(std::move(target));
    if (stream_.skip_operator("=")) {
      BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.tuple(true, "", false));
      statement->expressions.push_back(std::move(value));
      return statement;
    }
    statement->kind = StatementKind::kSetBlock;
    if (stream_.current().is_operator("|")) {
      BATON_ASSIGN_OR_RETURN(ExpressionPtr chain, expressions_.filter_chain(false));
      statement->expressions.push_back(std::move(chain));
    }
    BATON_ASSIGN_OR_RETURN(statement->body, whole_body("endset"));
    return statement;
  }

  Result<StatementPtr> with_tag() {
    StatementPtr statement = make(StatementKind::kWith);
    while (stream_.current().kind != TokenKind::kBlockEnd) {
      if (!statement->targets.empty()) {
        BATON_RETURN_IF_ERROR(stream_.expect_operator(","));
      }
      BATON_ASSIGN_OR_RETURN(Target target, single_target(false));
      statement->targets.push_back(std::move(target));
      BATON_RETURN_IF_ERROR(stream_.expect_operator("="));
      BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.expression());
      statement->expressions.push_back(std::move(value));
    }
    BATON_ASSIGN_OR_RETURN(statement->body, whole_body("endwith"));
    return statement;
  }

  // "(a, b=1)", with the parenthesis as the current token.
  Status signature(MacroDefinition& macro) {
    BATON_RETURN_IF_ERROR(stream_.expect_operator("("));
    while (!stream_.current().is_operator(")")) {
      if (!macro.parameters.empty()) {
        BATON_RETURN_IF_ERROR(stream_.expect_operator(","));
      }
      const int line = stream_.line();
      BATON_ASSIGN_OR_RETURN(std::string parameter, stream_.expect_name());
      macro.parameters.push_back(std::move(parameter));
      if (stream_.skip_operator("=")) {
        BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.expression());
        macro.defaults.push_back(std::move(value));
      } else if (!macro.defaults.empty()) {
        return syntax_error(line, "non-default argument follows default argument");
      }
    }
    return stream_.expect_operator(")");
  }

  Status macro_body(MacroDefinition& macro, std::string_view end) {
    const int outer_loops = std::exchange(loops_, 0);
    state_.macros.push_back(&macro);
    Result<Block> block = whole_body(end);
    state_.macros.pop_back();
    loops_ = outer_loops;
    if (!block.ok()) {
      return block.status();
    }
    macro.body = std::move(block).value();
    return {};
  }

  Result<StatementPtr> macro_tag() {
    StatementPtr statement = make(StatementKind::kMacro);
    statement->macro = std::make_unique<MacroDefinition>();
    MacroDefinition& macro = *statement->macro;
    macro.line = statement->line;
    BATON_ASSIGN_OR_RETURN(macro.name, stream_.expect_name());
    BATON_RETURN_IF_ERROR(signature(macro));
    BATON_RETURN_IF_ERROR(macro_body(macro, "endmacro"));
    return statement;
  }

  Result<StatementPtr> call_tag() {
    StatementPtr statement = make(StatementKind::kCallBlock);
    statement->macro = std::make_unique<MacroDefinition>();
    statement->macro->name = "caller";
    statement->macro->line = statement->line;
    if (stream_.current().is_operator("(")) {
      BATON_RETURN_IF_ERROR(signature(*statement->macro));
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr call, expressions_.expression());
    if (call->kind != ExpressionKind::kCall) {
      return syntax_error(statement->line, "expected call");
    }
    statement->expressions.push_back(std::move(call));
    BATON_RETURN_IF_ERROR(macro_body(*statement->macro, "endcall"));
    return statement;
  }

  // "a", "a, b", "(a, b), c"; `end` is the name that follows.
  Result<Target> targets(std::string_view end, bool with_namespace) {
    Target tuple;
    tuple.line = stream_.line();
    while (true) {
      BATON_ASSIGN_OR_RETURN(Target part, single_target(with_namespace));
      tuple.parts.push_back(std::move(part));
      if (!stream_.skip_operator(",")) {
        break;
      }
      tuple.is_tuple = true;
      const Token& token = stream_.current();
      if (token.kind == TokenKind::kBlockEnd || token.is_operator("=") || token.is_operator(")") ||
          (!end.empty() && token.is_name(end))) {
        break;
      }
    }
    if (!tuple.is_tuple) {
      return Target(std::move(tuple.parts[0]));
    }
    return tuple;
  }

  Result<Target> single_target(bool with_namespace) {
    const int line = stream_.line();
    if (++state_.depth > kMaxSyntaxDepth) {
      return syntax_error(line, "targets nest too deep");
    }
    Target target;
    target.line = line;
    if (stream_.skip_operator("(")) {
      BATON_ASSIGN_OR_RETURN(target, targets("", with_namespace));
      BATON_RETURN_IF_ERROR(stream_.expect_operator(")"));
      --state_.depth;
      return target;
    }
    BATON_ASSIGN_OR_RETURN(target.name, stream_.expect_name());
    constexpr std::array<std::string_view, 6> kConstants = {"true",  "True", "false",
                                                            "False", "none", "None"};
    if (std::find(kConstants.begin(), kConstants.end(), target.name) != kConstants.end()) {
      return syntax_error(line, "can't assign to 'const'");
    }
    if (with_namespace && stream_.skip_operator(".")) {
      BATON_ASSIGN_OR_RETURN(target.attribute, stream_.expect_name());
    }
    --state_.depth;
    return target;
  }

  TokenStream stream_;
  ParseState state_;
  ExpressionParser expressions_;
  int loops_ = 0;
};

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template data";
    case TokenKind::kVariableBegin:
    case TokenKind::kBlockBegin:
      return "begin of a tag";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kName:
    case TokenKind::kOperator:
      return token.text;
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return "number";
    case TokenKind::kEnd:
      return "end of template";
  }
  return "";
}

}  // namespace

bool TokenStream::skip_name(std::string_view name) {
  if (!current().is_name(name)) {
    return false;
  }
  skip();
  return true;
}

bool TokenStream::skip_operator(std::string_view op) {
  if (!current().is_operator(op)) {
    return false;
  }
  skip();
  return true;
}

Status TokenStream::expect_operator(std::string_view op) {
  return skip_operator(op) ? Status()
                           : syntax_error(line(), "expected token '" + std::string(op) +
                                                      "', got '" + describe(current()) + "'");
}

Status TokenStream::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) {
    return syntax_error(
        line(), "expected token '" + std::string(what) + "', got '" + describe(current()) + "'");
  }
  skip();
  return {};
}

Result<std::string> TokenStream::expect_name() {
  if (current().kind != TokenKind::kName) {
    return syntax_error(line(), "expected token 'name', got '" + describe(current()) + "'");
  }
  std::string name = current().text;
  skip();
  return name;
}

Status TokenStream::unexpected() const {
  return syntax_error(line(), "unexpected '" + describe(current()) + "'");
}

Result<Block> parse_template(std::string_view source) {
  BATON_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  return TemplateParser(std::move(tokens)).run();
}

}  // namespace baton::chat_template
