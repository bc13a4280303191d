// Who is computed first, when requests say how urgent they are. They ask for one token each, which
// needs no decode worker.

#include <gtest/gtest.h>

#include "common/worker/testing/role_host.h"
#include "kv_transfer/transports/inproc/inproc_path.h"
#include "prefill_worker/prefill_role.h"

namespace baton::prefill_worker {
namespace {

class PrefillPriorityTest : public testing::Test {
 protected:
  PrefillPriorityTest() {
    worker::HostSetup setup;
    setup.role = config::Role::kPrefill;
    setup.name = "p0";
    setup.incarnation = 11;
    host_ = std::make_unique<worker::RoleHost>(setup, context_, router_.address());
    auto role = std::make_unique<PrefillRole>(host_->env());
    kv_transfer::AgentOptions options;
    options.role = wire::Role::kPrefill;
    options.name = setup.name;
    options.incarnation = Incarnation{setup.incarnation};
    options.transports = {"inproc"};
    options.model_hash = host_->engine().model_hash();
    options.numerics = host_->engine().numerics_id();
    options.pools = {&host_->engine().pool(0)};
    options.inproc = &hub_;
    EXPECT_TRUE(role->start(options).ok());
    host_->set_role(std::move(role));
    EXPECT_TRUE(until([&] { return router_.workers.contains("p0") && host_->links().welcomed(); }));
  }
  bool until(const std::function<bool()>& condition) {
    return worker::until(router_, {host_.get()}, condition);
  }
  void ask(uint64_t request, int prompt, int64_t priority) {
    wire::Prefill prefill;
    prefill.body = worker::random_body(request, prompt, 1, router_.incarnation());
    prefill.body.priority = priority;
    router_.send("p0", prefill);
  }
  // Without computing anything.
  void wait_queued(uint32_t count) {
    host_->paused = true;
    EXPECT_TRUE(until([&] {
      const wire::Heartbeat& beat = router_.heartbeats["p0"];
      return beat.waiting + beat.running == count;
    }));
    host_->paused = false;
  }
  std::vector<uint64_t> order_of_ends(size_t count) {
    EXPECT_TRUE(until([&] { return router_.tokens.size() >= count; }));
    std::vector<uint64_t> order;
    for (const wire::Tokens& tokens : router_.tokens) {
      order.push_back(tokens.key.request.value.lo);
    }
    return order;
  }

  wire::Context context_;
  kv_transfer::InprocHub hub_;
  worker::FakeRouter router_{context_};
  std::unique_ptr<worker::RoleHost> host_;
};

TEST_F(PrefillPriorityTest, TheMostUrgentIsComputedFirstAndEqualOnesInOrderOfArrival) {
  ask(1, 60, 0);
  ask(2, 60, 5);
  ask(3, 60, 0);
  ask(4, 60, -9'000'000'000);
  ask(5, 60, 5);
  ask(6, 60, -1);
  wait_queued(6);
  EXPECT_EQ(order_of_ends(6), (std::vector<uint64_t>{4, 6, 1, 3, 2, 5}));
}

TEST_F(PrefillPriorityTest, AnUrgentPromptOvertakesTheChunksOfALongOne) {
  ask(1, 400, 0);
  ask(2, 400, 1);
  wait_queued(2);
  ASSERT_TRUE(host_->begin_step());
  host_->end_step();
  ask(3, 60, -1);
  ask(4, 60, 1);
  wait_queued(4);
  EXPECT_EQ(order_of_ends(4), (std::vector<uint64_t>{3, 1, 2, 4}));
  EXPECT_TRUE(host_->all_free());
}

}  // namespace
}  // namespace baton::prefill_worker
