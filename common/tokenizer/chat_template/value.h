#pragma once

// The values that a template computes with, after Python's. Copies are cheap: strings, lists and
// dicts are shared and never change (jinja2's immutable sandbox forbids templates to change them).
// Only namespaces change; they, macros, loops and generators live in the Runtime of one render, and
// a Value that names one must not outlive it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"

namespace baton::chat_template {

class Value;
struct Dict;
struct Generator;
struct Loop;
struct Macro;
struct Namespace;
using List = std::vector<Value>;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kNamespace,
  kLoop,       // the variable `loop`
  kGenerator,  // what map, select and their kin give: can be walked once
  kMacro,
  kBuiltin,  // a global function
  kMethod,   // a method with its object
};

enum class Builtin : uint8_t { kRaiseException, kStrftimeNow, kRange, kNamespace, kDict };

struct Sequence {
  List items;
  int depth = 1;  // 1 + that of the deepest item
};

struct Method {
  std::shared_ptr<const Value> self;
  std::string name;
};

class Value {
 public:
  Value() = default;  // undefined, without a reason
  // `message` says why, for the error that a use of it gives: "'x' is undefined".
  static Value undefined(std::string message);
  static Value none() { return Value(Rep(std::in_place_index<1>)); }
  static Value boolean(bool v) { return Value(Rep(std::in_place_index<2>, v)); }
  static Value integer(int64_t v) { return Value(Rep(std::in_place_index<3>, v)); }
  static Value real(double v) { return Value(Rep(std::in_place_index<4>, v)); }
  static Value string(std::string v);
  static Value of(Namespace* v) { return Value(Rep(std::in_place_index<9>, v)); }
  static Value of(Loop* v) { return Value(Rep(std::in_place_index<10>, v)); }
  static Value of(Generator* v) { return Value(Rep(std::in_place_index<11>, v)); }
  static Value of(const Macro* v) { return Value(Rep(std::in_place_index<12>, v)); }
  static Value of(Builtin v) { return Value(Rep(std::in_place_index<13>, v)); }
  static Value method(Value self, std::string name);

  Kind kind() const { return static_cast<Kind>(rep_.index()); }
  bool is(Kind k) const { return kind() == k; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_string() const { return is(Kind::kString); }
  // Bool, int or float; a bool counts as 0 or 1 wherever a number is meant.
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat); }
  bool is_integral() const { return is(Kind::kBool) || is(Kind::kInt); }
  bool is_sequence() const { return is(Kind::kList) || is(Kind::kTuple); }

  // Each asks for its kind.
  std::string_view undefined_message() const;
  bool as_bool() const { return std::get<2>(rep_); }
  int64_t as_int() const { return is(Kind::kBool) ? int64_t{as_bool()} : std::get<3>(rep_); }
  double as_real() const {
    return is(Kind::kFloat) ? std::get<4>(rep_) : static_cast<double>(as_int());
  }
  const std::string& as_string() const { return *std::get<5>(rep_); }
  const List& items() const;  // of a list or tuple
  const Dict& as_dict() const { return *std::get<8>(rep_); }
  Namespace& as_namespace() const { return *std::get<9>(rep_); }
  Loop& as_loop() const { return *std::get<10>(rep_); }
  Generator& as_generator() const { return *std::get<11>(rep_); }
  const Macro& as_macro() const { return *std::get<12>(rep_); }
  Builtin as_builtin() const { return std::get<13>(rep_); }
  const Method& as_method() const { return *std::get<14>(rep_); }

  int depth() const;  // 0 for anything but list, tuple, dict

 private:
  friend Result<Value> make_list(List items);
  friend Result<Value> make_tuple(List items);
  friend Result<Value> make_dict(Dict dict);

  struct NoneTag {};
  // The order is that of Kind.
  using Rep = std::variant<std::shared_ptr<const std::string>, NoneTag, bool, int64_t, double,
                           std::shared_ptr<const std::string>, std::shared_ptr<const Sequence>,
                           std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Namespace*,
                           Loop*, Generator*, const Macro*, Builtin, std::shared_ptr<const Method>>;
  explicit Value(Rep rep) : rep_(std::move(rep)) {}

  Rep rep_;
};

// Ordered by insertion. Keys are hashable values; equal keys (1, 1.0, true) are one key.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;

  // Null when absent. Constant time.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces the value of an equal key, in its place. `key` must be hashable.
  void set(Value key, Value value);

 private:
  std::unordered_map<std::string, size_t> index_;  // canonical text of the key -> entry
};

// Whether a dict can have it as a key: undefined, none, bool, number, string, tuple of such.
bool is_hashable(const Value& value);

// invalid_argument when the result would nest deeper than kMaxValueDepth.
Result<Value> make_list(List items);
Result<Value> make_tuple(List items);
Result<Value> make_dict(Dict dict);

// Python's name of the type: "str", "NoneType".
std::string_view type_name(const Value& value);
// jinja2's name of it in messages: "dict object", "None".
std::string object_name(const Value& value);

}  // namespace baton::chat_template
