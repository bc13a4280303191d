#pragma once

// Time is injected: every class that waits or stamps takes a Clock&. All durations use the steady
// clock; the wall clock appears in logs and in "created" fields only.

#include <atomic>
#include <chrono>

namespace baton {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using namespace std::chrono_literals;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

// Moves only when told. Waits of real primitives do not follow it: code under test that sleeps is
// driven through its own `poll(now)` or with real time.
class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(ns_.load())); }
  void advance(Duration by) { ns_.fetch_add(by.count()); }

 private:
  std::atomic<int64_t> ns_{1'000'000'000};
};

inline Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}
inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline double to_ms(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

}  // namespace baton
