#pragma once

// Arguments of a call, and how a function of ours reads them by Python's rules.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
};

// One slot per parameter, null where nothing was given.
class BoundArguments {
 public:
  // Arguments in the order of `parameters`; the first `required` must be there. invalid_argument
  // for too many, twice, missing or unknown ones. Borrows from `arguments`.
  static Result<BoundArguments> bind(std::string_view function, const Arguments& arguments,
                                     std::initializer_list<std::string_view> parameters,
                                     size_t required);

  const Value* get(size_t i) const { return slots_[i]; }
  bool has(size_t i) const { return slots_[i] != nullptr; }
  // The value of slot i, or the default where nothing (or none, for text) was given.
  Result<int64_t> integer(size_t i, int64_t otherwise) const;
  Result<std::string> text(size_t i, std::string_view otherwise) const;
  Result<std::optional<std::string_view>> optional_text(size_t i) const;
  bool truth(size_t i, bool otherwise) const;

 private:
  BoundArguments(std::string_view function, std::initializer_list<std::string_view> parameters)
      : function_(function), parameters_(parameters), slots_(parameters.size(), nullptr) {}
  Status wrong_type(size_t i, std::string_view expected) const;

  std::string function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> slots_;
};

}  // namespace baton::chat_template
