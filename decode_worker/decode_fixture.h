#pragma once

// A decode worker with a small model, between a router and peers that the test drives.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/worker/testing/role_host.h"
#include "decode_worker/decode_role.h"
#include "kv_transfer/inproc_agent.h"

namespace baton::decode_worker {

using kv_transfer::inproc_agent_options;
using worker::HostSetup;
using worker::random_body;

class DecodeFixture : public testing::Test {
 protected:
  void start(const HostSetup& setup = {}) {
    host_ = std::make_unique<worker::RoleHost>(setup, context_, router_.address());
    auto role = std::make_unique<DecodeRole>(host_->env());
    const Status status = role->start(inproc_agent_options(host_->engine(), wire::Role::kDecode,
                                                           setup.name, setup.incarnation, hub_));
    ASSERT_TRUE(status.ok()) << status.to_string();
    transfer_address_ = role->transfer_address();
    host_->set_role(std::move(role));
    ASSERT_TRUE(until([&] { return router_.workers.contains("d0") && host_->links().welcomed(); }));
  }
  // Of the peers, in every turn.
  virtual void poll_peers() {}
  bool until(const std::function<bool()>& condition) {
    return worker::until(router_, {host_.get()}, [&] {
      poll_peers();
      return condition();
    });
  }
  // The same without computing.
  bool until_paused(const std::function<bool()>& condition) {
    host_->paused = true;
    const bool met = until(condition);
    host_->paused = false;
    return met;
  }
  wire::RunBody body(uint64_t request, int prompt, int max_tokens, size_t choices = 1) {
    return random_body(request, prompt, max_tokens, router_.incarnation(), choices);
  }
  void run(const wire::RunBody& body) { router_.send("d0", wire::Run{body}); }
  void cancel(const wire::RunBody& body) {
    router_.send("d0", wire::Cancel{body.key.request, body.key.attempt, "client"});
  }
  uint32_t running() { return router_.heartbeats["d0"].running; }
  uint32_t waiting() { return router_.heartbeats["d0"].waiting; }
  bool finished(const wire::RunBody& body) {
    return router_.finished(body.key.request, static_cast<uint32_t>(body.choices.size()));
  }
  void expect_right(const wire::RunBody& body) {
    for (size_t i = 0; i < body.choices.size(); ++i) {
      EXPECT_EQ(router_.output(body.key.request, static_cast<uint32_t>(i)), oracle_.output(body, i))
          << "choice " << i;
    }
  }
  void expect_all_free() {
    EXPECT_TRUE(until([&] { return host_->role().idle(); }));
    EXPECT_TRUE(host_->all_free());
    const kv_cache::BlockCounts counts = host_->blocks().counts();
    EXPECT_EQ(counts.reserved + counts.quarantined + counts.active, 0);
  }

  wire::Context context_;
  kv_transfer::InprocHub hub_;
  worker::FakeRouter router_{context_};
  std::unique_ptr<worker::RoleHost> host_;
  std::string transfer_address_;
  worker::Oracle oracle_;
};

}  // namespace baton::decode_worker
