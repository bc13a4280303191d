#include "common/config/key_table.h"
#include "common/config/keys.h"
#include "common/config/load.h"

namespace baton::config {
namespace {

void print_workers(std::string& out, std::string_view list, std::vector<Worker>& workers) {
  out += std::string(list) + (workers.empty() ? ": []\n" : ":\n");
  for (Worker& worker : workers) {
    std::string_view lead = "  - ";
    for (const Row& row : rows_of(worker)) {
      out += lead;
      out += std::string(row.key) + ": " + value_text(row) + "\n";
      lead = "    ";
    }
  }
}

void add_keys(std::vector<KeyInfo>& keys, std::string_view prefix, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const std::string section =
        row.section.empty() ? std::string(prefix) : std::string(row.section) + ".";
    keys.push_back(
        {section + std::string(row.key), type_text(row), value_text(row), std::string(row.doc)});
  }
}

}  // namespace

std::string to_yaml(const Config& config) {
  Config copy = config;  // rows point to what may be changed
  std::string out;
  std::string_view section;
  for (const Row& row : rows_of(copy)) {
    if (row.section == "transfer" && section != "transfer") {
      print_workers(out, "prefill", copy.prefill);
      print_workers(out, "decode", copy.decode);
    }
    if (row.section != section && !row.section.empty()) {
      out += std::string(row.section) + ":\n";
    }
    section = row.section;
    out += (section.empty() ? "" : "  ") + std::string(row.key) + ": " + value_text(row) + "\n";
  }
  return out;
}

std::vector<KeyInfo> all_keys() {
  std::vector<KeyInfo> keys;
  Config config;
  add_keys(keys, "", rows_of(config));
  for (const std::string_view list : {"prefill", "decode"}) {
    Worker worker;
    worker.name = list == "prefill" ? "p0" : "d0";
    add_keys(keys, std::string(list) + "[].", rows_of(worker));
  }
  return keys;
}

}  // namespace baton::config
