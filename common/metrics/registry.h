#pragma once

// The metrics of one process and their text exposition (Prometheus format 0.0.4).
//
// Handles are small values: look one up once, keep it, use it from any thread without a lock or a
// search. They live as long as the Registry; those of a removed series must not be used again.

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "common/metrics/names.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace baton::metrics {

class Counter final {
 public:
  void add(double by = 1);  // negative amounts are ignored
  double value() const;

 private:
  friend class Registry;
  explicit Counter(prometheus::Counter* series) : series_(series) {}
  prometheus::Counter* series_;
};

class Gauge final {
 public:
  void set(double value);
  void add(double by = 1);
  double value() const;

 private:
  friend class Registry;
  explicit Gauge(prometheus::Gauge* series) : series_(series) {}
  prometheus::Gauge* series_;
};

class Histogram final {
 public:
  void observe(double value);  // a value that is not finite is ignored
  double sum() const;
  uint64_t count() const;

 private:
  friend class Registry;
  explicit Histogram(prometheus::Histogram* series) : series_(series) {}
  prometheus::Histogram* series_;
};

struct RegistryOptions {
  Exporter program = kByRouter;  // its metrics without labels exist from the start, at 0
  // Labels of every series; empty ones are left out. The role follows from `program`.
  std::string model_name;
  std::string worker;
  // Different values of one label of one metric; further ones are counted as "other".
  size_t max_label_values = 1'000;
};

// Label values in the order of MetricInfo::labels.
using LabelValues = std::initializer_list<std::string_view>;

// Thread-safe.
class Registry final {
 public:
  explicit Registry(const RegistryOptions& options);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The same series for the same values. The id must be of that kind and as many values given as
  // the metric has labels (checked: our own mistake otherwise).
  Counter counter(MetricId id, LabelValues labels = {});
  Gauge gauge(MetricId id, LabelValues labels = {});
  Histogram histogram(MetricId id, LabelValues labels = {});
  // An info series stands at 1 until it is removed.
  void set_info(MetricId id, LabelValues labels);
  // For gauges and infos of things that are gone. Nothing happens when there is no such series.
  void remove(MetricId id, LabelValues labels);

  std::string serialize() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::metrics
