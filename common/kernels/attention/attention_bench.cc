// Attention of one KV head with three query heads of 64 dims (SmolLM2-135M), one thread, each
// instruction-set level: causal prefill of a whole prompt, and decode of one token. GFLOPS counts
// the two products over visible keys. FmaPeak is what the same core reaches on registers alone.

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/device/compute_team.h"
#include "common/kernels/attention/attention.h"
#include "common/kernels/small/small_ops.h"

namespace baton::kernels {
namespace {

constexpr int kDim = 64;
constexpr int kHeads = 3;

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
  state.counters["GFLOPS"] =
      benchmark::Counter(keys * kHeads * kDim * 4 * static_cast<double>(state.iterations()) * 1e-9,
                         benchmark::Counter::kIsRate);
}

[[gnu::target("avx512f")]] void fma_peak_avx512(float* out) {
  __m512 a = _mm512_set1_ps(out[0]);
  __m512 acc[12];
  for (int i = 0; i < 12; ++i) {
    acc[i] = _mm512_set1_ps(out[i]);  // unequal, else the compiler keeps one chain
  }
  for (int i = 0; i < 1000; ++i) {
#pragma GCC unroll 12
    for (__m512& x : acc) {
      x = _mm512_fmadd_ps(x, a, a);
    }
  }
  for (const __m512& x : acc) {
    a = _mm512_add_ps(a, x);
  }
  _mm512_storeu_ps(out, a);
}

[[gnu::target("avx2,fma")]] void fma_peak_avx2(float* out) {
  __m256 a = _mm256_set1_ps(out[0]);
  __m256 acc[12];
  for (int i = 0; i < 12; ++i) {
    acc[i] = _mm256_set1_ps(out[i]);  // unequal, else the compiler keeps one chain
  }
  for (int i = 0; i < 1000; ++i) {
#pragma GCC unroll 12
    for (__m256& x : acc) {
      x = _mm256_fmadd_ps(x, a, a);
    }
  }
  for (const __m256& x : acc) {
    a = _mm256_add_ps(a, x);
  }
  _mm256_storeu_ps(out, a);
}

void run_peak(benchmark::State& state, void (*peak)(float*), int width) {
  float out[16];
  for (auto _ : state) {
    std::iota(std::begin(out), std::end(out), 0.25f);
    benchmark::DoNotOptimize(out);
    peak(out);
    benchmark::DoNotOptimize(out);
  }
  state.counters["GFLOPS"] =
      benchmark::Counter(12e3 * 2 * width * static_cast<double>(state.iterations()) * 1e-9,
                         benchmark::Counter::kIsRate);
}

void register_level(device::Isa isa) {
  const std::string name(isa_name(isa));
  const double seconds = 0.15;
  if (isa == device::Isa::kAvx2) {
    benchmark::RegisterBenchmark("FmaPeak/avx2", run_peak, fma_peak_avx2, 8)->MinTime(seconds);
  }
  if (isa == device::Isa::kAvx512) {
    benchmark::RegisterBenchmark("FmaPeak/avx512", run_peak, fma_peak_avx512, 16)->MinTime(seconds);
  }
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
