// Attention of one KV head with three query heads of 64 dims (SmolLM2-135M), one thread, each
// instruction-set level: causal prefill of a whole prompt, and decode of one token. GFLOPS counts
// the two products over visible keys, OfPeak divides it by the probe of the same moment.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/device/compute_team.h"
#include "common/kernels/attention/attention.h"
#include "common/kernels/probe/probe.h"
#include "common/kernels/small/small_ops.h"

namespace baton::kernels {
namespace {

constexpr int kDim = 64;
constexpr int kHeads = 3;

// Time of this thread alone, as the rates below: other processes do not spoil the ratio.
class ThreadClock final : public Clock {
 public:
  TimePoint now() const override {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return TimePoint(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
  }
};

struct AlignedBytes {
  explicit AlignedBytes(size_t bytes) : data(new(std::align_val_t{64}) std::byte[bytes]) {}
  ~AlignedBytes() { operator delete[](data, std::align_val_t{64}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data;
};

void run_attention(benchmark::State& state, device::Isa isa, int rows, int context) {
  const device::FlushDenormals flush;
  SeededRandom random(7);
  AttentionParams p;
  p.kv = {.block_tokens = 32, .kv_heads = 1, .head_dim = kDim};
  p.kv.block_stride = 2 * p.kv.half_bytes();
  std::vector<BlockId> blocks((context + 31) / 32);
  std::iota(blocks.begin(), blocks.end(), 0u);
  const AlignedBytes pool(blocks.size() * p.kv.block_stride);
  auto* values = reinterpret_cast<uint16_t*>(pool.data);
  for (size_t i = 0; i < blocks.size() * p.kv.block_stride / 2; ++i) {
    values[i] = bf16_from_float(static_cast<float>(random.next() % 2048) / 1024.0f - 1.0f);
  }
  std::vector<uint16_t> q(size_t(rows) * kHeads * kDim, bf16_from_float(0.5f));
  std::vector<uint16_t> out(q.size());
  p.kv.base = pool.data;
  p.blocks = blocks;
  p.q = q.data();
  p.out = out.data();
  p.q_stride = p.out_stride = kHeads * kDim;
  p.rows = rows;
  p.first_position = context - rows;
  p.q_head_end = kHeads;
  p.scale = 0.125f;
  const AlignedBytes scratch(attention_scratch_bytes(isa, kDim, context));

  const int grain = attention_row_grain(isa, kHeads);
  for (auto _ : state) {
    for (int row = 0; row < rows; row += grain) {
      attention(isa, p, row, std::min(rows, row + grain), scratch.data);
    }
    benchmark::ClobberMemory();
  }
  double keys = 0;
  for (int row = 0; row < rows; ++row) {
    keys += context - rows + row + 1;
  }
  const double flops = keys * kHeads * kDim * 4 * static_cast<double>(state.iterations());
  const double peak = probe_peak_flops(isa, ThreadClock(), std::chrono::milliseconds(20));
  state.counters["GFLOPS"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsRate);
  state.counters["OfPeak"] = benchmark::Counter(flops / peak, benchmark::Counter::kIsRate);
}

void register_level(device::Isa isa) {
  const std::string name(isa_name(isa));
  const double seconds = 0.15;
  for (int rows : {512, 2048}) {
    if (isa == device::Isa::kScalar && rows > 512) {
      continue;  // takes seconds
    }
    benchmark::RegisterBenchmark(("Prefill/" + name + "/" + std::to_string(rows)).c_str(),
                                 run_attention, isa, rows, rows)
        ->MinTime(seconds);
  }
  for (int context : {256, 1024, 4096}) {
    benchmark::RegisterBenchmark(("Decode/" + name + "/" + std::to_string(context)).c_str(),
                                 run_attention, isa, 1, context)
        ->MinTime(seconds);
  }
}

}  // namespace
}  // namespace baton::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (baton::device::Isa isa : baton::device::available_isas()) {
    baton::kernels::register_level(isa);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
