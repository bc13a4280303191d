// Filters over sequences and dicts.

#include <algorithm>
#include <array>
#include <iterator>

#include "common/tokenizer/chat_template/filters.h"
#include "common/tokenizer/chat_template/item_paths.h"
#include "common/tokenizer/chat_template/text.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

constexpr int64_t kMaxBatch = 100'000;

Status no_arguments(std::string_view name, const Arguments& arguments) {
  return BoundArguments::bind(name, arguments, {}, 0).status();
}

Result<Value> first(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_RETURN_IF_ERROR(no_arguments("first", arguments));
  if (input.is(Kind::kGenerator)) {
    Generator& generator = input.as_generator();
    return generator.next < generator.items.size()
               ? generator.items[generator.next++]
               : Value::undefined("No first item, sequence was empty.");
  }
  BATON_ASSIGN_OR_RETURN(List items, to_list(input, runtime.budget()));
  return items.empty() ? Value::undefined("No first item, sequence was empty.")
                       : std::move(items.front());
}

Result<Value> last(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_RETURN_IF_ERROR(no_arguments("last", arguments));
  if (input.is(Kind::kGenerator)) {
    return type_error("'generator' object is not reversible");
  }
  BATON_ASSIGN_OR_RETURN(List items, to_list(input, runtime.budget()));
  return items.empty() ? Value::undefined("No last item, sequence was empty.")
                       : std::move(items.back());
}

Result<Value> list(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_RETURN_IF_ERROR(no_arguments("list", arguments));
  BATON_ASSIGN_OR_RETURN(List items, to_list(input, runtime.budget()));
  return make_list(std::move(items));
}

Result<Value> join(const Value& input, const Arguments& arguments, Runtime& runtime) {
  Budget& budget = runtime.budget();
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("join", arguments, {"d", "attribute"}, 0));
  std::string separator;
  if (bound.has(0)) {
    BATON_ASSIGN_OR_RETURN(separator, to_text(*bound.get(0), budget));
  }
  BATON_ASSIGN_OR_RETURN(const ItemPath path,
                         ItemPath::parse(bound.has(1) ? *bound.get(1) : Value::none()));
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, budget));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const Value item, path.read(items[i], nullptr, budget));
    BATON_ASSIGN_OR_RETURN(const std::string text, to_text(item, budget));
    BATON_RETURN_IF_ERROR(budget.spend(separator.size() + text.size()));
    if (i > 0) {
      out += separator;
    }
    out += text;
  }
  return Value::string(std::move(out));
}

Result<Value> items_of(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_RETURN_IF_ERROR(no_arguments("items", arguments));
  if (input.is_undefined()) {
    return runtime.make_generator({});
  }
  if (!input.is(Kind::kDict)) {
    return type_error("Can only get item pairs from a mapping.");
  }
  List out;
  for (const auto& [key, value] : input.as_dict().entries) {
    BATON_RETURN_IF_ERROR(runtime.budget().spend(2 * kElementUnits));
    BATON_ASSIGN_OR_RETURN(Value pair, make_tuple({key, value}));
    out.push_back(std::move(pair));
  }
  return runtime.make_generator(std::move(out));
}

Result<Value> reverse(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_RETURN_IF_ERROR(no_arguments("reverse", arguments));
  if (input.is_string()) {
    return get_slice(input, Value::none(), Value::none(), Value::integer(-1), runtime.budget());
  }
  BATON_ASSIGN_OR_RETURN(List items, to_list(input, runtime.budget()));
  std::reverse(items.begin(), items.end());
  // Python's reversed() is an iterator; only what it cannot reverse becomes a list.
  return input.is(Kind::kGenerator) ? make_list(std::move(items))
                                    : runtime.make_generator(std::move(items));
}

struct Keyed {
  Value key;
  Value item;
};

struct Halves {
  size_t begin;
  size_t middle;
  size_t end;
};

// Merges the sorted halves [begin, middle) and [middle, end) of `entries`. `descending` keeps equal
// keys in their order, as Python does.
Status merge_halves(std::vector<Keyed>& entries, std::vector<Keyed>& merged, const Halves& halves,
                    bool descending, Budget& budget) {
  size_t left = halves.begin;
  size_t right = halves.middle;
  merged.clear();
  while (left < halves.middle && right < halves.end) {
    const Value& a = entries[left].key;
    const Value& b = entries[right].key;
    BATON_ASSIGN_OR_RETURN(const bool right_first,
                           descending ? less_than(a, b, budget) : less_than(b, a, budget));
    merged.push_back(std::move(entries[right_first ? right++ : left++]));
  }
  const auto at = [&](size_t i) { return entries.begin() + static_cast<std::ptrdiff_t>(i); };
  std::move(at(left), at(halves.middle), std::back_inserter(merged));
  std::move(at(right), at(halves.end), std::back_inserter(merged));
  std::move(merged.begin(), merged.end(), at(halves.begin));
  return {};
}

// Stable. Our own, because comparing may fail, which the library's sorts do not allow.
Status sort_by_key(std::vector<Keyed>& entries, bool descending, Budget& budget) {
  std::vector<Keyed> merged;
  for (size_t width = 1; width < entries.size(); width *= 2) {
    for (size_t begin = 0; begin + width < entries.size(); begin += 2 * width) {
      const size_t end = std::min(begin + 2 * width, entries.size());
      BATON_RETURN_IF_ERROR(
          merge_halves(entries, merged, {begin, begin + width, end}, descending, budget));
    }
  }
  return {};
}

Result<Value> keys_removed(std::vector<Keyed> entries) {
  List out;
  out.reserve(entries.size());
  for (Keyed& entry : entries) {
    out.push_back(std::move(entry.item));
  }
  return make_list(std::move(out));
}

Result<std::vector<Keyed>> with_keys(const Value& input, const Value* attribute,
                                     bool case_sensitive, Budget& budget) {
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, budget));
  std::vector<ItemPath> paths;
  if (attribute != nullptr && attribute->is_string()) {
    for (const std::string_view part : split(attribute->as_string(), ",", -1)) {
      BATON_ASSIGN_OR_RETURN(ItemPath path, ItemPath::parse(Value::string(std::string(part))));
      paths.push_back(std::move(path));
    }
  } else {
    BATON_ASSIGN_OR_RETURN(ItemPath path, ItemPath::parse(attribute ? *attribute : Value::none()));
    paths.push_back(std::move(path));
  }
  std::vector<Keyed> entries;
  for (const Value& item : items) {
    List key;
    for (const ItemPath& path : paths) {
      BATON_RETURN_IF_ERROR(budget.spend(kElementUnits));
      BATON_ASSIGN_OR_RETURN(Value part, path.read(item, nullptr, budget));
      if (!case_sensitive) {
        BATON_ASSIGN_OR_RETURN(part, ignore_case(part, budget));
      }
      key.push_back(std::move(part));
    }
    BATON_ASSIGN_OR_RETURN(Value keys, make_list(std::move(key)));
    entries.push_back({std::move(keys), item});
  }
  return entries;
}

Result<Value> sort(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0));
  BATON_ASSIGN_OR_RETURN(std::vector<Keyed> entries,
                         with_keys(input, bound.get(2), bound.truth(1, false), runtime.budget()));
  BATON_RETURN_IF_ERROR(sort_by_key(entries, bound.truth(0, false), runtime.budget()));
  return keys_removed(std::move(entries));
}

Result<Value> dict_sort(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0));
  BATON_ASSIGN_OR_RETURN(const std::string by, bound.text(1, "key"));
  if (by != "key" && by != "value") {
    return type_error("You can only sort by either \"key\" or \"value\"");
  }
  if (!input.is(Kind::kDict)) {
    return input.is_undefined() ? undefined_error(input) : type_error("dictsort needs a mapping");
  }
  std::vector<Keyed> entries;
  for (const auto& [key, value] : input.as_dict().entries) {
    BATON_RETURN_IF_ERROR(runtime.budget().spend(4 * kElementUnits));
    Value sort_key = by == "key" ? key : value;
    if (!bound.truth(0, false)) {
      BATON_ASSIGN_OR_RETURN(sort_key, ignore_case(sort_key, runtime.budget()));
    }
    BATON_ASSIGN_OR_RETURN(Value pair, make_tuple({key, value}));
    entries.push_back({std::move(sort_key), std::move(pair)});
  }
  BATON_RETURN_IF_ERROR(sort_by_key(entries, bound.truth(2, false), runtime.budget()));
  return keys_removed(std::move(entries));
}

Result<Value> unique(const Value& input, const Arguments& arguments, Runtime& runtime) {
  Budget& budget = runtime.budget();
  BATON_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::bind("unique", arguments, {"case_sensitive", "attribute"}, 0));
  BATON_ASSIGN_OR_RETURN(const ItemPath path,
                         ItemPath::parse(bound.has(1) ? *bound.get(1) : Value::none()));
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, budget));
  Dict seen;
  List out;
  for (const Value& item : items) {
    BATON_ASSIGN_OR_RETURN(Value key, path.read(item, nullptr, budget));
    if (!bound.truth(0, false)) {
      BATON_ASSIGN_OR_RETURN(key, ignore_case(key, budget));
    }
    if (!is_hashable(key)) {
      return type_error("unhashable type: '" + std::string(type_name(key)) + "'");
    }
    BATON_RETURN_IF_ERROR(
        budget.spend(4 * kElementUnits + (key.is_string() ? key.as_string().size() : 0)));
    if (seen.find(key) == nullptr) {
      seen.set(std::move(key), Value::none());
      out.push_back(item);
    }
  }
  return runtime.make_generator(std::move(out));
}

Result<Value> extreme(const Value& input, const Arguments& arguments, bool greatest,
                      Budget& budget) {
  BATON_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::bind("min", arguments, {"case_sensitive", "attribute"}, 0));
  BATON_ASSIGN_OR_RETURN(const ItemPath path,
                         ItemPath::parse(bound.has(1) ? *bound.get(1) : Value::none()));
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, budget));
  Value best = Value::undefined("No aggregated item, sequence was empty.");
  Value best_key;
  for (const Value& item : items) {
    BATON_ASSIGN_OR_RETURN(Value key, path.read(item, nullptr, budget));
    if (!bound.truth(0, false)) {
      BATON_ASSIGN_OR_RETURN(key, ignore_case(key, budget));
    }
    bool better = &item == items.data();
    if (!better) {
      BATON_ASSIGN_OR_RETURN(
          better, greatest ? less_than(best_key, key, budget) : less_than(key, best_key, budget));
    }
    if (better) {
      best = item;
      best_key = std::move(key);
    }
  }
  return best;
}

Result<Value> minimum(const Value& input, const Arguments& arguments, Runtime& runtime) {
  return extreme(input, arguments, false, runtime.budget());
}
Result<Value> maximum(const Value& input, const Arguments& arguments, Runtime& runtime) {
  return extreme(input, arguments, true, runtime.budget());
}

Result<Value> sum(const Value& input, const Arguments& arguments, Runtime& runtime) {
  Budget& budget = runtime.budget();
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("sum", arguments, {"attribute", "start"}, 0));
  BATON_ASSIGN_OR_RETURN(const ItemPath path,
                         ItemPath::parse(bound.has(0) ? *bound.get(0) : Value::none()));
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, budget));
  Value total = bound.has(1) ? *bound.get(1) : Value::integer(0);
  if (total.is_string()) {
    return type_error("sum() can't sum strings [use ''.join(seq) instead]");
  }
  for (const Value& item : items) {
    BATON_ASSIGN_OR_RETURN(const Value part, path.read(item, nullptr, budget));
    BATON_ASSIGN_OR_RETURN(total, arithmetic(Operator::kAdd, total, part, budget));
  }
  return total;
}

Result<Value> batch(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("batch", arguments, {"linecount", "fill_with"}, 1));
  BATON_ASSIGN_OR_RETURN(const int64_t size, bound.integer(0, 1));
  if (size < 1 || size > kMaxBatch) {
    return unsupported("chat template: a batch of " + std::to_string(size) + " is not supported");
  }
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, runtime.budget()));
  List out;
  for (size_t at = 0; at < items.size(); at += static_cast<size_t>(size)) {
    const size_t end = std::min(items.size() - at, static_cast<size_t>(size)) + at;
    BATON_RETURN_IF_ERROR(runtime.budget().spend(kElementUnits * (end - at + 1)));
    List row(items.begin() + static_cast<std::ptrdiff_t>(at),
             items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.has(1) && !bound.get(1)->is(Kind::kNone)) {
      BATON_RETURN_IF_ERROR(runtime.budget().spend(kElementUnits * static_cast<uint64_t>(size)));
      row.resize(static_cast<size_t>(size), *bound.get(1));
    }
    BATON_ASSIGN_OR_RETURN(Value row_value, make_list(std::move(row)));
    out.push_back(std::move(row_value));
  }
  return runtime.make_generator(std::move(out));
}

struct Entry {
  std::string_view name;
  FilterFunction function;
};

constexpr std::array<Entry, 13> kFilters = {{
    {"batch", batch},
    {"dictsort", dict_sort},
    {"first", first},
    {"items", items_of},
    {"join", join},
    {"last", last},
    {"list", list},
    {"max", maximum},
    {"min", minimum},
    {"reverse", reverse},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
}};

}  // namespace

FilterFunction find_sequence_filter(std::string_view name) {
  const auto it = std::find_if(kFilters.begin(), kFilters.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return it == kFilters.end() ? nullptr : it->function;
}

}  // namespace baton::chat_template
