// The one file that sees yaml-cpp.
#include "common/config/load.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "common/config/assemble.h"
#include "common/config/key_table.h"

namespace baton::config {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxWorkers = 1024;
constexpr std::string_view kDefaultsSource = "defaults";

class Reader {
 public:
  Reader(std::string_view source, Config& config, Origins& origins)
      : source_(source), config_(config), origins_(origins) {}

  Status read(const YAML::Node& root) {
    if (root.IsNull()) {
      return Status();
    }
    if (!root.IsMap()) {
      return fail(root, "the file must be a mapping of keys");
    }
    const std::vector<Row> rows = rows_of(config_);
    return for_each_key(
        root, "", [&](const std::string& key, const YAML::Node& name, const YAML::Node& value) {
          if (key == "prefill" || key == "decode") {
            return read_workers(key, value);
          }
          if (is_section(key)) {
            return read_section(key, value, rows);
          }
          return read_value(find(rows, "", key), key, key, name, value);
        });
  }

 private:
  std::string at(const YAML::Node& node) const {
    const YAML::Mark mark = node.Mark();
    return std::string(source_) + (mark.is_null() ? "" : ":" + std::to_string(mark.line + 1));
  }
  Status fail(const YAML::Node& node, const std::string& message) const {
    return invalid_argument(at(node) + ": " + message);
  }

  // Calls visit(key, key node, value node) for each pair, refusing keys that are no text or come
  // twice.
  template <typename Visit>
  Status for_each_key(const YAML::Node& map, const std::string& prefix, const Visit& visit) {
    std::map<std::string, int> first_line;
    for (const auto& pair : map) {
      if (!pair.first.IsScalar()) {
        return fail(pair.first, "a key must be a word");
      }
      const std::string key = pair.first.Scalar();
      const int line = pair.first.Mark().line + 1;
      const auto [found, added] = first_line.emplace(key, line);
      if (!added) {
        return fail(pair.first, prefix + key + " is given twice, first in line " +
                                    std::to_string(found->second));
      }
      BATON_RETURN_IF_ERROR(visit(key, pair.first, pair.second));
    }
    return Status();
  }

  static const Row* find(const std::vector<Row>& rows, std::string_view section,
                         std::string_view key) {
    const auto found = std::ranges::find_if(
        rows, [&](const Row& row) { return row.section == section && row.key == key; });
    return found == rows.end() ? nullptr : &*found;
  }

  Status read_section(const std::string& section, const YAML::Node& node,
                      const std::vector<Row>& rows) {
    if (node.IsNull()) {
      return Status();
    }
    if (!node.IsMap()) {
      return fail(node, section + " must be a mapping of keys");
    }
    const std::string prefix = section + ".";
    return for_each_key(
        node, prefix, [&](const std::string& key, const YAML::Node& name, const YAML::Node& value) {
          return read_value(find(rows, section, key), prefix + key, prefix + key, name, value);
        });
  }

  Status read_workers(const std::string& list, const YAML::Node& node) {
    if (!node.IsSequence()) {
      return fail(node, list + " must be a list of workers");
    }
    if (node.size() > kMaxWorkers) {
      return fail(node, list + " has more than " + std::to_string(kMaxWorkers) + " workers");
    }
    std::vector<Worker>& workers = list == "prefill" ? config_.prefill : config_.decode;
    workers.assign(node.size(), Worker{});
    for (size_t i = 0; i < workers.size(); ++i) {
      workers[i].name = list.front() + std::to_string(i);
      const std::string prefix = list + "[" + std::to_string(i) + "].";
      if (!node[i].IsMap()) {
        return fail(node[i], list + "[" + std::to_string(i) + "] must be a mapping of keys");
      }
      const std::vector<Row> rows = rows_of(workers[i]);
      BATON_RETURN_IF_ERROR(for_each_key(
          node[i], prefix,
          [&](const std::string& key, const YAML::Node& name, const YAML::Node& value) {
            return read_value(find(rows, "", key), prefix + key, list + "[]." + key, name, value);
          }));
    }
    return Status();
  }

  // `path` is the key as messages name it, `generic` the same without the index of a list.
  Status read_value(const Row* row, const std::string& path, const std::string& generic,
                    const YAML::Node& name, const YAML::Node& value) {
    if (row == nullptr) {
      return fail(name, "unknown key " + path + "; the nearest is " + nearest_key(generic));
    }
    origins_[path] = at(name);
    const std::string lead = path + ": ";
    if (value.IsScalar()) {
      const Status status = assign(*row, value.Scalar());
      return status.ok() ? status : fail(value, lead + status.message());
    }
    if (!value.IsSequence()) {
      return fail(name, lead + (value.IsNull() ? "no value" : "a mapping") +
                            " is not right; expected " + type_text(*row));
    }
    std::vector<std::string> items;
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) {
        return fail(item, lead + "an item of the list is no text");
      }
      items.push_back(item.Scalar());
    }
    const Status status = assign_list(*row, items);
    return status.ok() ? status : fail(value, lead + status.message());
  }

  const std::string_view source_;
  Config& config_;
  Origins& origins_;
};

Status read_yaml(std::string_view yaml, std::string_view source, Config& config, Origins& origins) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(yaml));
    if (documents.size() > 1) {
      return invalid_argument(std::string(source) + ": more than one document in the file");
    }
    return documents.empty() ? Status() : Reader(source, config, origins).read(documents[0]);
  } catch (const YAML::Exception& e) {
    return invalid_argument(std::string(source) + ":" + std::to_string(e.mark.line + 1) +
                            ": not valid YAML: " + e.msg);
  }
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::string reason = std::generic_category().message(errno);
    std::error_code ignored;
    return not_found("cannot read " + path + ": " + reason + " (tried " +
                     std::filesystem::absolute(path, ignored).string() + ")");
  }
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) {
    return invalid_argument("cannot read " + path + ": it is not a file");
  }
  if (text.size() > kMaxFileBytes) {
    return invalid_argument(path + ": larger than 1 MiB; is this a configuration?");
  }
  return text;
}

}  // namespace

Result<Config> parse_config(std::string_view yaml, std::string_view source,
                            const LoadRequest& request) {
  Config config = default_config();
  Origins origins;
  BATON_RETURN_IF_ERROR(read_yaml(yaml, source, config, origins));
  BATON_RETURN_IF_ERROR(apply_overrides(config, request, origins));
  std::optional<Self> self = request.self;
  if (self) {
    self = renamed(std::move(*self), request.overrides);
  }
  BATON_RETURN_IF_ERROR(validate(config, self, origins, source));
  return config;
}

Result<Config> load_config(const LoadRequest& request) {
  if (request.path.empty()) {
    return parse_config("", kDefaultsSource, request);
  }
  BATON_ASSIGN_OR_RETURN(const std::string text, read_file(request.path));
  return parse_config(text, request.path, request);
}

Result<const Worker*> own_entry(const Config& config, const Self& self) {
  const std::vector<Worker>& workers = self.role == Role::kPrefill ? config.prefill : config.decode;
  const std::string role(to_string(self.role));
  if (self.role == Role::kRouter) {
    return invalid_argument("the router has no entry of its own");
  }
  if (self.name.empty() && workers.size() == 1) {
    return &workers.front();
  }
  if (const Worker* found = find_worker(config, self.role, self.name); found != nullptr) {
    return found;
  }
  std::string names;
  for (const Worker& worker : workers) {
    names += (names.empty() ? "" : ", ") + worker.name;
  }
  if (self.name.empty() && !workers.empty()) {
    return invalid_argument("the file has several " + role +
                            " workers; choose one with --name: " + names);
  }
  return invalid_argument("the file has no " + role + " worker \"" + self.name +
                          "\"; there are: " + (names.empty() ? "none" : names));
}

}  // namespace baton::config
