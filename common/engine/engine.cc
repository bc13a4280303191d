#include "common/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/engine/cache_shape.h"
#include "common/engine/divergence.h"
#include "common/engine/memory_need.h"
#include "common/engine/step.h"
#include "common/kv_cache/prefault.h"
#include "common/model/open_model.h"
#include "common/model/weights.h"

namespace baton::engine {
namespace {

constexpr int kMaxBatchTokens = 1 << 20;

model::ParallelFor parallel_for(device::ComputeTeam& team) {
  return [&team](int n, const std::function<void(int)>& body) {
    std::atomic<int> next{0};
    team.run([&](device::TeamThread&) {
      for (int i = 0; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        body(i);
      }
    });
  };
}

Result<kv_cache::KvPool> make_pool(const EngineOptions& options, const kv_cache::KvLayout& layout,
                                   kv_cache::HeadRange heads, const std::vector<int>& blocks) {
  if (options.backing == kv_cache::Backing::kShared) {
    Result<kv_cache::KvPool> pool =
        kv_cache::KvPool::create(layout, heads, blocks, options.touch, kv_cache::Backing::kShared);
    if (pool.ok() || pool.status().code() != StatusCode::kUnsupported) {
      return pool;
    }
    log_warn("KV cannot be put into this worker", {{"reason", pool.status().message()}});
  }
  return kv_cache::KvPool::create(layout, heads, blocks, options.touch);
}

Status check(const EngineOptions& options) {
  if (std::ranges::find(device::available_isas(), options.isa) == device::available_isas().end()) {
    return invalid_argument("engine: this machine cannot run " +
                            std::string(device::isa_name(options.isa)));
  }
  if (options.max_batch_tokens < 1 || options.max_batch_tokens > kMaxBatchTokens) {
    return invalid_argument("engine: max_batch_tokens is " +
                            std::to_string(options.max_batch_tokens) + ", expected 1.." +
                            std::to_string(kMaxBatchTokens));
  }
  if (options.max_context < 0) {
    return invalid_argument("engine: max_context is " + std::to_string(options.max_context) +
                            ", expected 0 (the model's own) or more");
  }
  return Status();
}

}  // namespace

struct Engine::State {
  EngineOptions options;
  SteadyClock clock;
  std::unique_ptr<model::Weights> weights;
  std::vector<kv_cache::KvPool> pools;
  std::atomic<bool> step_runs{false};  // before what asks for it
  std::unique_ptr<kv_cache::Prefaulter> prefaulter;
  std::unique_ptr<model::Forward> forward;
  KvWritten kv_written;
  model::ForwardHooks hooks;

  // The running step.
  std::unique_ptr<Step> step;
  std::vector<ThreadBuffers> buffers;  // per thread of the team
  std::function<void(StepOutput)> done;
  TimePoint started;
  // Written by one compute thread.
  TimePoint first_layer_done;
  TimePoint attention_started;
  Duration attention_time{};

  // Last, so that its threads end before what they use.
  std::unique_ptr<device::ComputeTeam> team;

  Status load();
  bool computing() const;
  void set_hooks();
  void run_step(device::TeamThread& thread);
  void finish_step();
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
  BATON_RETURN_IF_ERROR(check(options));
  auto state = std::make_unique<State>();
  state->options = options;
  BATON_ASSIGN_OR_RETURN(state->team, device::ComputeTeam::create(options.team));
  BATON_RETURN_IF_ERROR(state->load());
  state->set_hooks();
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Status Engine::State::load() {
  BATON_ASSIGN_OR_RETURN(model::OpenModel opened, model::open_model(options.model_path));
  model::ModelDescription& description = opened.description;
  if (options.max_context > description.max_context) {
    return invalid_argument("engine: max_context is " + std::to_string(options.max_context) +
                            ", the model has " + std::to_string(description.max_context));
  }
  if (options.max_context > 0) {
    description.max_context = options.max_context;
  }
  BATON_ASSIGN_OR_RETURN(const model::SegmentPlan plan,
                         model::SegmentPlan::create(description, options.segments, team->ranks()));
  BATON_ASSIGN_OR_RETURN(
      weights, model::Weights::load(std::move(opened.file), description, plan, weight_pool(options),
                                    parallel_for(*team), {.folders = options.packed_folders}));
  BATON_ASSIGN_OR_RETURN(const kv_cache::KvLayout layout,
                         cache_layout(description, options.block_tokens));
  BATON_ASSIGN_OR_RETURN(const std::vector<int> blocks,
                         cache_blocks(options, layout, plan, description.max_context));
  for (int rank = 0; rank < team->ranks(); ++rank) {
    BATON_ASSIGN_OR_RETURN(kv_cache::KvPool kv,
                           make_pool(options, layout, plan.rank_kv_heads(rank), blocks));
    pools.push_back(std::move(kv));
  }
  if (options.touch == kv_cache::Touch::kByOwner) {
    prefaulter = std::make_unique<kv_cache::Prefaulter>(
        pools, kv_cache::Prefaulter::Options{.computing = [this] { return computing(); }}, clock);
  }
  forward = std::make_unique<model::Forward>(
      *weights, pools,
      model::Forward::Options{.isa = options.isa,
                              .arithmetic = options.arithmetic,
                              .max_batch_tokens = options.max_batch_tokens,
                              .threads = team->threads_per_rank() + team->guests()});
  step = std::make_unique<Step>(description.vocab);
  buffers.resize(static_cast<size_t>(team->ranks() * team->threads_per_rank()));
  return Status();
}

// Whether a step of this worker runs, or of one that shares CPUs with it.
bool Engine::State::computing() const {
  const device::StepTable* steps = options.team.steps;
  return step_runs.load(std::memory_order_relaxed) || (steps != nullptr && steps->any_running());
}

void Engine::State::set_hooks() {
  hooks.kv_written = [this](int rank, int layer) {
    if (kv_written) {
      kv_written(rank, layer);
    }
    if (rank == 0) {
      attention_started = clock.now();
    }
  };
  hooks.attended = [this](int rank, int) {
    if (rank == 0) {
      attention_time += clock.now() - attention_started;
    }
  };
  hooks.layer_done = [this](int layer) {
    team->note_progress();
    if (layer == 0) {
      first_layer_done = clock.now();
    }
  };
  hooks.logits = [this](device::TeamThread& thread, const model::LogitsChunk& chunk) {
    const auto index = static_cast<size_t>(thread.rank * thread.threads + thread.thread);
    step->take_logits(thread, chunk, buffers[index]);
  };
  team->set_guest_step([this](device::TeamThread& guest) { forward->run(guest, hooks); });
}

void Engine::State::run_step(device::TeamThread& thread) {
  // The pass meets at a team barrier before it stores or reads a key.
  step->change_blocks(thread, pools[static_cast<size_t>(thread.rank)]);
  forward->run(thread, hooks);
}

void Engine::State::finish_step() {
  StepOutput output = step->finish();
  output.seconds = to_seconds(clock.now() - started);
  output.borrowed_seconds = team->borrowed_seconds();
  output.first_layer_seconds = to_seconds(first_layer_done - started);
  output.attention_seconds = to_seconds(attention_time);
  // `done` may submit the next step, which sets the member anew.
  const std::function<void(StepOutput)> callback = std::exchange(done, nullptr);
  step_runs.store(false, std::memory_order_relaxed);
  callback(std::move(output));
}

void Engine::submit(std::unique_ptr<BatchPlan> plan, std::function<void(StepOutput)> done) {
  State& s = *state_;
  s.step_runs.store(true, std::memory_order_relaxed);
  s.team->announce();
  s.forward->prepare(s.step->begin(std::move(plan)));
  s.done = std::move(done);
  s.attention_time = {};
  s.started = s.clock.now();
  s.team->start_with_guests([&s](device::TeamThread& thread) { s.run_step(thread); },
                            [&s] { s.finish_step(); });
}

StepOutput Engine::run(std::unique_ptr<BatchPlan> plan) {
  // Shared: the compute thread may still be inside set_value when get() has returned.
  const auto promise = std::make_shared<std::promise<StepOutput>>();
  std::future<StepOutput> output = promise->get_future();
  submit(std::move(plan), [promise](StepOutput o) { promise->set_value(std::move(o)); });
  return output.get();
}

model::MachineProbe Engine::probe(Duration time) {
  State& s = *state_;
  const int threads = s.team->threads_per_rank();
  std::vector<model::MachineProbe> probes(static_cast<size_t>(s.team->ranks() * threads));
  s.team->run([&](device::TeamThread& thread) {
    probes[static_cast<size_t>(thread.rank * threads + thread.thread)] = model::probe_machine(
        s.weights->rank(thread.rank), thread.thread, threads, s.options.isa, s.clock, time);
  });
  model::MachineProbe sum;
  for (const model::MachineProbe& probe : probes) {
    sum.flops += probe.flops;
    sum.read_bytes_per_s += probe.read_bytes_per_s;
  }
  return sum;
}

double Engine::divergence(std::span<const TokenId> tokens) {
  State& s = *state_;
  if (!is_fast()) {
    return 0;
  }
  model::Forward canonical(*s.weights, s.pools,
                           {.isa = s.options.isa, .max_batch_tokens = s.options.max_batch_tokens});
  return mean_divergence(*s.team, s.pools[0], description(), canonical, *s.forward, tokens);
}

const model::ModelDescription& Engine::description() const {
  return state_->weights->description();
}
const model::SegmentPlan& Engine::segments() const { return state_->weights->plan(); }
U128 Engine::model_hash() const { return state_->weights->model_hash(); }
std::string Engine::numerics_id() const {
  return (is_fast() ? "fast-1:split512:" : "inv-1:split512:") +
         std::to_string(segments().segments());
}
bool Engine::is_fast() const { return state_->options.arithmetic == Arithmetic::kFast; }
int Engine::ranks() const { return segments().ranks(); }
const kv_cache::KvPool& Engine::pool(int rank) const {
  return state_->pools[static_cast<size_t>(rank)];
}
size_t Engine::weight_bytes(int rank) const { return state_->weights->rank(rank).bytes; }
size_t Engine::replicated_weight_bytes(int rank) const {
  return state_->weights->rank(rank).replicated_bytes;
}
int Engine::threads() const { return state_->team->ranks() * state_->team->threads_per_rank(); }
uint64_t Engine::progress() const { return state_->team->progress(); }
void Engine::set_kv_written(KvWritten callback) { state_->kv_written = std::move(callback); }

}  // namespace baton::engine
