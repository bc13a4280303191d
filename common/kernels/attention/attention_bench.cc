// Attention of one KV head with three query heads of 64 dims (SmolLM2-135M), one thread, each
// instruction-set level: causal prefill of a whole prompt, and decode of one token, from the caches
// and (Stream) from memory. GFLOPS counts the two products over visible keys, OfPeak divides it by
// the probe of the same moment, OfRead the bytes of keys and values by a streaming read of them.

#include <benchmark/benchmark.h>
#include <sys/mman.h>
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

constexpr size_t kHugePage = size_t{2} << 20;

struct AlignedBytes {
  explicit AlignedBytes(size_t bytes) : data(new(std::align_val_t{kHugePage}) std::byte[bytes]) {
    madvise(data, bytes, MADV_HUGEPAGE);  // a wish, as for a pool
  }
  ~AlignedBytes() { operator delete[](data, std::align_val_t{kHugePage}); }
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

// Decode steps of sequences that lie in memory with three KV heads, one after the other.
void run_stream(benchmark::State& state, device::Isa isa, Arithmetic arithmetic, int context) {
  const device::FlushDenormals flush;
  constexpr int kKvHeads = 3;
  constexpr size_t kPoolBytes = size_t{192} << 20;
  AttentionParams p;
  p.kv = {.block_tokens = 32, .kv_heads = kKvHeads, .head_dim = kDim};
  p.kv.block_stride = 2 * p.kv.half_bytes();
  const AlignedBytes pool(kPoolBytes);
  std::fill_n(reinterpret_cast<uint16_t*>(pool.data), kPoolBytes / 2, bf16_from_float(0.0625f));
  std::vector<BlockId> blocks(kPoolBytes / p.kv.block_stride);
  std::iota(blocks.begin(), blocks.end(), 0u);
  std::vector<uint16_t> q(size_t(kHeads) * kDim, bf16_from_float(0.5f));
  std::vector<uint16_t> out(q.size());
  p.kv.base = pool.data;
  p.q = q.data();
  p.out = out.data();
  p.q_stride = p.out_stride = kHeads * kDim;
  p.rows = 1;
  p.first_position = context - 1;
  p.q_head_end = kHeads;
  p.scale = 0.125f;
  p.arithmetic = arithmetic;
  const AlignedBytes scratch(attention_scratch_bytes(isa, kDim, context));
  const size_t held = static_cast<size_t>(context) / 32;
  size_t first = 0;
  for (auto _ : state) {
    p.blocks = std::span(blocks).subspan(first, held);
    for (p.kv_head = 0; p.kv_head < kKvHeads; ++p.kv_head) {
      attention(isa, p, 0, 1, scratch.data);
    }
    first = first + 2 * held <= blocks.size() ? first + held : 0;
    benchmark::ClobberMemory();
  }
  const double bytes = static_cast<double>(held * p.kv.block_stride * state.iterations());
  const double read =
      probe_read_bytes(isa, ThreadClock(), {pool.data, kPoolBytes}, std::chrono::milliseconds(20));
  state.counters["GB"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
  state.counters["OfRead"] = benchmark::Counter(bytes / read, benchmark::Counter::kIsRate);
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
  for (int context : {256, 4096}) {
    for (const Arithmetic arithmetic : {Arithmetic::kCanonical, Arithmetic::kFast}) {
      if (isa == device::Isa::kScalar ||
          (arithmetic == Arithmetic::kFast && !has_fast_arithmetic(isa))) {
        continue;
      }
      const char* suffix = arithmetic == Arithmetic::kFast ? "/fast" : "";
      benchmark::RegisterBenchmark(
          ("Stream/" + name + "/" + std::to_string(context) + suffix).c_str(), run_stream, isa,
          arithmetic, context)
          ->MinTime(seconds);
    }
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
