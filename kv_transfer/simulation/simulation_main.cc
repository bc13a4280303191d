// Explores schedules of the simulated cluster: `kv_simulation FIRST COUNT`, or prints one whole:
// `kv_simulation --trace SEED`. Exit status 1 and the seed when a schedule fails.

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "common/base/log.h"
#include "kv_transfer/simulation/cluster.h"

namespace {

namespace sim = baton::kv_transfer::simulation;

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

int trace(uint64_t seed) {
  const sim::ScheduleResult result =
      sim::run_schedule(seed, [](const std::string& line) { std::printf("%s\n", line.c_str()); });
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
              result.finding.empty() ? "nothing found" : result.finding.c_str());
  return result.finding.empty() ? 0 : 1;
}

int explore(uint64_t first, uint64_t count) {
  sim::ScheduleResult sum;
  uint64_t found = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const sim::ScheduleResult result = sim::run_schedule(seed);
    sum.requests += result.requests;
    sum.completed += result.completed;
    sum.failed += result.failed;
    sum.deaths += result.deaths;
    sum.stops += result.stops;
    if (!result.finding.empty()) {
      ++found;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), result.finding.c_str());
    }
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::printf(
      "%llu schedules in %.1f s: %d requests, %d completed, %d failed with a reason, %d "
      "deaths, %d stops; %llu schedules with a finding\n",
      static_cast<unsigned long long>(count), time.count(), sum.requests, sum.completed, sum.failed,
      sum.deaths, sum.stops, static_cast<unsigned long long>(found));
  return found == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  baton::LogOptions log;
  log.level = baton::LogLevel::kError;
  log.program = "kv_simulation";
  baton::init_log(log);
  const auto second = argc == 3 ? number(argv[2]) : std::nullopt;
  if (second && std::strcmp(argv[1], "--trace") == 0) {
    return trace(*second);
  }
  const auto first = argc == 3 ? number(argv[1]) : std::nullopt;
  if (first && second) {
    return explore(*first, *second);
  }
  std::fprintf(stderr, "usage: kv_simulation FIRST COUNT | kv_simulation --trace SEED\n");
  return 2;
}
