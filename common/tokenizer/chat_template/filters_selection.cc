// map, select, reject, selectattr, rejectattr.

#include <algorithm>
#include <array>

#include "common/tokenizer/chat_template/filters.h"
#include "common/tokenizer/chat_template/item_paths.h"
#include "common/tokenizer/chat_template/tests.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

Result<Value> map_attribute(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("map", arguments, {"attribute", "default"}, 1));
  BATON_ASSIGN_OR_RETURN(const ItemPath path, ItemPath::parse(*bound.get(0)));
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, runtime.budget()));
  List out;
  for (const Value& item : items) {
    BATON_ASSIGN_OR_RETURN(Value mapped, path.read(item, bound.get(1), runtime.budget()));
    out.push_back(std::move(mapped));
  }
  return runtime.make_generator(std::move(out));
}

Result<Value> map(const Value& input, const Arguments& arguments, Runtime& runtime) {
  if (!is_true(input)) {
    return runtime.make_generator({});
  }
  const bool by_attribute =
      std::any_of(arguments.named.begin(), arguments.named.end(),
                  [](const auto& named) { return named.first == "attribute"; });
  if (arguments.positional.empty() && by_attribute) {
    return map_attribute(input, arguments, runtime);
  }
  if (arguments.positional.empty() || !arguments.positional[0].is_string()) {
    return type_error("map requires a filter argument");
  }
  const std::string& name = arguments.positional[0].as_string();
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) {
    return unsupported("chat template: the filter '" + name + "' is not supported");
  }
  if (filter == &map) {
    // Python builds such towers lazily; here they would recurse.
    return unsupported("chat template: map of map is not supported");
  }
  Arguments rest{List(arguments.positional.begin() + 1, arguments.positional.end()),
                 arguments.named};
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, runtime.budget()));
  List out;
  for (const Value& item : items) {
    BATON_RETURN_IF_ERROR(runtime.budget().spend(kNodeUnits));
    BATON_ASSIGN_OR_RETURN(Value mapped, filter(item, rest, runtime));
    out.push_back(std::move(mapped));
  }
  return runtime.make_generator(std::move(out));
}

struct Selection {
  bool by_attribute;
  bool keep;  // what passes the test, or what does not
};

Result<Value> choose(const Value& input, const Arguments& arguments, Selection selection,
                     Runtime& runtime) {
  if (!is_true(input)) {
    return runtime.make_generator({});
  }
  const size_t skip = selection.by_attribute ? 1 : 0;
  if (arguments.positional.size() < skip) {
    return type_error("Missing parameter for attribute name");
  }
  ItemPath path;
  if (selection.by_attribute) {
    BATON_ASSIGN_OR_RETURN(path, ItemPath::parse(arguments.positional[0]));
  }
  TestFunction test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > skip) {
    const Value& name = arguments.positional[skip];
    test = name.is_string() ? find_test(name.as_string()) : nullptr;
    if (test == nullptr) {
      return unsupported("chat template: the test '" +
                         (name.is_string() ? name.as_string() : std::string(type_name(name))) +
                         "' is not supported");
    }
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1,
                           arguments.positional.end());
    rest.named = arguments.named;
  }
  BATON_ASSIGN_OR_RETURN(const List items, to_list(input, runtime.budget()));
  List out;
  for (const Value& item : items) {
    BATON_RETURN_IF_ERROR(runtime.budget().spend(kNodeUnits));
    BATON_ASSIGN_OR_RETURN(const Value looked_at, path.read(item, nullptr, runtime.budget()));
    bool passes = is_true(looked_at);
    if (test != nullptr) {
      BATON_ASSIGN_OR_RETURN(passes, test(looked_at, rest, runtime.budget()));
    }
    if (passes == selection.keep) {
      out.push_back(item);
    }
  }
  return runtime.make_generator(std::move(out));
}

Result<Value> select(const Value& input, const Arguments& arguments, Runtime& runtime) {
  return choose(input, arguments, {false, true}, runtime);
}
Result<Value> reject(const Value& input, const Arguments& arguments, Runtime& runtime) {
  return choose(input, arguments, {false, false}, runtime);
}
Result<Value> select_attribute(const Value& input, const Arguments& arguments, Runtime& runtime) {
  return choose(input, arguments, {true, true}, runtime);
}
Result<Value> reject_attribute(const Value& input, const Arguments& arguments, Runtime& runtime) {
  return choose(input, arguments, {true, false}, runtime);
}

struct Entry {
  std::string_view name;
  FilterFunction function;
};

constexpr std::array<Entry, 5> kFilters = {{
    {"map", map},
    {"reject", reject},
    {"rejectattr", reject_attribute},
    {"select", select},
    {"selectattr", select_attribute},
}};

}  // namespace

FilterFunction find_selection_filter(std::string_view name) {
  const auto it = std::find_if(kFilters.begin(), kFilters.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return it == kFilters.end() ? nullptr : it->function;
}

}  // namespace baton::chat_template
