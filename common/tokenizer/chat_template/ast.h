#pragma once

// The syntax tree of a template. Immutable once parsed; shared by all renders.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Block = std::vector<std::unique_ptr<Statement>>;

enum class ExpressionKind : uint8_t {
  kConstant,     // constant
  kName,         // name
  kList,         // operands
  kTuple,        // operands
  kDict,         // operands: key, value, key, value ...
  kAttribute,    // operands[0].name
  kItem,         // operands[0][operands[1]]
  kSlice,        // operands[0][start:stop:step], operands 1..3, null when absent
  kCall,         // operands[0](arguments)
  kFilter,       // operands[0]|name(arguments); operands[0] is null at the head of a filter block
  kTest,         // operands[0] is name(arguments)
  kNot,          // operands[0]
  kNegate,       // operands[0]
  kPlus,         // operands[0]
  kAnd,          // operands[0], operands[1]
  kOr,           // operands[0], operands[1]
  kConditional,  // operands[0] if operands[1] else operands[2], which may be null
  kConcat,       // operands, as text
  kArithmetic,   // operands[0] op operands[1]
  kCompare,      // operands[0] ops[0] operands[1] ops[1] operands[2] ...
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct ArgumentExpressions {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr rest;        // *rest
  ExpressionPtr named_rest;  // **named_rest
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  int depth = 1;  // 1 + that of the deepest operand
  Value constant;
  std::string name;
  std::vector<ExpressionPtr> operands;
  std::vector<Operator> ops;
  std::unique_ptr<ArgumentExpressions> arguments;
};

// What `set` and `for` assign to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  int line = 0;
  std::string name;
  std::string attribute;  // of the namespace `name`, when not empty
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct MacroDefinition {
  std::string name;
  int line = 0;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Block body;
  // Which of the names that jinja2 fills in for a macro its body reads.
  bool reads_caller = false;
  bool reads_varargs = false;
  bool reads_kwargs = false;
};

enum class StatementKind : uint8_t {
  kText,         // text
  kPrint,        // expressions
  kIf,           // expressions[i] guards branches[i]; one more branch is the else
  kFor,          // target in expressions[0] if expressions[1]: body, else otherwise
  kSet,          // target = expressions[0]
  kSetBlock,     // target = body, through the filters of expressions[0] when there
  kMacro,        // macro
  kCallBlock,    // expressions[0] is a call; macro is its caller
  kFilterBlock,  // body through the filters of expressions[0]
  kWith,         // targets[i] = expressions[i] around body
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text;
  std::vector<ExpressionPtr> expressions;
  std::vector<Target> targets;
  Block body;
  Block otherwise;
  std::vector<Block> branches;
  std::unique_ptr<MacroDefinition> macro;
};

}  // namespace baton::chat_template
