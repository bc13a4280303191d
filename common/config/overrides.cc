#include <algorithm>
#include <array>
#include <utility>

#include "common/config/assemble.h"
#include "common/config/key_table.h"
#include "common/config/keys.h"
#include "common/config/values.h"

namespace baton::config {
namespace {

constexpr std::array<std::string_view, 9> kSections = {
    "cluster", "model", "router", "workers", "prefill", "decode", "transfer", "log", "test"};
constexpr std::string_view kOrigin = "--set";

std::string_view leaf_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

Status fail(std::string_view key, const std::string& message) {
  return invalid_argument(std::string(kOrigin) + ": " + std::string(key) + ": " + message);
}

Status unknown(std::string_view key, std::string_view path) {
  return invalid_argument(std::string(kOrigin) + ": unknown key " + std::string(key) +
                          "; the nearest is " + nearest_key(path));
}

// "[a, b]" or "a,b"; an empty text is an empty list.
std::vector<std::string> split_list(std::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    const size_t first = item.find_first_not_of(' ');
    item = first == std::string_view::npos
               ? ""
               : item.substr(first, item.find_last_not_of(' ') - first + 1);
    items.emplace_back(item);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return items;
}

Status set_row(const std::vector<Row>& rows, std::string_view section, std::string_view key,
               std::string_view shown, std::string_view value) {
  for (const Row& row : rows) {
    if (row.section != section || row.key != key) {
      continue;
    }
    const Status status = is_list(row) ? assign_list(row, split_list(value)) : assign(row, value);
    return status.ok() ? status : fail(shown, status.message());
  }
  const std::string prefix = section.empty() ? "" : std::string(section) + ".";
  return unknown(shown, prefix + std::string(key));
}

Status set_worker(Worker& worker, std::string_view list, size_t index, std::string_view shown,
                  std::string_view value, Origins& origins) {
  const std::string_view key = leaf_of(shown);
  const std::vector<Row> rows = rows_of(worker);
  const auto row = std::ranges::find_if(rows, [&](const Row& r) { return r.key == key; });
  if (row == rows.end()) {
    return unknown(shown, std::string(list) + "[]." + std::string(key));
  }
  const Status status = assign(*row, value);
  origins[std::string(list) + "[" + std::to_string(index) + "]." + std::string(key)] = kOrigin;
  return status.ok() ? status : fail(shown, status.message());
}

// "prefill.p0.key", "decode.*.key", and "worker.key" with the own name filled in.
Status set_workers(Config& config, std::string_view list, std::string_view name,
                   std::string_view shown, std::string_view value, Origins& origins) {
  std::vector<Worker>& workers = list == "prefill" ? config.prefill : config.decode;
  std::string names;
  bool found = false;
  for (size_t i = 0; i < workers.size(); ++i) {
    names += (names.empty() ? "" : ", ") + workers[i].name;
    if (name == "*" || name == workers[i].name) {
      found = true;
      BATON_RETURN_IF_ERROR(set_worker(workers[i], list, i, shown, value, origins));
    }
  }
  if (found || name == "*") {
    return Status();
  }
  return fail(shown, "no " + std::string(list) + " worker is called \"" + std::string(name) +
                         "\"; there are: " + (names.empty() ? "none" : names));
}

Status apply_one(Config& config, std::string_view text, const std::optional<Self>& self,
                 Origins& origins) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return invalid_argument(std::string(kOrigin) + ": \"" + std::string(text) +
                            "\" is not section.key=value");
  }
  const std::string_view path = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  const size_t dot = path.find('.');
  const std::string_view section = dot == std::string_view::npos ? "" : path.substr(0, dot);
  const std::string_view rest = path.substr(dot + 1);  // all of it without a dot
  if (section == "worker") {
    if (!self || self->role == Role::kRouter) {
      return fail(
          path, "this process is no worker; name one, for example decode.d0." + std::string(rest));
    }
    BATON_ASSIGN_OR_RETURN(const Worker* own, own_entry(config, *self));
    return set_workers(config, to_string(self->role), std::string(own->name), path, value, origins);
  }
  if (section == "prefill" || section == "decode") {
    const size_t second = rest.rfind('.');
    if (second == std::string_view::npos) {
      return fail(
          path, "name the worker, for example " + std::string(section) + ".*." + std::string(rest));
    }
    return set_workers(config, section, rest.substr(0, second), path, value, origins);
  }
  BATON_RETURN_IF_ERROR(set_row(rows_of(config), section, rest, path, value));
  origins[std::string(path)] = kOrigin;
  return Status();
}

}  // namespace

bool is_section(std::string_view name) {
  return std::ranges::find(kSections, name) != kSections.end();
}

std::string nearest_key(std::string_view path) {
  const std::vector<KeyInfo> keys = all_keys();
  const std::string_view leaf = leaf_of(path);
  const std::string prefix(path.substr(0, path.size() - leaf.size()));
  std::vector<std::string_view> same_section;
  std::vector<std::string_view> all(kSections.begin(), kSections.end());
  std::string_view same_leaf;
  for (const KeyInfo& key : keys) {
    all.push_back(key.path);
    if (!prefix.empty() && key.path.starts_with(prefix)) {
      same_section.push_back(key.path);
    }
    if (same_leaf.empty() && leaf_of(key.path) == leaf) {
      same_leaf = key.path;
    }
  }
  // A right name in the wrong section is likelier than a typing error.
  if (!same_leaf.empty()) {
    return std::string(same_leaf);
  }
  return std::string(nearest(path, same_section.empty() ? all : same_section));
}

Status apply_overrides(Config& config, const LoadRequest& request, Origins& origins) {
  std::optional<Self> self = request.self;
  for (const std::string& text : request.overrides) {
    BATON_RETURN_IF_ERROR(apply_one(config, text, self, origins));
    if (self) {
      self = renamed(std::move(*self), {text});
    }
  }
  return Status();
}

Self renamed(Self self, const std::vector<std::string>& overrides) {
  constexpr std::string_view kOwnName = "worker.name=";
  for (const std::string& text : overrides) {
    if (self.role != Role::kRouter && text.starts_with(kOwnName)) {
      self.name = text.substr(kOwnName.size());
    }
  }
  return self;
}

}  // namespace baton::config
