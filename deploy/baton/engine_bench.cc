#include "deploy/baton/engine_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/config/program_options.h"
#include "common/engine/step_cost.h"
#include "deploy/baton/sequence_runner.h"

namespace baton::cli {
namespace {

constexpr Duration kEnough = 2s;  // of one measurement, once it has as many values as asked for
constexpr int kMostRepeats = 50;
constexpr double kSteadyWithin = 0.15;
constexpr Duration kProbeTime = 50ms;
constexpr uint16_t kOneSixteenth = 0x3D80;  // as bf16

// The median time of `once` in seconds, of at least `repeats` times.
template <typename Once>
Result<double> median_seconds(const Clock& clock, int repeats, const Once& once) {
  std::vector<double> seconds;
  const TimePoint begin = clock.now();
  while (static_cast<int>(seconds.size()) < repeats ||
         (clock.now() - begin < kEnough && static_cast<int>(seconds.size()) < kMostRepeats)) {
    const TimePoint start = clock.now();
    BATON_RETURN_IF_ERROR(once());
    seconds.push_back(to_seconds(clock.now() - start));
  }
  return median(std::move(seconds));
}

// Ordinary-looking ids, spread over the vocabulary.
std::vector<TokenId> some_tokens(int count, int vocab) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 101) % vocab));
  }
  return tokens;
}

Status measure_prefill(const EngineBenchOptions& options, const Clock& clock,
                       EngineBenchResult& result) {
  const int longest = *std::ranges::max_element(options.prompts);
  BATON_ASSIGN_OR_RETURN(
      const std::unique_ptr<engine::Engine> engine,
      make_engine(
          options.engine,
          {.positions = longest, .batch_tokens = options.engine.chunk, .pinned_spinning = true},
          engine::EngineOptions::Pool::kPrefill));
  SequenceRunner runner(*engine, options.engine.chunk);
  if (longest > runner.capacity()) {
    return invalid_argument("--prompt " + std::to_string(longest) +
                            " is longer than the model's context of " +
                            std::to_string(engine->description().max_context));
  }
  result.start.flops = engine->probe(kProbeTime).flops;
  for (const int prompt : options.prompts) {
    const std::vector<TokenId> tokens = some_tokens(prompt, engine->description().vocab);
    // A first step warms up; all of a long prompt takes long.
    runner.reset();
    runner.feed(std::span(tokens).first(std::min(tokens.size(), size_t(options.engine.chunk))));
    std::vector<double> attention;
    BATON_ASSIGN_OR_RETURN(const double seconds, median_seconds(clock, options.repeats, [&] {
                             runner.reset();
                             const Status status = runner.feed_for_logits(tokens, false).status();
                             attention.push_back(runner.attention_seconds());
                             return status;
                           }));
    const double attention_seconds = median(std::move(attention));
    result.prefill.push_back(
        {.prompt = prompt,
         .tokens_per_s = prompt / seconds,
         .flops_per_s = prefill_flops(engine->description(), prompt) / seconds,
         .attention_flops_per_s =
             prefill_attention_flops(engine->description(), prompt) / attention_seconds,
         .attention_time_share = attention_seconds / seconds});
  }
  return Status();
}

// A step of `batch` sequences that all stand at position `context`, each with blocks of its own.
std::unique_ptr<engine::BatchPlan> decode_plan(const engine::Engine& engine, int context,
                                               std::vector<sampling::SequenceSampler>& samplers) {
  const int block_tokens = engine.pool(0).layout().block_tokens;
  const int blocks = context / block_tokens + 1;
  auto batch = std::make_unique<engine::BatchPlan>();
  for (size_t i = 0; i < samplers.size(); ++i) {
    engine::SequencePlan sequence;
    sequence.id = SequenceId{i + 1};
    sequence.tokens = some_tokens(1, engine.description().vocab);
    sequence.first_position = context;
    for (int block = 0; block < blocks; ++block) {
      sequence.blocks.push_back(static_cast<BlockId>(i * static_cast<size_t>(blocks)) +
                                static_cast<BlockId>(block));
    }
    if (engine.pool(0).layout().group_count() > 1) {
      sequence.window_blocks = sequence.blocks;
    }
    sequence.logits = engine::LogitsWanted::kLast;
    sequence.samples.push_back({&samplers[i]});
    batch->sequences.push_back(std::move(sequence));
  }
  return batch;
}

Result<double> decode_seconds(engine::Engine& engine, int batch, int context, int repeats,
                              const Clock& clock) {
  sampling::SamplingParams greedy;
  greedy.temperature = 0;
  std::vector<sampling::SequenceSampler> samplers;
  for (int i = 0; i < batch; ++i) {
    samplers.emplace_back(greedy, std::span<const TokenId>(), std::span<const TokenId>(), 0,
                          engine.description().vocab);
  }
  const auto step = [&] {
    return engine.run(decode_plan(engine, context, samplers)).sequences[0].error;
  };
  BATON_RETURN_IF_ERROR(step());  // warms up
  return median_seconds(clock, repeats, step);
}

Status measure_decode(const EngineBenchOptions& options, const Clock& clock,
                      EngineBenchResult& result) {
  const int largest = *std::ranges::max_element(options.decode_batches);
  const int longest = *std::ranges::max_element(options.contexts);
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                         make_engine(options.engine,
                                     {.positions = longest + 1,
                                      .sequences = largest,
                                      .batch_tokens = std::max(largest, options.engine.chunk),
                                      .pinned_spinning = true},
                                     engine::EngineOptions::Pool::kDecode));
  const model::ModelDescription& model = engine->description();
  if (longest >= model.max_context) {
    return invalid_argument("--context " + std::to_string(longest) +
                            " does not fit the model's context of " +
                            std::to_string(model.max_context));
  }
  // The time of a step does not depend on what the keys and values are, only on how many.
  for (int rank = 0; rank < engine->ranks(); ++rank) {
    engine->pool(rank).fill(kOneSixteenth);
  }
  // Of these weights, which are smaller than those of the prefill: a cache may hold more of them.
  result.start.read_bytes_per_s = engine->probe(kProbeTime).read_bytes_per_s;
  for (const int context : options.contexts) {
    for (const int batch : options.decode_batches) {
      BATON_ASSIGN_OR_RETURN(const double seconds,
                             decode_seconds(*engine, batch, context, options.repeats, clock));
      const double bytes = decode_bytes(*engine, batch, context);
      result.decode.push_back({.batch = batch,
                               .context = context,
                               .tokens_per_s = batch / seconds,
                               .bytes = bytes,
                               .bytes_per_s = bytes / seconds});
    }
  }
  result.end = engine->probe(kProbeTime);
  return Status();
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) {
      return line.substr(line.find(": ") + 2);
    }
  }
  return "unknown";
}

Result<EngineBenchResult> run(const EngineBenchOptions& options) {
  const SteadyClock clock;
  EngineBenchResult result;
  BATON_ASSIGN_OR_RETURN(const device::Isa isa, device::choose_isa(options.engine.isa));
  BATON_ASSIGN_OR_RETURN(result.threads, thread_count(options.engine));
  result.isa = device::isa_name(isa);
  result.cpu = processor_name();
  result.ranks = options.engine.tensor_parallel;
  BATON_RETURN_IF_ERROR(measure_prefill(options, clock, result));
  BATON_RETURN_IF_ERROR(measure_decode(options, clock, result));
  return result;
}

template <typename... Values>
void append(std::string& out, const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof(text), format, values...);
  out += text;
}

void append_probe(std::string& out, const char* name, const model::MachineProbe& probe) {
  append(out, "\"%s\":{\"flops\":%.4g,\"read_bytes_per_s\":%.4g}", name, probe.flops,
         probe.read_bytes_per_s);
}

// Relative to the larger one.
double difference(double a, double b) { return std::abs(a - b) / std::max({a, b, 1e-9}); }

}  // namespace

double prefill_flops(const model::ModelDescription& model, int tokens) {
  return engine::flops(model, tokens, 0, 1);
}

double prefill_attention_flops(const model::ModelDescription& model, int tokens) {
  return engine::attention_flops(model, tokens, 0);
}

double decode_bytes(const engine::Engine& engine, int batch, int context) {
  double bytes = 0;
  for (int rank = 0; rank < engine.ranks(); ++rank) {
    const kv_cache::KvPool& pool = engine.pool(rank);
    const double per_token = static_cast<double>(pool.block_bytes()) / pool.layout().block_tokens;
    bytes += static_cast<double>(engine.weight_bytes(rank)) +
             per_token * batch * engine::read_positions(engine.description(), context, 1);
  }
  return bytes;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

bool EngineBenchResult::steady() const {
  return difference(start.flops, end.flops) <= kSteadyWithin &&
         difference(start.read_bytes_per_s, end.read_bytes_per_s) <= kSteadyWithin;
}

model::MachineProbe EngineBenchResult::mean() const {
  return {.flops = (start.flops + end.flops) / 2,
          .read_bytes_per_s = (start.read_bytes_per_s + end.read_bytes_per_s) / 2};
}

std::string bench_json(const EngineBenchResult& result) {
  const model::MachineProbe mean = result.mean();
  std::string out = "{\"prefill\":[";
  for (const PrefillRate& rate : result.prefill) {
    out += out.ends_with('[') ? "" : ",";
    append(out,
           "{\"prompt\":%d,\"tokens_per_s\":%.2f,\"peak_share\":%.4f,"
           "\"attention_peak_share\":%.4f,\"attention_time_share\":%.4f}",
           rate.prompt, rate.tokens_per_s, rate.flops_per_s / mean.flops,
           rate.attention_flops_per_s / mean.flops, rate.attention_time_share);
  }
  out += "],\"decode\":[";
  for (const DecodeRate& rate : result.decode) {
    out += out.ends_with('[') ? "" : ",";
    append(out,
           "{\"batch\":%d,\"context\":%d,\"tokens_per_s\":%.2f,\"step_bytes\":%.0f,"
           "\"bandwidth_share\":%.4f}",
           rate.batch, rate.context, rate.tokens_per_s, rate.bytes,
           rate.bytes_per_s / mean.read_bytes_per_s);
  }
  out += "],\"probe\":{";
  append_probe(out, "start", result.start);
  out += ',';
  append_probe(out, "end", result.end);
  append(out, ",\"steady\":%s},\"isa\":\"%s\",\"threads\":%d,\"tensor_parallel\":%d}",
         result.steady() ? "true" : "false", result.isa.c_str(), result.threads, result.ranks);
  return out;
}

std::string bench_table(const EngineBenchResult& result) {
  const model::MachineProbe mean = result.mean();
  const config::VersionInfo version = config::version_info();
  std::string out;
  append(out, "%s, %d threads, %d ranks, %s; commit %s, %s\n", result.cpu.c_str(), result.threads,
         result.ranks, result.isa.c_str(), version.commit.c_str(), version.build_type.c_str());
  append(out, "probe at start: %.0f GFLOP/s, %.1f GB/s; at end: %.0f GFLOP/s, %.1f GB/s\n",
         result.start.flops / 1e9, result.start.read_bytes_per_s / 1e9, result.end.flops / 1e9,
         result.end.read_bytes_per_s / 1e9);
  if (!result.steady()) {
    out += "the two probes differ by more than 15 %: shares below are no verdict\n";
  }
  append(out, "%-22s %12s %18s\n", "", "tokens/s", "of the roofline");
  for (const PrefillRate& rate : result.prefill) {
    append(out,
           "prefill %-14d %12.1f %10.1f %% peak; attention %.0f %% of the time, %.1f %% peak\n",
           rate.prompt, rate.tokens_per_s, 100 * rate.flops_per_s / mean.flops,
           100 * rate.attention_time_share, 100 * rate.attention_flops_per_s / mean.flops);
  }
  for (const DecodeRate& rate : result.decode) {
    append(out, "decode  %3d x %-8d %12.1f %10.1f %% bandwidth\n", rate.batch, rate.context,
           rate.tokens_per_s, 100 * rate.bytes_per_s / mean.read_bytes_per_s);
  }
  return out;
}

int run_engine_bench(const EngineBenchOptions& options) {
  const Result<EngineBenchResult> result = run(options);
  if (!result.ok()) {
    std::fprintf(stderr, "baton: %s\n", result.status().message().c_str());
    return config::kExitCannotStart;
  }
  std::printf("%s",
              options.json ? (bench_json(*result) + "\n").c_str() : bench_table(*result).c_str());
  return config::kExitStopped;
}

}  // namespace baton::cli
