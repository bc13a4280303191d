#pragma once

// A prefill worker with real KV and real transfer agents; the decode workers are agents that the
// test drives.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/worker/run_convert.h"
#include "common/worker/testing/role_host.h"
#include "kv_transfer/inproc_agent.h"
#include "prefill_worker/prefill_role.h"

namespace baton::prefill_worker {

using kv_transfer::inproc_agent_options;
using worker::HostSetup;
using worker::random_body;

// Takes KV and goes on from it with its own engine.
class Receiver {
 public:
  enum class Answer { kGrant, kDeny, kHold };

  Receiver(kv_transfer::InprocHub& hub, std::string name, uint64_t incarnation)
      : name_(std::move(name)),
        incarnation_{incarnation},
        registry_({.program = metrics::kByDecode, .model_name = "tiny", .worker = name_}) {
    HostSetup setup;
    engine_ = std::move(engine::Engine::create(worker::tiny_engine(setup))).value();
    engine_->pool(0).fill(0xFFFF);
    blocks_ = worker::block_pools(*engine_, false);
    agent_ =
        std::move(
            kv_transfer::TransferAgent::create(
                inproc_agent_options(*engine_, wire::Role::kDecode, name_, incarnation, hub),
                clock_, random_, registry_,
                [this](kv_transfer::Event event) { (void)events_.try_push(std::move(event)); }))
            .value();
    address_ = agent_->listen_address();
  }

  wire::DecodeTarget target() const { return {name_, incarnation_, address_}; }
  void poll() {
    while (std::optional<kv_transfer::Event> event = events_.try_pop()) {
      if (auto* reserve = std::get_if<kv_transfer::ReserveArrived>(&*event)) {
        reserves.push_back(std::move(*reserve));
        if (answer == Answer::kGrant) {
          grant(reserves.back());
        } else if (answer == Answer::kDeny) {
          agent_->deny(reserves.back().reservation, denial, 7);
        }
      } else if (auto* committed = std::get_if<kv_transfer::TransferCommitted>(&*event)) {
        commits.push_back(std::move(*committed));
      } else if (std::holds_alternative<kv_transfer::ReserveWithdrawn>(*event)) {
        ++withdrawn;
      } else if (std::holds_alternative<kv_transfer::TicketAborted>(*event)) {
        ++aborted;
      }
    }
  }
  void grant(const kv_transfer::ReserveArrived& reserve) {
    kv_cache::BlockPools::Parts parts =
        blocks_->match_parts(reserve.body.prompt, reserve.kv_tokens, 32);
    kv_cache::PerGroup<std::vector<BlockId>> tables;
    for (int g = 0; g < blocks_->groups(); ++g) {
      const auto at = static_cast<size_t>(g);
      kv_cache::BlockLease& lease = parts.blocks[at];
      const int missing = blocks_->blocks_for(reserve.kv_tokens) - static_cast<int>(lease.size());
      lease.append(blocks_->pool(g).allocate(missing).value());
      tables[at].assign(lease.ids().begin(), lease.ids().end());
    }
    agent_->grant(reserve.reservation, std::move(tables[0]), parts.tokens[0],
                  {std::move(tables[1]), parts.tokens[1]});
    granted_.emplace(reserve.reservation, std::move(parts.blocks));
  }
  // The output of a choice after a commit, with what follows computed from the KV that came.
  std::vector<TokenId> output(const wire::RunBody& body, size_t choice) {
    const kv_transfer::TransferCommitted* commit = nullptr;
    const kv_transfer::ReserveArrived* reserve = nullptr;
    for (const auto& candidate : reserves) {
      if (candidate.body.key.request == body.key.request) {
        reserve = &candidate;
      }
    }
    for (const auto& candidate : commits) {
      if (reserve != nullptr && candidate.reservation == reserve->reservation) {
        commit = &candidate;
      }
    }
    if (commit == nullptr) {
      ADD_FAILURE() << "not committed";
      return {};
    }
    wire::RunBody state = reserve->body;
    const wire::CommittedChoice& given = commit->commit.choices[choice];
    EXPECT_EQ(given.index, choice);
    std::vector<TokenId>& out = state.choices[choice].output;
    out.insert(out.end(), given.output.begin(), given.output.end());
    std::vector<TokenId> tokens = state.prompt;
    tokens.insert(tokens.end(), out.begin(), out.end());
    const model::ModelDescription& model = engine_->description();
    sampling::SequenceSampler sampler =
        worker::make_sampler(state, choice, model.vocab, model.max_context, nullptr);
    engine::BatchPlan copies;
    worker::Sequence base(SequenceId{1}, state.prompt);
    worker::Sequence sequence(SequenceId{2}, std::move(tokens));
    kv_cache::Leases tables;
    for (size_t g = 0; g < tables.size(); ++g) {
      tables[g] = granted_.at(reserve->reservation)[g].share();
    }
    sequence.adopt(std::move(tables), reserve->kv_tokens);
    wire::FinishReason finish = given.finished;
    // The copy of the partial last block is left out: choices are read one after the other, and
    // positions after the prompt are written anew by each.
    while (finish == wire::FinishReason::kNone) {
      auto plan = std::make_unique<engine::BatchPlan>();
      const int count = sequence.pending();
      engine::SequencePlan* entry = sequence.feed(count, *blocks_, *plan).value();
      entry->samples.push_back({&sampler});
      const engine::StepOutput step = engine_->run(std::move(plan));
      sequence.fed(count, *blocks_, "");
      out.push_back(step.sequences[0].samples[0].id);
      sequence.append(out.back());
      finish = worker::wire_finish(step.sequences[0].samples[0].finish);
    }
    return out;
  }
  void die() { agent_.reset(); }

  Answer answer = Answer::kGrant;
  Status denial = resource_exhausted("no room");
  std::vector<kv_transfer::ReserveArrived> reserves;
  std::vector<kv_transfer::TransferCommitted> commits;
  int withdrawn = 0, aborted = 0;

 private:
  SteadyClock clock_;
  SystemRandom random_;
  std::string name_, address_;
  Incarnation incarnation_;
  metrics::Registry registry_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<kv_cache::BlockPools> blocks_;
  std::map<uint64_t, kv_cache::Leases> granted_;
  BoundedQueue<kv_transfer::Event> events_{{.items = 4096}};
  std::unique_ptr<kv_transfer::TransferAgent> agent_;
};

inline HostSetup prefill_setup() {
  HostSetup setup;
  setup.role = config::Role::kPrefill;
  setup.name = "p0";
  setup.incarnation = 11;
  return setup;
}

class PrefillRoleTest : public testing::Test {
 protected:
  void start(const HostSetup& setup = prefill_setup()) {
    host_ = std::make_unique<worker::RoleHost>(setup, context_, router_.address());
    auto role = std::make_unique<PrefillRole>(host_->env());
    const Status status =
        role->start(inproc_agent_options(host_->engine(), wire::Role::kPrefill, "p0", 11, hub_));
    ASSERT_TRUE(status.ok()) << status.to_string();
    host_->set_role(std::move(role));
    ASSERT_TRUE(until([&] { return router_.workers.contains("p0") && host_->links().welcomed(); }));
  }
  bool until(const std::function<bool()>& condition) {
    return worker::until(router_, {host_.get()}, [&] {
      d0_.poll();
      d1_.poll();
      return condition();
    });
  }
  bool until_paused(const std::function<bool()>& condition) {
    host_->paused = true;
    const bool met = until(condition);
    host_->paused = false;
    return met;
  }
  wire::RunBody body(uint64_t request, int prompt, int max_tokens, size_t choices = 1) {
    return random_body(request, prompt, max_tokens, router_.incarnation(), choices);
  }
  void prefill(const wire::RunBody& body) {
    router_.send("p0", wire::Prefill{body, {d0_.target(), d1_.target()}});
  }
  // Until it is handed over; how many of its tokens were cached.
  uint32_t cached_of(const wire::RunBody& body) {
    const size_t before = d0_.commits.size();
    prefill(body);
    const bool arrived = until([&] { return d0_.commits.size() > before; });
    EXPECT_TRUE(arrived);
    return arrived ? d0_.commits.back().commit.timings.prompt_tokens_cached : 0;
  }
  void cancel(const wire::RunBody& body) {
    router_.send("p0", wire::Cancel{body.key.request, body.key.attempt, "client"});
  }
  void expect_all_free() {
    EXPECT_TRUE(until([&] { return host_->role().idle(); }));
    EXPECT_TRUE(host_->all_free());
  }
  const wire::Heartbeat& beat() { return router_.heartbeats["p0"]; }

  wire::Context context_;
  kv_transfer::InprocHub hub_;
  worker::FakeRouter router_{context_};
  Receiver d0_{hub_, "d0", 22}, d1_{hub_, "d1", 33};
  std::unique_ptr<worker::RoleHost> host_;
  worker::Oracle oracle_;
};

}  // namespace baton::prefill_worker
