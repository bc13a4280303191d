#include "common/worker/testing/role_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/worker/run_convert.h"
#include "common/worker/sequence.h"

namespace baton::worker {

// ---------------------------------------------------------------- router

FakeRouter::FakeRouter(wire::Context& context, uint64_t incarnation, const std::string& address)
    : incarnation_{incarnation} {
  Result<wire::Listener> listener = wire::Listener::bind(context, address);
  BATON_CHECK(listener.ok(), listener.status().to_string());
  listener_.emplace(std::move(listener).value());
}

void FakeRouter::pump() {
  while (std::optional<wire::Received> received = listener_->receive()) {
    ASSERT_TRUE(received->message.ok()) << received->message.status().to_string();
    take(received->peer, std::move(received->message).value());
  }
}

void FakeRouter::take(const std::string& peer, wire::Message message) {
  if (auto* hello = std::get_if<wire::Register>(&message)) {
    ++registrations;
    peers_[hello->info.name] = peer;
    names_[peer] = hello->info.name;
    workers[hello->info.name] = hello->info;
    (void)listener_->send(peer, wire::Welcome{incarnation_, refusal_.empty(), refusal_}).ok();
  } else if (auto* beat = std::get_if<wire::Heartbeat>(&message)) {
    heartbeats[names_[peer]] = std::move(*beat);
  } else if (auto* got = std::get_if<wire::Tokens>(&message)) {
    Stream& stream = streams_[{got->key.request.value, got->choice}];
    for (size_t i = 0; i < got->ids.size(); ++i) {
      const size_t index = got->first_index + i;
      ASSERT_LE(index, stream.ids.size()) << "tokens are missing";
      if (index == stream.ids.size()) {
        stream.ids.push_back(got->ids[i]);
      }
      EXPECT_EQ(stream.ids[index], got->ids[i]) << "a repeated token differs, index " << index;
    }
    if (got->finish != wire::FinishReason::kNone) {
      stream.finish = got->finish;
    }
    tokens.push_back(std::move(*got));
  } else if (auto* scores = std::get_if<wire::PromptLogprobs>(&message)) {
    uint32_t place = scores->first;
    for (const wire::TokenLogprob& logprob : scores->logprobs) {
      const auto [known, added] = prompt_logprobs[scores->key.request].emplace(place++, logprob);
      EXPECT_EQ(known->second.logprob, logprob.logprob) << "a repeated one differs";
    }
  } else if (auto* failure = std::get_if<wire::RunFailed>(&message)) {
    failed.push_back(std::move(*failure));
  } else if (auto* leg = std::get_if<wire::LegChanged>(&message)) {
    legs.push_back(std::move(*leg));
  } else if (auto* bye = std::get_if<wire::Goodbye>(&message)) {
    goodbyes.push_back(*bye);
  }
}

void FakeRouter::send(const std::string& worker, const wire::Message& message) {
  ASSERT_TRUE(peers_.contains(worker)) << worker << " is not registered";
  const Status status = listener_->send(peers_[worker], message);
  ASSERT_TRUE(status.ok()) << status.to_string();
}

std::vector<TokenId> FakeRouter::output(RequestId request, uint32_t choice) const {
  const auto it = streams_.find({request.value, choice});
  return it == streams_.end() ? std::vector<TokenId>{} : it->second.ids;
}

wire::FinishReason FakeRouter::finish(RequestId request, uint32_t choice) const {
  const auto it = streams_.find({request.value, choice});
  return it == streams_.end() ? wire::FinishReason::kNone : it->second.finish;
}

bool FakeRouter::finished(RequestId request, uint32_t choices) const {
  for (uint32_t choice = 0; choice < choices; ++choice) {
    if (finish(request, choice) == wire::FinishReason::kNone) {
      return false;
    }
  }
  return true;
}

void FakeRouter::expect_after(RequestId request, uint32_t choice, std::vector<TokenId> output) {
  streams_[{request.value, choice}].ids = std::move(output);
}

// ---------------------------------------------------------------- worker

engine::EngineOptions tiny_engine(const HostSetup& setup) {
  engine::EngineOptions options;
  options.model_path = setup.model.starts_with('/')
                           ? setup.model
                           : std::string(BATON_SOURCE_DIR) + "/" + setup.model;
  options.pool = setup.role == config::Role::kPrefill ? engine::EngineOptions::Pool::kPrefill
                                                      : engine::EngineOptions::Pool::kDecode;
  // All levels give the same tokens; AMX has to be asked for before other threads start.
  for (const device::Isa isa : device::available_isas()) {
    if (isa != device::Isa::kAmx) {
      options.isa = std::max(options.isa, isa);
    }
  }
  options.team.cpus.assign(static_cast<size_t>(setup.ranks), {-1});
  options.segments = setup.segments;
  options.team.wait = device::WaitPolicy::kYield;
  options.block_tokens = setup.block_tokens;
  options.blocks = setup.blocks;
  options.max_batch_tokens = setup.max_chunk_tokens + setup.max_batch_sequences;
  return options;
}

std::unique_ptr<kv_cache::BlockPools> block_pools(const engine::Engine& engine, bool prefix_cache) {
  const kv_cache::KvPool& pool = engine.pool(0);
  return std::make_unique<kv_cache::BlockPools>(
      kv_cache::BlockPools::Options{.groups = pool.layout().groups,
                                    .blocks = pool.group_blocks(),
                                    .block_tokens = pool.layout().block_tokens,
                                    .prefix_cache = prefix_cache,
                                    .root = {}});
}

RoleHost::RoleHost(const HostSetup& setup, wire::Context& context, const std::string& router)
    : setup_(setup),
      config_(config::default_config()),
      grammars_(grammar::vocabulary_of_model(tiny_engine(setup).model_path)) {
  entry_.name = setup.name;
  entry_.block_tokens = setup.block_tokens;
  entry_.max_batch_sequences = setup.max_batch_sequences;
  entry_.max_chunk_tokens = setup.max_chunk_tokens;
  entry_.max_waiting = setup.max_waiting;
  entry_.prefix_cache = setup.prefix_cache;
  entry_.chunk_time = 1000s;  // chunks are as long as allowed, however fast the machine is
  Result<std::unique_ptr<engine::Engine>> engine = engine::Engine::create(tiny_engine(setup));
  BATON_CHECK(engine.ok(), engine.status().to_string());
  engine_ = std::move(engine).value();
  for (int rank = 0; rank < engine_->ranks(); ++rank) {
    engine_->pool(rank).fill(0xFFFF);  // NaN
  }
  blocks_ = block_pools(*engine_, setup.prefix_cache);
  registry_ = std::make_unique<metrics::Registry>(metrics::RegistryOptions{
      .program = setup.role == config::Role::kPrefill ? metrics::kByPrefill : metrics::kByDecode,
      .model_name = "tiny",
      .worker = setup.name});
  Result<RouterLinks> links =
      RouterLinks::connect(context, {.addresses = {router}, .heartbeat = 10ms});
  BATON_CHECK(links.ok(), links.status().to_string());
  links_ = std::make_unique<RouterLinks>(std::move(links).value());
  env_.reset(new Environment{config_, entry_, Incarnation{setup.incarnation}, clock_, random_,
                             *engine_, *blocks_, *registry_, waker_, *links_, context, grammars_});
}

RoleHost::~RoleHost() {
  output_.reset();
  role_.reset();
  EXPECT_TRUE(all_free()) << setup_.name << " has lost " << blocks_->total() - blocks_->available()
                          << " blocks";
}

void RoleHost::set_role(std::unique_ptr<Role> role, std::string transfer_address) {
  role_ = std::move(role);
  links_->set_handlers({[this](wire::Message message, Incarnation router) {
                          role_->on_message(std::move(message), router);
                        },
                        [this](Incarnation router) { role_->on_router_lost(router); }});
  wire::WorkerInfo info;
  info.role = setup_.role == config::Role::kPrefill ? wire::Role::kPrefill : wire::Role::kDecode;
  info.name = setup_.name;
  info.incarnation = env_->incarnation;
  info.transfer_address = std::move(transfer_address);
  links_->set_info(std::move(info));
}

void RoleHost::serve() {
  links_->poll();
  role_->on_wake();
  const TimePoint now = clock_.now();
  if (now >= next_tick_) {
    next_tick_ = now + 10ms;
    role_->on_tick(now);
    wire::Heartbeat heartbeat;
    heartbeat.incarnation = env_->incarnation;
    role_->describe_load(heartbeat);
    links_->tick(now, heartbeat);
  }
}

bool RoleHost::begin_step() {
  BATON_CHECK(!output_, "a step's results have not been taken");
  std::unique_ptr<engine::BatchPlan> plan = role_->plan_step();
  if (plan == nullptr) {
    return false;
  }
  ++steps;
  largest_batch = std::max(largest_batch, static_cast<int>(plan->sequences.size()));
  output_ = engine_->run(std::move(plan));
  return true;
}

void RoleHost::end_step() {
  if (output_) {
    engine::StepOutput output = std::move(*output_);
    output_.reset();
    role_->on_step_done(std::move(output));
  }
}

void RoleHost::turn() {
  serve();
  if (!paused && (output_ || begin_step())) {
    if (in_a_step) {
      in_a_step();
    }
    end_step();
  }
}

bool until(FakeRouter& router, const std::vector<RoleHost*>& hosts,
           const std::function<bool()>& condition) {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + 60s;  // busy machines
  while (clock.now() < deadline) {
    router.pump();
    for (RoleHost* host : hosts) {
      const int before = host->steps;
      host->turn();
      if (host->steps == before) {
        // Idle: let the agents' threads run.
        const int fd = host->env().waker.fd();
        wire::wait_readable({&fd, 1}, clock.now() + 200us);
      }
      host->env().waker.clear();
    }
    router.pump();
    if (condition()) {
      return true;
    }
  }
  return false;
}

// ---------------------------------------------------------------- oracle

constexpr int kOracleStep = 1024;

Oracle::Oracle(const HostSetup& setup)
    : grammars_(grammar::vocabulary_of_model(tiny_engine(setup).model_path)) {
  HostSetup own = setup;
  own.role = config::Role::kDecode;
  own.ranks = 1;
  own.block_tokens = 32;
  own.blocks = std::max(32, setup.blocks);
  own.max_chunk_tokens = kOracleStep;
  Result<std::unique_ptr<engine::Engine>> engine = engine::Engine::create(tiny_engine(own));
  BATON_CHECK(engine.ok(), engine.status().to_string());
  engine_ = std::move(engine).value();
  blocks_ = block_pools(*engine_, false);
}

std::vector<TokenId> Oracle::output(const wire::RunBody& body, size_t choice) {
  const model::ModelDescription& model = engine_->description();
  sampling::SequenceSampler sampler = make_sampler(body, choice, model.vocab, model.max_context,
                                                   grammar_of(body.sampling, grammars_));
  std::vector<TokenId> output = body.choices[choice].output;
  std::vector<TokenId> tokens = body.prompt;
  tokens.insert(tokens.end(), output.begin(), output.end());
  Sequence sequence(SequenceId{1}, std::move(tokens));
  while (true) {
    auto plan = std::make_unique<engine::BatchPlan>();
    const int count = std::min(kOracleStep, sequence.pending());
    Result<engine::SequencePlan*> entry = sequence.feed(count, *blocks_, *plan);
    BATON_CHECK(entry.ok(), "the oracle's pool is too small");
    if (count == sequence.pending()) {
      (*entry)->samples.push_back({&sampler});
    }
    engine::StepOutput step = engine_->run(std::move(plan));
    EXPECT_TRUE(step.sequences[0].error.ok());
    sequence.fed(count, *blocks_, "");
    if (sequence.pending() > 0) {
      continue;
    }
    const sampling::Sampled& sampled = step.sequences[0].samples[0];
    output.push_back(sampled.id);
    sequence.append(sampled.id);
    if (sampled.finish != sampling::FinishReason::kNone) {
      return output;
    }
  }
}

namespace {
RequestId numbered(uint64_t request) { return RequestId{U128{7, request}}; }
}  // namespace

wire::RunBody random_body(uint64_t request, int prompt_tokens, int max_tokens, Incarnation router,
                          size_t choices) {
  SeededRandom random(request);
  wire::RunBody body;
  body.key.request = numbered(request);
  for (int i = 0; i < prompt_tokens; ++i) {
    body.prompt.push_back(static_cast<TokenId>(random.next() % 300));
  }
  body.choices.assign(choices, wire::ChoiceState{});
  body.sampling.temperature = choices > 1 ? 1.0f : 0.0f;
  body.sampling.seed = request * 31 + 5;
  body.sampling.max_tokens = max_tokens;
  body.router = router;
  return body;
}

wire::RunBody repeated(wire::RunBody body, uint64_t request) {
  body.key.request = numbered(request);
  return body;
}

}  // namespace baton::worker
