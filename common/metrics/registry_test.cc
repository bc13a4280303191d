#include "common/metrics/registry.h"

#include <gmock/gmock.h>

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

namespace baton::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Exposition {
  std::map<std::string, std::string> types;  // metric to type
  std::map<std::string, std::string> helps;  // metric to help
  std::map<std::string, double> samples;     // "name{labels}" to value
  std::vector<std::string> faults;
};

// A strict reader of the text format, written from its description, not from our writer:
// https://prometheus.io/docs/instrumenting/exposition_formats/
Exposition read_exposition(const std::string& text) {
  Exposition out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
      const size_t space = line.find(' ', 7);
      auto& into = line[2] == 'H' ? out.helps : out.types;
      if (space == std::string::npos ||
          !into.emplace(line.substr(7, space - 7), line.substr(space + 1)).second) {
        out.faults.push_back(line);
      }
      continue;
    }
    const size_t space = line.rfind(' ');
    const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const std::string series = line.substr(0, space);
    const bool braces = series.ends_with('}') && series.find('{') != std::string::npos;
    if (error != std::errc() || end != value.data() + value.size() || !braces ||
        !out.samples.emplace(series, number).second) {
      out.faults.push_back(line);
    }
  }
  return out;
}

RegistryOptions router_options() {
  RegistryOptions options;
  options.program = kByRouter;
  options.model_name = "m";
  return options;
}

RegistryOptions decode_options() {
  RegistryOptions options;
  options.program = kByDecode;
  options.model_name = "m";
  options.worker = "d0";
  return options;
}

TEST(RegistryTest, TheTableIsInOrderAndComplete) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kMetrics.size(); ++i) {
    const MetricInfo& info = kMetrics[i];
    EXPECT_EQ(static_cast<size_t>(info.id), i) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
    // vLLM's name of a histogram is the one exception.
    EXPECT_EQ(info.name.ends_with("_total") && info.id != MetricId::kIterationTokens,
              info.kind == Kind::kCounter)
        << info.name;
    EXPECT_EQ(info.name.ends_with("_info"), info.kind == Kind::kInfo) << info.name;
    EXPECT_EQ(info.buckets.empty(), info.kind != Kind::kHistogram) << info.name;
    for (size_t b = 1; b < info.buckets.size(); ++b) {
      EXPECT_LT(info.buckets[b - 1], info.buckets[b]) << info.name;
    }
  }
}

TEST(RegistryTest, ExportsItsOwnMetricsFromTheStart) {
  const Exposition router = read_exposition(Registry(router_options()).serialize());
  EXPECT_TRUE(router.faults.empty()) << router.faults.front();
  EXPECT_EQ(router.samples.at("vllm:generation_tokens_total{model_name=\"m\",role=\"router\"}"), 0);
  EXPECT_EQ(router.types.at("vllm:time_to_first_token_seconds"), "histogram");
  EXPECT_EQ(router.types.at("vllm:num_requests_running"), "gauge");

  const Exposition decode = read_exposition(Registry(decode_options()).serialize());
  const std::string labels = "{model_name=\"m\",role=\"decode\",worker=\"d0\"}";
  EXPECT_EQ(decode.samples.at("vllm:kv_cache_usage_perc" + labels), 0);
  EXPECT_EQ(decode.samples.at("baton_prompt_tokens_computed_total" + labels), 0);
  EXPECT_EQ(decode.samples.count("vllm:generation_tokens_total" + labels), 0u)
      << "one observation is exported once";
}

TEST(RegistryTest, CountsAndSums) {
  Registry registry(decode_options());
  const Counter counter = registry.counter(MetricId::kKvTransferBytes, {"received", "ucx-posix"});
  Counter(counter).add(3e9);
  Counter same = registry.counter(MetricId::kKvTransferBytes, {"received", "ucx-posix"});
  same.add(1);
  same.add(-5);
  EXPECT_EQ(counter.value(), 3'000'000'001.0);
  Gauge gauge = registry.gauge(MetricId::kKvBlocks, {"free"});
  gauge.set(7);
  gauge.add(-2);
  EXPECT_EQ(gauge.value(), 5);
  const Exposition out = read_exposition(registry.serialize());
  EXPECT_TRUE(out.faults.empty());
  EXPECT_EQ(out.samples.at("baton_kv_transfer_bytes_total{direction=\"received\",model_name=\"m\","
                           "role=\"decode\",transport=\"ucx-posix\",worker=\"d0\"}"),
            3'000'000'001.0);
}

TEST(RegistryTest, PutsObservationsIntoBuckets) {
  Registry registry(router_options());
  Histogram histogram = registry.histogram(MetricId::kInterTokenLatency);
  histogram.observe(0.001);  // a bound belongs to its bucket
  histogram.observe(0.0011);
  histogram.observe(1000);  // beyond the last
  histogram.observe(std::numeric_limits<double>::quiet_NaN());
  histogram.observe(std::numeric_limits<double>::infinity());
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 1000.0021);
  const Exposition out = read_exposition(registry.serialize());
  const std::string bucket =
      "vllm:inter_token_latency_seconds_bucket{model_name=\"m\",role=\"router\",le=\"";
  EXPECT_EQ(out.samples.at(bucket + "0.001\"}"), 1);
  EXPECT_EQ(out.samples.at(bucket + "0.002\"}"), 2);
  EXPECT_EQ(out.samples.at(bucket + "80\"}"), 2);
  EXPECT_EQ(out.samples.at(bucket + "+Inf\"}"), 3);
  EXPECT_EQ(
      out.samples.at("vllm:inter_token_latency_seconds_count{model_name=\"m\",role=\"router\"}"),
      3);
}

TEST(RegistryTest, BoundsTheValuesOfALabel) {
  RegistryOptions options = router_options();
  options.max_label_values = 3;
  Registry registry(options);
  for (int i = 0; i < 10; ++i) {
    registry.counter(MetricId::kIgnoredRequestFields, {"field" + std::to_string(i)}).add();
  }
  registry.counter(MetricId::kIgnoredRequestFields, {"field1"}).add();
  EXPECT_EQ(registry.counter(MetricId::kIgnoredRequestFields, {"field1"}).value(), 2);
  EXPECT_EQ(registry.counter(MetricId::kIgnoredRequestFields, {"other"}).value(), 7);
}

TEST(RegistryTest, EscapesLabelValues) {
  Registry registry(router_options());
  registry.counter(MetricId::kIgnoredRequestFields, {"a\"b\\c\nd"}).add();
  EXPECT_THAT(registry.serialize(), HasSubstr("field=\"a\\\"b\\\\c\\nd\""));
}

TEST(RegistryTest, KeepsAnInfoUntilItIsRemoved) {
  Registry registry(decode_options());
  registry.set_info(MetricId::kLinkTransportInfo, {"p0", "ucx-posix"});
  registry.set_info(MetricId::kLinkTransportInfo, {"p0", "ucx-posix"});
  EXPECT_THAT(registry.serialize(),
              HasSubstr("peer=\"p0\",role=\"decode\",transport=\"ucx-posix\",worker=\"d0\"} 1\n"));
  registry.remove(MetricId::kLinkTransportInfo, {"p0", "ucx-posix"});
  registry.remove(MetricId::kLinkTransportInfo, {"p1", "ucx-posix"});
  EXPECT_THAT(registry.serialize(), Not(HasSubstr("peer=\"p0\"")));
}

TEST(RegistryTest, CountsFromManyThreads) {
  Registry registry(router_options());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&registry] {
        Counter tokens = registry.counter(MetricId::kGenerationTokens);
        for (int i = 0; i < 1000; ++i) {
          tokens.add();
          registry.counter(MetricId::kRequestSuccess, {i % 2 == 0 ? "stop" : "length"}).add();
        }
      });
    }
    (void)registry.serialize();
  }
  EXPECT_EQ(registry.counter(MetricId::kGenerationTokens).value(), 4000);
  EXPECT_EQ(registry.counter(MetricId::kRequestSuccess, {"stop"}).value(), 2000);
}

TEST(RegistryDeathTest, RefusesTheWrongKindAndNumberOfLabels) {
  Registry registry(router_options());
  EXPECT_DEATH((void)registry.counter(MetricId::kRequestsRunning), "is of another kind");
  EXPECT_DEATH((void)registry.counter(MetricId::kRequestSuccess), "has 1 labels");
}

}  // namespace
}  // namespace baton::metrics
