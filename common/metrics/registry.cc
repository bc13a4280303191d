// The one file that sees prometheus-cpp.
#include "common/metrics/registry.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"

namespace baton::metrics {
namespace {

using CounterFamily = prometheus::Family<prometheus::Counter>;
using GaugeFamily = prometheus::Family<prometheus::Gauge>;
using HistogramFamily = prometheus::Family<prometheus::Histogram>;

std::string_view role_name(Exporter program) {
  switch (program) {
    case kByRouter:
      return "router";
    case kByPrefill:
      return "prefill";
    case kByDecode:
      return "decode";
    case kByWorkers:
    case kByAll:
      break;
  }
  check_failed("program is one of router, prefill, decode", "a process has one role");
}

}  // namespace

void Counter::add(double by) {
  if (by > 0) {
    series_->Increment(by);
  }
}
double Counter::value() const { return series_->Value(); }

void Gauge::set(double value) { series_->Set(value); }
void Gauge::add(double by) { series_->Increment(by); }
double Gauge::value() const { return series_->Value(); }

void Histogram::observe(double value) {
  if (std::isfinite(value)) {
    series_->Observe(value);
  }
}
double Histogram::sum() const { return series_->Collect().histogram.sample_sum; }
uint64_t Histogram::count() const { return series_->Collect().histogram.sample_count; }

struct Registry::Impl {
  struct Metric {
    std::variant<CounterFamily*, GaugeFamily*, HistogramFamily*> family;
    // By the label values, joined with a byte that no UTF-8 text holds.
    std::map<std::string, void*> series;
    std::array<std::set<std::string, std::less<>>, 4> seen_values;
  };

  explicit Impl(const RegistryOptions& o) : options(o) {
    if (!options.model_name.empty()) {
      default_labels.emplace("model_name", options.model_name);
    }
    default_labels.emplace("role", role_name(options.program));
    if (!options.worker.empty()) {
      default_labels.emplace("worker", options.worker);
    }
    for (const MetricInfo& info : kMetrics) {
      metrics[static_cast<size_t>(info.id)].family = make_family(info);
    }
  }

  std::variant<CounterFamily*, GaugeFamily*, HistogramFamily*> make_family(const MetricInfo& info) {
    const std::string name(info.name);
    const std::string help(info.help);
    switch (info.kind) {
      case Kind::kCounter:
        return &prometheus::BuildCounter().Name(name).Help(help).Register(registry);
      case Kind::kGauge:
      case Kind::kInfo:
        return &prometheus::BuildGauge().Name(name).Help(help).Register(registry);
      case Kind::kHistogram:
        return &prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
    }
    check_failed("kind", "unknown kind of metric");
  }

  // The value itself, or "other" once the label has had too many different ones.
  std::string bounded(std::set<std::string, std::less<>>& seen, std::string_view value) const {
    if (seen.contains(value)) {
      return std::string(value);
    }
    if (seen.size() >= options.max_label_values) {
      return "other";
    }
    return *seen.emplace(value).first;
  }

  static std::string key_of(const std::vector<std::string>& values) {
    std::string key;
    for (const std::string& value : values) {
      key += value;
      key += '\xFF';
    }
    return key;
  }

  prometheus::Labels labels_of(const MetricInfo& info,
                               const std::vector<std::string>& values) const {
    prometheus::Labels labels = default_labels;
    for (size_t i = 0; i < values.size(); ++i) {
      labels[std::string(info.labels[i])] = values[i];
    }
    return labels;
  }

  static void check_use(const MetricInfo& info, bool kind_matches, LabelValues values) {
    BATON_CHECK(kind_matches, std::string(info.name) + " is of another kind");
    BATON_CHECK(values.size() == info.label_count(),
                std::string(info.name) + " has " + std::to_string(info.label_count()) + " labels");
  }

  // The series of these values, made when it is new.
  template <typename Series, typename... Arguments>
  Series* find_or_add(MetricId id, LabelValues values, Arguments&&... arguments) REQUIRES(mutex) {
    Metric& metric = metrics[static_cast<size_t>(id)];
    std::vector<std::string> bounded_values;
    for (const std::string_view value : values) {
      bounded_values.push_back(bounded(metric.seen_values[bounded_values.size()], value));
    }
    void*& slot = metric.series[key_of(bounded_values)];
    if (slot == nullptr) {
      auto* family = std::get<prometheus::Family<Series>*>(metric.family);
      slot = &family->Add(labels_of(metric_info(id), bounded_values), arguments...);
    }
    return static_cast<Series*>(slot);
  }

  const RegistryOptions options;
  prometheus::Labels default_labels;
  prometheus::Registry registry;
  Mutex mutex;
  std::array<Metric, kMetrics.size()> metrics GUARDED_BY(mutex);
};

Registry::Registry(const RegistryOptions& options) : impl_(std::make_unique<Impl>(options)) {
  for (const MetricInfo& info : kMetrics) {
    if ((info.exporter & options.program) == 0 || info.label_count() > 0) {
      continue;
    }
    switch (info.kind) {
      case Kind::kCounter:
        counter(info.id);
        break;
      case Kind::kGauge:
        gauge(info.id);
        break;
      case Kind::kHistogram:
        histogram(info.id);
        break;
      case Kind::kInfo:
        break;
    }
  }
}
Registry::~Registry() = default;

Counter Registry::counter(MetricId id, LabelValues labels) {
  const MetricInfo& info = metric_info(id);
  Impl::check_use(info, info.kind == Kind::kCounter, labels);
  MutexLock lock(impl_->mutex);
  return Counter(impl_->find_or_add<prometheus::Counter>(id, labels));
}

Gauge Registry::gauge(MetricId id, LabelValues labels) {
  const MetricInfo& info = metric_info(id);
  Impl::check_use(info, info.kind == Kind::kGauge, labels);
  MutexLock lock(impl_->mutex);
  return Gauge(impl_->find_or_add<prometheus::Gauge>(id, labels));
}

Histogram Registry::histogram(MetricId id, LabelValues labels) {
  const MetricInfo& info = metric_info(id);
  Impl::check_use(info, info.kind == Kind::kHistogram, labels);
  MutexLock lock(impl_->mutex);
  return Histogram(impl_->find_or_add<prometheus::Histogram>(
      id, labels,
      prometheus::Histogram::BucketBoundaries(info.buckets.begin(), info.buckets.end())));
}

void Registry::set_info(MetricId id, LabelValues labels) {
  const MetricInfo& info = metric_info(id);
  Impl::check_use(info, info.kind == Kind::kInfo, labels);
  MutexLock lock(impl_->mutex);
  impl_->find_or_add<prometheus::Gauge>(id, labels)->Set(1);
}

void Registry::remove(MetricId id, LabelValues labels) {
  const MetricInfo& info = metric_info(id);
  Impl::check_use(info, info.kind == Kind::kInfo || info.kind == Kind::kGauge, labels);
  MutexLock lock(impl_->mutex);
  Impl::Metric& metric = impl_->metrics[static_cast<size_t>(id)];
  const auto found =
      metric.series.find(Impl::key_of(std::vector<std::string>(labels.begin(), labels.end())));
  if (found == metric.series.end()) {
    return;
  }
  std::get<GaugeFamily*>(metric.family)->Remove(static_cast<prometheus::Gauge*>(found->second));
  metric.series.erase(found);
}

std::string Registry::serialize() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, impl_->registry.Collect());
  return out.str();
}

}  // namespace baton::metrics
