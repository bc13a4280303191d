#pragma once

// What the readers (JSON schema, regular expression, EBNF) make of their text: a pool of
// expressions over bytes, which automaton.h turns into states.
//
// Not thread-safe. Sizes are bounded: a pool that grew beyond kMaxExpressions keeps answering with
// the empty expression, and status() says so.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace baton::grammar {

// An inclusive range of Unicode code points.
struct CodeRange {
  char32_t low = 0;
  char32_t high = 0;
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};
inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

// Sorted, without overlaps, surrogates left out.
std::vector<CodeRange> normalized(std::vector<CodeRange> ranges);
std::vector<CodeRange> complement(std::vector<CodeRange> ranges);

using ExprId = int32_t;

struct Expression {
  enum class Kind : uint8_t {
    kEmpty,   // the empty text
    kBytes,   // one byte in [low, high]
    kConcat,  // children in order
    kAlt,     // any of the children; none: no text at all
    kRepeat,  // the child, min to max times; max -1 is no limit
    kRule,    // the rule number `rule`
  };
  Kind kind = Kind::kEmpty;
  uint8_t low = 0, high = 0;
  int32_t min = 0, max = 0;
  int32_t rule = 0;
  std::vector<ExprId> children;
};

// How code points are written in the output.
enum class TextForm : uint8_t {
  kPlain,       // UTF-8
  kJsonString,  // inside a JSON string: '"', '\' and control characters become escapes
};

class Expressions {
 public:
  static constexpr size_t kMaxExpressions = 100'000;

  Expressions() : pool_(1) {}

  const Expression& operator[](ExprId id) const { return pool_[static_cast<size_t>(id)]; }
  // resource_exhausted once the pool was full.
  Status status() const;

  ExprId empty() const { return 0; }
  ExprId byte_range(uint8_t low, uint8_t high);
  // These bytes.
  ExprId literal(std::string_view bytes);
  // One code point of `ranges`.
  ExprId code_point(std::span<const CodeRange> ranges, TextForm form = TextForm::kPlain);
  ExprId concat(std::vector<ExprId> children);
  ExprId alt(std::vector<ExprId> children);
  // One of these texts, as a tree over their common beginnings: however many there are, few of
  // them match at a time.
  ExprId any_of(std::vector<std::string> texts);
  // Precondition: 0 <= min; max is -1 or >= min.
  ExprId repeat(ExprId child, int32_t min, int32_t max);
  ExprId optional(ExprId child) { return repeat(child, 0, 1); }

  // Rules may be referred to before they are defined.
  int32_t new_rule();
  void define(int32_t rule, ExprId body) { rules_[static_cast<size_t>(rule)] = body; }
  ExprId rule(int32_t rule);
  std::span<const ExprId> rules() const { return rules_; }  // -1 for an undefined one

 private:
  ExprId add(Expression expression);
  ExprId tree(std::span<const std::string> texts, size_t depth);
  void add_utf8(CodeRange range, std::vector<ExprId>& out);
  std::vector<CodeRange> add_escaped(const std::vector<CodeRange>& ranges,
                                     std::vector<ExprId>& out);
  void add_json_escapes(char32_t low, char32_t high, std::vector<ExprId>& out);

  std::vector<Expression> pool_;
  std::vector<ExprId> rules_;
  bool full_ = false;
};

}  // namespace baton::grammar
