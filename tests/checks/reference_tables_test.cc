// docs/operations.md against the code: keys with their defaults, metrics, error codes. A failure
// prints the section as it should be.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "common/base/status.h"
#include "common/config/keys.h"
#include "common/metrics/names.h"

namespace baton {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '|' ? std::string("\\|") : std::string(1, c);
  }
  return out;
}

std::string code(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string key_table() {
  std::string out = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const config::KeyInfo& key : config::all_keys()) {
    out += "| " + code(key.path) + " | " + escaped(key.type) + " | " + code(key.default_value) +
           " | " + escaped(key.doc) + " |\n";
  }
  return out;
}

std::string exporter_name(metrics::Exporter exporter) {
  switch (exporter) {
    case metrics::kByRouter:
      return "router";
    case metrics::kByPrefill:
      return "prefill";
    case metrics::kByDecode:
      return "decode";
    case metrics::kByWorkers:
      return "workers";
    case metrics::kByAll:
      return "all";
  }
  return "";
}

std::string kind_name(metrics::Kind kind) {
  switch (kind) {
    case metrics::Kind::kCounter:
      return "counter";
    case metrics::Kind::kGauge:
      return "gauge";
    case metrics::Kind::kHistogram:
      return "histogram";
    case metrics::Kind::kInfo:
      return "info";
  }
  return "";
}

std::string metric_table() {
  std::string out = "| metric | kind | by | labels | meaning |\n|---|---|---|---|---|\n";
  for (const metrics::MetricInfo& metric : metrics::kMetrics) {
    std::string labels;
    for (size_t i = 0; i < metric.label_count(); ++i) {
      labels += (i == 0 ? "" : ", ") + code(metric.labels[i]);
    }
    out += "| " + code(metric.name) + " | " + kind_name(metric.kind) + " | " +
           exporter_name(metric.exporter) + " | " + labels + " | " + escaped(metric.help) + " |\n";
  }
  return out;
}

std::string error_table() {
  std::string out =
      "| code | HTTP status | `type` of the error | may be tried again |\n|---|---|---|---|\n";
  constexpr int kLast = static_cast<int>(StatusCode::kInternal);
  for (int i = 1; i <= kLast; ++i) {
    const StatusCodeInfo& info = status_code_info(static_cast<StatusCode>(i));
    out += "| " + code(info.label) + " | " + std::to_string(info.http_status) + " | " +
           code(info.http_type) + " | " + (info.may_retry ? "yes" : "no") + " |\n";
  }
  return out;
}

// What stands between "<!-- NAME -->" and "<!-- end -->".
std::string section(const std::string& document, std::string_view name) {
  std::ifstream file(std::string(BATON_SOURCE_DIR) + "/" + document);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::string mark = "<!-- " + std::string(name) + " -->\n";
  const size_t begin = all.find(mark);
  const size_t end = all.find("<!-- end -->", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    return "no section " + std::string(name) + " in " + document;
  }
  return all.substr(begin + mark.size(), end - begin - mark.size());
}

TEST(ReferenceTablesTest, OperationsListsEveryKeyWithItsDefault) {
  EXPECT_EQ(section("docs/operations.md", "keys"), key_table());
}

TEST(ReferenceTablesTest, OperationsListsEveryMetric) {
  EXPECT_EQ(section("docs/operations.md", "metrics"), metric_table());
}

TEST(ReferenceTablesTest, ApiListsEveryErrorCode) {
  EXPECT_EQ(section("docs/api.md", "errors"), error_table());
}

}  // namespace
}  // namespace baton
