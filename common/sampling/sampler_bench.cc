// Time of one sample of 131,072 logits shaped like a model's: a few likely tokens over a broad
// rest.

#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "common/sampling/sampler.h"

namespace {

using baton::sampling::SamplingParams;

constexpr int kVocab = 131'072;

std::vector<float> make_logits(float spread) {
  baton::SeededRandom random(5);
  std::vector<float> logits(kVocab);
  for (float& x : logits) {
    float sum = 0.0f;
    for (int i = 0; i < 6; ++i) {
      sum += static_cast<float>(random.next() >> 40) * 0x1p-24f - 0.5f;
    }
    x = spread * sum;
  }
  for (int i = 0; i < 40; ++i) {
    logits[random.next() % kVocab] += 3.0f * spread;
  }
  return logits;
}

void run(benchmark::State& state, const SamplingParams& params, float spread) {
  const std::vector<float> logits = make_logits(spread);
  std::vector<float> row(logits.size());
  baton::sampling::Scratch scratch;
  baton::sampling::SequenceSampler sampler(params, {}, {}, 0, kVocab);
  for (auto step : state) {
    state.PauseTiming();
    row = logits;
    state.ResumeTiming();
    auto sampled = sampler.sample(row, scratch);
    benchmark::DoNotOptimize(sampled.ok());
  }
  state.SetLabel(std::string(isa_name(scratch.isa)));
}

void greedy(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.0f;
  run(state, params, 3.0f);
}
void unfiltered(benchmark::State& state) { run(state, {}, 3.0f); }
void top_k_top_p(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.7f;
  params.top_k = 50;
  params.top_p = 0.9f;
  run(state, params, 3.0f);
}
void top_p(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.7f;
  params.top_p = 0.9f;
  run(state, params, 3.0f);
}
void top_p_flat(benchmark::State& state) {
  SamplingParams params;
  params.top_p = 0.95f;
  run(state, params, 0.3f);
}
void min_p(benchmark::State& state) {
  SamplingParams params;
  params.min_p = 0.05f;
  run(state, params, 3.0f);
}
void logprobs(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.logprobs = 20;
  run(state, params, 3.0f);
}

BENCHMARK(greedy);
BENCHMARK(unfiltered);
BENCHMARK(top_k_top_p);
BENCHMARK(top_p);
BENCHMARK(top_p_flat);
BENCHMARK(min_p);
BENCHMARK(logprobs);

}  // namespace
