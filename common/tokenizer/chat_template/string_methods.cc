#include "common/tokenizer/chat_template/string_methods.h"

#include <algorithm>
#include <array>

#include "common/tokenizer/chat_template/text.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

using Handler = Result<Value> (*)(const std::string& self, const Arguments& arguments,
                                  Budget& budget);

std::string code_point_text(uint32_t c) {
  std::string out;
  append_code_point(c, out);
  return out;
}

enum class Cased : uint8_t { kNo, kLower, kUpper };

Cased cased(uint32_t c) {
  const std::string self = code_point_text(c);
  if (to_upper(self) != self) {
    return to_lower(self) == self ? Cased::kLower : Cased::kUpper;
  }
  return to_lower(self) != self ? Cased::kUpper : Cased::kNo;
}

bool all_cased_are(std::string_view text, Cased wanted) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const Cased c = cased(next_code_point(text, at));
    if (c != Cased::kNo && c != wanted) {
      return false;
    }
    found = found || c == wanted;
  }
  return found;
}

// Searching costs the text, more for long needles that almost match everywhere.
Status spend_search(std::string_view text, std::string_view needle, Budget& budget) {
  return budget.spend(text.size() + text.size() * (needle.size() / 16));
}

Result<Value> strip_with(const std::string& self, const Arguments& arguments, Side side,
                         Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("strip", arguments, {"chars"}, 0));
  BATON_ASSIGN_OR_RETURN(const auto chars, bound.optional_text(0));
  BATON_RETURN_IF_ERROR(budget.spend(self.size() * (1 + (chars ? chars->size() / 8 : 0))));
  return Value::string(std::string(strip(self, side, chars)));
}

Result<Value> strip_both(const std::string& self, const Arguments& a, Budget& budget) {
  return strip_with(self, a, Side::kBoth, budget);
}
Result<Value> strip_left(const std::string& self, const Arguments& a, Budget& budget) {
  return strip_with(self, a, Side::kLeft, budget);
}
Result<Value> strip_right(const std::string& self, const Arguments& a, Budget& budget) {
  return strip_with(self, a, Side::kRight, budget);
}

Result<Value> make_strings(const std::vector<std::string_view>& parts, Budget& budget) {
  BATON_RETURN_IF_ERROR(budget.spend(2 * kElementUnits * (parts.size() + 1)));
  List out;
  out.reserve(parts.size());
  for (const std::string_view part : parts) {
    out.push_back(Value::string(std::string(part)));
  }
  return make_list(std::move(out));
}

Result<Value> split_with(const std::string& self, const Arguments& arguments, bool from_right,
                         Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("split", arguments, {"sep", "maxsplit"}, 0));
  BATON_ASSIGN_OR_RETURN(const auto separator, bound.optional_text(0));
  BATON_ASSIGN_OR_RETURN(const int64_t max_splits, bound.integer(1, -1));
  if (separator && separator->empty()) {
    return type_error("empty separator");
  }
  // Before the parts are made: each costs an element of a list.
  BATON_RETURN_IF_ERROR(spend_search(self, separator.value_or(""), budget));
  BATON_RETURN_IF_ERROR(budget.spend(16 * self.size()));
  return make_strings(
      from_right ? rsplit(self, separator, max_splits) : split(self, separator, max_splits),
      budget);
}

Result<Value> split_left(const std::string& self, const Arguments& a, Budget& budget) {
  return split_with(self, a, false, budget);
}
Result<Value> split_right(const std::string& self, const Arguments& a, Budget& budget) {
  return split_with(self, a, true, budget);
}

Result<Value> split_at_lines(const std::string& self, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("splitlines", arguments, {"keepends"}, 0));
  BATON_RETURN_IF_ERROR(budget.spend(16 * self.size()));
  return make_strings(split_lines(self, bound.truth(0, false)), budget);
}

// startswith and endswith take one text or a tuple of them.
Result<Value> affix_test(const std::string& self, const Arguments& arguments, bool at_start,
                         Budget& budget) {
  const std::string name = at_start ? "startswith" : "endswith";
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind(name, arguments, {"affix", "start", "end"}, 1));
  if (bound.has(1) || bound.has(2)) {
    return unsupported("chat template: " + name + " with positions is not supported");
  }
  const Value& affix = *bound.get(0);
  const List choices = affix.is(Kind::kTuple) ? affix.items() : List{affix};
  for (const Value& choice : choices) {
    if (!choice.is_string()) {
      return type_error(name + " first arg must be str or a tuple of str, not " +
                        std::string(type_name(choice)));
    }
    const std::string& text = choice.as_string();
    BATON_RETURN_IF_ERROR(budget.spend(std::min(text.size(), self.size())));
    if (at_start ? self.starts_with(text) : self.ends_with(text)) {
      return Value::boolean(true);
    }
  }
  return Value::boolean(false);
}

Result<Value> starts_with(const std::string& self, const Arguments& a, Budget& budget) {
  return affix_test(self, a, true, budget);
}
Result<Value> ends_with(const std::string& self, const Arguments& a, Budget& budget) {
  return affix_test(self, a, false, budget);
}

Result<Value> remove_affix(const std::string& self, const Arguments& arguments, bool at_start) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("removeprefix", arguments, {"affix"}, 1));
  BATON_ASSIGN_OR_RETURN(const std::string affix, bound.text(0, ""));
  if (at_start ? !self.starts_with(affix) : !self.ends_with(affix)) {
    return Value::string(self);
  }
  return Value::string(at_start ? self.substr(affix.size())
                                : self.substr(0, self.size() - affix.size()));
}

Result<Value> remove_prefix(const std::string& self, const Arguments& a, Budget&) {
  return remove_affix(self, a, true);
}
Result<Value> remove_suffix(const std::string& self, const Arguments& a, Budget&) {
  return remove_affix(self, a, false);
}

Result<Value> replace_in(const std::string& self, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("replace", arguments, {"old", "new", "count"}, 2));
  BATON_ASSIGN_OR_RETURN(const std::string from, bound.text(0, ""));
  BATON_ASSIGN_OR_RETURN(const std::string to, bound.text(1, ""));
  BATON_ASSIGN_OR_RETURN(const int64_t count, bound.integer(2, -1));
  BATON_RETURN_IF_ERROR(spend_replace(self, from, to, budget));
  return Value::string(replace(self, from, to, count));
}

// Position in code points, -1 when absent.
Result<int64_t> position(const std::string& self, const Arguments& arguments, bool last,
                         Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("find", arguments, {"sub", "start", "end"}, 1));
  if (bound.has(1) || bound.has(2)) {
    return unsupported("chat template: find with positions is not supported");
  }
  BATON_ASSIGN_OR_RETURN(const std::string needle, bound.text(0, ""));
  BATON_RETURN_IF_ERROR(spend_search(self, needle, budget));
  const size_t at = last ? self.rfind(needle) : self.find(needle);
  return at == std::string::npos
             ? int64_t{-1}
             : static_cast<int64_t>(count_code_points(std::string_view(self).substr(0, at)));
}

Result<Value> find_first(const std::string& self, const Arguments& a, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const int64_t at, position(self, a, false, budget));
  return Value::integer(at);
}
Result<Value> find_last(const std::string& self, const Arguments& a, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const int64_t at, position(self, a, true, budget));
  return Value::integer(at);
}
Result<Value> index_of(const std::string& self, const Arguments& a, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const int64_t at, position(self, a, false, budget));
  return at < 0 ? Result<Value>(type_error("substring not found")) : Value::integer(at);
}

Result<Value> count_of(const std::string& self, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("count", arguments, {"sub"}, 1));
  BATON_ASSIGN_OR_RETURN(const std::string needle, bound.text(0, ""));
  BATON_RETURN_IF_ERROR(spend_search(self, needle, budget));
  if (needle.empty()) {
    return Value::integer(static_cast<int64_t>(count_code_points(self)) + 1);
  }
  int64_t count = 0;
  for (size_t at = self.find(needle); at != std::string::npos;
       at = self.find(needle, at + needle.size())) {
    ++count;
  }
  return Value::integer(count);
}

Result<Value> join_items(const std::string& self, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("join", arguments, {"iterable"}, 1));
  BATON_ASSIGN_OR_RETURN(const List items, to_list(*bound.get(0), budget));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      return type_error("sequence item " + std::to_string(i) + ": expected str instance, " +
                        std::string(type_name(items[i])) + " found");
    }
    BATON_RETURN_IF_ERROR(budget.spend(self.size() + items[i].as_string().size()));
    if (i > 0) {
      out += self;
    }
    out += items[i].as_string();
  }
  return Value::string(std::move(out));
}

template <std::string (*Map)(std::string_view)>
Result<Value> mapped(const std::string& self, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none,
                         BoundArguments::bind("method", arguments, {}, 0));
  BATON_RETURN_IF_ERROR(budget.spend(8 * self.size()));
  return Value::string(Map(self));
}

template <bool (*Is)(std::string_view)>
Result<Value> asked(const std::string& self, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none,
                         BoundArguments::bind("method", arguments, {}, 0));
  BATON_RETURN_IF_ERROR(budget.spend(16 * self.size()));
  return Value::boolean(Is(self));
}

bool is_space_text(std::string_view text) {
  return !text.empty() && strip(text, Side::kBoth, std::nullopt).empty();
}

template <bool (*Is)(char)>
Result<Value> ascii_asked(const std::string& self, const Arguments& arguments, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none,
                         BoundArguments::bind("method", arguments, {}, 0));
  BATON_RETURN_IF_ERROR(budget.spend(self.size()));
  if (std::any_of(self.begin(), self.end(), [](char c) { return (c & 0x80) != 0; })) {
    return unsupported("chat template: classes of characters beyond ASCII are not supported");
  }
  return Value::boolean(!self.empty() && std::all_of(self.begin(), self.end(), Is));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_alnum(char c) { return is_digit(c) || is_alpha(c); }

struct Entry {
  std::string_view name;
  Handler handler;  // null: a method of Python's that is not supported
};

constexpr std::array<Entry, 47> kMethods = {{
    {"capitalize", mapped<capitalize>},
    {"casefold", nullptr},
    {"center", nullptr},
    {"count", count_of},
    {"encode", nullptr},
    {"endswith", ends_with},
    {"expandtabs", nullptr},
    {"find", find_first},
    {"format", nullptr},
    {"format_map", nullptr},
    {"index", index_of},
    {"isalnum", ascii_asked<is_alnum>},
    {"isalpha", ascii_asked<is_alpha>},
    {"isascii", nullptr},
    {"isdecimal", ascii_asked<is_digit>},
    {"isdigit", ascii_asked<is_digit>},
    {"isidentifier", nullptr},
    {"islower", asked<is_lower_text>},
    {"isnumeric", ascii_asked<is_digit>},
    {"isprintable", nullptr},
    {"isspace", asked<is_space_text>},
    {"istitle", nullptr},
    {"isupper", asked<is_upper_text>},
    {"join", join_items},
    {"ljust", nullptr},
    {"lower", mapped<to_lower>},
    {"lstrip", strip_left},
    {"maketrans", nullptr},
    {"partition", nullptr},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
    {"replace", replace_in},
    {"rfind", find_last},
    {"rindex", nullptr},
    {"rjust", nullptr},
    {"rpartition", nullptr},
    {"rsplit", split_right},
    {"rstrip", strip_right},
    {"split", split_left},
    {"splitlines", split_at_lines},
    {"startswith", starts_with},
    {"strip", strip_both},
    {"swapcase", nullptr},
    {"title", mapped<title_words>},
    {"translate", nullptr},
    {"upper", mapped<to_upper>},
    {"zfill", nullptr},
}};

const Entry* find_method(std::string_view name) {
  const auto it = std::find_if(kMethods.begin(), kMethods.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return it == kMethods.end() ? nullptr : &*it;
}

}  // namespace

Status spend_replace(std::string_view text, std::string_view from, std::string_view to,
                     Budget& budget) {
  BATON_RETURN_IF_ERROR(spend_search(text, from, budget));
  // The most that can come out.
  const size_t hits = text.size() / std::max<size_t>(from.size(), 1) + 1;
  size_t bytes = 0;
  if (__builtin_mul_overflow(hits, to.size(), &bytes)) {
    return budget.spend(UINT64_MAX);
  }
  // Only texts that would grow much are counted, to spare an extra search.
  if (bytes <= 4 * text.size()) {
    return {};
  }
  size_t found = from.empty() ? hits : 0;
  for (size_t at = from.empty() ? std::string_view::npos : text.find(from);
       at != std::string_view::npos; at = text.find(from, at + from.size())) {
    ++found;
  }
  return budget.spend(found * to.size());
}

bool is_string_method(std::string_view name) { return find_method(name) != nullptr; }

Result<Value> call_string_method(const std::string& self, const std::string& name,
                                 const Arguments& arguments, Budget& budget) {
  const Entry* entry = find_method(name);
  if (entry == nullptr || entry->handler == nullptr) {
    return unsupported("chat template: the method '" + name + "' of str is not supported");
  }
  BATON_RETURN_IF_ERROR(budget.spend(self.size()));
  return entry->handler(self, arguments, budget);
}

std::string title_words(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = next_code_point(text, at);
    const std::string self = code_point_text(c);
    out += in_word ? to_lower(self) : capitalize(self);
    in_word = cased(c) != Cased::kNo;
  }
  return out;
}

bool is_lower_text(std::string_view text) { return all_cased_are(text, Cased::kLower); }
bool is_upper_text(std::string_view text) { return all_cased_are(text, Cased::kUpper); }

}  // namespace baton::chat_template
