// Speed of the product against the probes of the same second, one thread and two. The name is
// level/format/rows/threads, with /fast for `numerics: fast`; `of_peak` is FLOP/s over the FMA
// (tile) probe, `of_read` is bytes of packed weights over the streaming read of the same buffer.
// Probes and product are timed by the CPU time of their threads, so that other programs on the
// machine distort them less.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/device/compute_team.h"
#include "common/device/cpu_info.h"
#include "common/kernels/matmul/matmul.h"
#include "common/kernels/matmul/test_matrices.h"
#include "common/kernels/probe/probe.h"

namespace baton::kernels {
namespace {

using device::ComputeTeam;
using device::Isa;
using device::TeamThread;

constexpr int kK = 1536;
constexpr size_t kStreamedBytes = size_t{96} << 20;  // beyond the last-level cache
constexpr int kCachedPanels = 36;                    // 576 columns, a small model's layer

class ThreadCpuClock final : public Clock {
 public:
  TimePoint now() const override {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return TimePoint(std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec));
  }
};

SourceType source_of(WeightFormat format) {
  for (const SourceType type : kAllSourceTypes) {
    if (decode_format(type) == format) {
      return type;
    }
  }
  return SourceType::kBf16;
}

// Packs four panels and repeats them: packing 96 MiB of every format would take longer than the
// measurement.
PackedMatrix make_matrix(WeightFormat format) {
  constexpr int kRealPanels = 4;
  TestRandom random(1);
  const TestMatrix source = random_matrix(random, source_of(format), kRealPanels * kPanelRows, kK);
  PackedMatrix few(format, source.n, kK);
  pack_rows(few, 0, source.type, source.rows(), kK, 0);
  const int panels = static_cast<int>(kStreamedBytes / few.panel_bytes());
  PackedMatrix all(format, panels * kPanelRows, kK);
  for (int i = 0; i < panels; ++i) {
    std::memcpy(all.mutable_panel(i), few.panel(i % kRealPanels), few.panel_bytes());
  }
  return all;
}

std::span<const std::byte> bytes_of(const PackedMatrix& w, int thread, int threads) {
  const size_t share = w.bytes() / static_cast<size_t>(threads) / 64 * 64;
  return {w.panel(0) + share * static_cast<size_t>(thread), share};
}

struct Probes {
  double flops = 0;
  double read = 0;
};

Probes probe(ComputeTeam& team, Isa isa, const PackedMatrix& w) {
  const ThreadCpuClock clock;
  const int threads = team.threads_per_rank();
  std::vector<Probes> each(static_cast<size_t>(threads));
  team.run([&](TeamThread& t) {
    Probes& mine = each[static_cast<size_t>(t.thread)];
    t.rank_barrier();
    mine.flops = probe_peak_flops(isa, clock, 10ms);
    t.rank_barrier();
    mine.read = probe_read_bytes(isa, clock, bytes_of(w, t.thread, threads), 20ms);
  });
  Probes sum;
  for (const Probes& p : each) {
    sum.flops += p.flops;
    sum.read += p.read;
  }
  return sum;
}

// Made when first asked for, so that a filtered run packs only what it measures.
class Matrices {
 public:
  const PackedMatrix& of(WeightFormat format) {
    if (!made_.contains(format)) {
      made_.emplace(format, make_matrix(format));
    }
    return made_.at(format);
  }

 private:
  std::map<WeightFormat, PackedMatrix> made_;
};

struct Case {
  Isa isa;
  WeightFormat format;
  int rows;
  int threads;
  Arithmetic arithmetic = Arithmetic::kCanonical;
};

void run_benchmark(benchmark::State& state, Matrices& matrices, const Case& c) {
  const auto [isa, format, rows, threads, arithmetic] = c;
  device::TeamOptions options;
  options.cpus.assign(1, std::vector<int>(static_cast<size_t>(threads), -1));
  const auto team = ComputeTeam::create(options).value();
  const PackedMatrix& w = matrices.of(format);
  TestRandom random(2);
  const std::vector<uint16_t> x = random_activations(random, rows, kK, kK);
  // Few rows stream the weights as decoding does; many rows use them from the cache as a prompt
  // does.
  const int panels = rows <= 16 ? w.panels() : kCachedPanels;
  std::vector<float> y(static_cast<size_t>(rows) * static_cast<size_t>(w.panels() * kPanelRows));
  MatmulParams params{&w, x.data(), kK, rows, y.data(), panels * kPanelRows, arithmetic};
  // Made where activations are made, once for all products that read them.
  std::vector<CodeBlock> codes(x.size() / kBlockK);
  if (arithmetic == Arithmetic::kFast) {
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      code_row(x.data() + row * kK, kK / kBlockK, codes.data() + row * (kK / kBlockK));
    }
    params.codes = codes.data();
    params.codes_stride = kK / kBlockK;
  }
  const int grain = matmul_panel_grain(isa, format, rows, kK);
  const int items = (panels + grain - 1) / grain;
  const Probes before = probe(*team, isa, w);
  std::vector<double> seconds(static_cast<size_t>(threads));
  for (auto _ : state) {
    team->run([&](TeamThread& t) {
      const ThreadCpuClock clock;
      const TimePoint begin = clock.now();
      std::byte* scratch = t.scratch(0, matmul_scratch_bytes(isa, format, rows, kK));
      for (int i; (i = t.next(0, items)) < items;) {
        matmul(isa, params, i * grain, std::min(panels, (i + 1) * grain), scratch);
      }
      seconds[static_cast<size_t>(t.thread)] = to_seconds(clock.now() - begin);
      t.rank_barrier();
      t.reset_counter(0);
    });
    double sum = 0;
    for (const double s : seconds) {
      sum += s;
    }
    state.SetIterationTime(sum / threads);
  }
  const Probes after = probe(*team, isa, w);
  using benchmark::Counter;
  const double runs = static_cast<double>(state.iterations());
  const double weights = static_cast<double>(panels) * kPanelRows * kK * runs;
  const double read = static_cast<double>(w.panel_bytes()) * panels * runs;
  state.counters["GFLOPs"] = Counter(2e-9 * weights * rows, Counter::kIsRate);
  state.counters["of_peak"] =
      Counter(2 * weights * rows / (0.5 * (before.flops + after.flops)), Counter::kIsRate);
  state.counters["GB"] = Counter(1e-9 * read, Counter::kIsRate);
  state.counters["of_read"] = Counter(read / (0.5 * (before.read + after.read)), Counter::kIsRate);
  state.counters["peak_GFLOPs"] = 0.5e-9 * (before.flops + after.flops);
  state.counters["read_GB"] = 0.5e-9 * (before.read + after.read);
}

void add(const std::shared_ptr<Matrices>& matrices, const Case& c) {
  const std::string name = std::string(device::isa_name(c.isa)) + "/" +
                           std::string(weight_format_name(c.format)) + "/rows" +
                           std::to_string(c.rows) + "/threads" + std::to_string(c.threads) +
                           (c.arithmetic == Arithmetic::kFast ? "/fast" : "");
  benchmark::RegisterBenchmark(
      name.c_str(), [matrices, c](benchmark::State& state) { run_benchmark(state, *matrices, c); })
      ->UseManualTime()
      ->MinTime(0.05)
      ->Unit(benchmark::kMillisecond);
}

void add_all() {
  const auto matrices = std::make_shared<Matrices>();
  std::printf("CPU %s, levels:", device::cpu_info().model.c_str());
  for (const Isa isa : device::available_isas()) {
    std::printf(" %s", std::string(device::isa_name(isa)).c_str());
    if (isa == Isa::kScalar) {
      add(matrices, {isa, WeightFormat::kBf16Panels, 32, 1});
      continue;
    }
    const bool best = isa == device::available_isas().back();
    for (const WeightFormat format :
         {WeightFormat::kBf16Panels, WeightFormat::kQ4, WeightFormat::kQ4Symmetric,
          WeightFormat::kQ8, WeightFormat::kK4, WeightFormat::kK5, WeightFormat::kK6}) {
      const bool main_format = format == WeightFormat::kBf16Panels || format == WeightFormat::kQ4;
      add(matrices, {isa, format, 1, 1});
      if (best) {
        add(matrices, {isa, format, 1, 2});
        add(matrices, {isa, format, 16, 1});
      }
      if (best && main_format) {
        add(matrices, {isa, format, 4, 1});
        add(matrices, {isa, format, 8, 1});
        add(matrices, {isa, format, 16, 2});
      }
      if (main_format) {
        add(matrices, {isa, format, 128, 1});
      }
      for (const int rows : {1, 16, 128}) {
        if (has_fast_arithmetic(isa)) {
          add(matrices, {isa, format, rows, 1, Arithmetic::kFast});
        }
      }
    }
  }
  std::printf("\n");
}

const bool kRegistered = (add_all(), true);

}  // namespace
}  // namespace baton::kernels
