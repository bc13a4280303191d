#include "router/membership.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "router/router_fixture.h"

namespace baton::router {
namespace {

class MembershipTest : public testing::Test {
 protected:
  MembershipTest()
      : members_(1s, [this](WorkerState& worker, std::string_view reason) {
          lost_.push_back(worker.info.name + ": " + std::string(reason));
        }) {}

  wire::Heartbeat beat(const wire::WorkerInfo& info) {
    wire::Heartbeat heartbeat;
    heartbeat.incarnation = info.incarnation;
    return heartbeat;
  }
  std::vector<std::string> names(wire::Role role) {
    std::vector<std::string> out;
    for (const WorkerState* worker : members_.ready(role)) {
      out.push_back(worker->info.name);
    }
    return out;
  }

  TimePoint now_{100s};
  std::vector<std::string> lost_;
  Membership members_;
};

TEST_F(MembershipTest, ListsReadyWorkersByName) {
  for (const int number : {2, 0, 1}) {
    EXPECT_EQ(members_.add("x", worker_info(wire::Role::kDecode, number), now_), "");
  }
  EXPECT_EQ(members_.add("y", worker_info(wire::Role::kPrefill, 0), now_), "");
  EXPECT_EQ(names(wire::Role::kDecode), (std::vector<std::string>{"d0", "d1", "d2"}));
  EXPECT_EQ(names(wire::Role::kPrefill), std::vector<std::string>{"p0"});
  EXPECT_EQ(members_.find(Incarnation{200})->load.blocks_free, 64u);
  EXPECT_EQ(members_.find(Incarnation{999}), nullptr);
}

TEST_F(MembershipTest, ReplacesAnEarlierLifeOfTheSameName) {
  wire::WorkerInfo info = worker_info(wire::Role::kDecode, 0);
  ASSERT_EQ(members_.add("a", info, now_), "");
  info.incarnation.value = 777;
  info.model_hash = {9, 9};  // the only worker may bring another model
  ASSERT_EQ(members_.add("b", info, now_), "");
  EXPECT_EQ(lost_, std::vector<std::string>{"d0: replaced"});
  EXPECT_EQ(members_.all().size(), 1u);
  EXPECT_EQ(members_.find(Incarnation{777})->peer, "b");
}

TEST_F(MembershipTest, TakesANewConnectionOfTheSameLife) {
  const wire::WorkerInfo info = worker_info(wire::Role::kDecode, 0);
  ASSERT_EQ(members_.add("a", info, now_), "");
  members_.find(info.incarnation)->assigned_choices = 3;
  ASSERT_EQ(members_.add("b", info, now_), "");
  EXPECT_TRUE(lost_.empty());
  EXPECT_EQ(members_.find(info.incarnation)->assigned_choices, 3);
  EXPECT_FALSE(members_.heard("a", beat(info), now_));
  EXPECT_TRUE(members_.heard("b", beat(info), now_));
}

TEST_F(MembershipTest, RefusesWhatCannotWorkTogetherWithBothValues) {
  ASSERT_EQ(members_.add("a", worker_info(wire::Role::kDecode, 0), now_), "");
  wire::WorkerInfo other = worker_info(wire::Role::kPrefill, 0);
  other.numerics = "fast";
  EXPECT_EQ(members_.add("b", other, now_),
            "its numerics (fast) are not those of d0 (inv-1:split512:1)");
  other = worker_info(wire::Role::kPrefill, 0);
  other.model_hash = {3, 4};
  EXPECT_EQ(members_.add("b", other, now_),
            "its model (" + to_hex({3, 4}) + ") is not that of d0 (" + to_hex({1, 2}) + ")");
  other = worker_info(wire::Role::kPrefill, 0);
  other.proto_version = 99;
  EXPECT_EQ(members_.add("b", other, now_), "the router speaks protocol version 1, the worker 99");
  EXPECT_EQ(members_.all().size(), 1u);
}

TEST_F(MembershipTest, RefusesARegistrationThatSaysTooLittle) {
  const auto refused = [this](auto change) {
    wire::WorkerInfo info = worker_info(wire::Role::kDecode, 0);
    change(info);
    return !members_.add("a", info, now_).empty();
  };
  EXPECT_TRUE(refused([](wire::WorkerInfo& info) { info.name.clear(); }));
  EXPECT_TRUE(refused([](wire::WorkerInfo& info) { info.role = wire::Role::kRouter; }));
  EXPECT_TRUE(refused([](wire::WorkerInfo& info) { info.incarnation.value = 0; }));
  EXPECT_TRUE(refused([](wire::WorkerInfo& info) { info.block_tokens = 0; }));
  EXPECT_TRUE(refused([](wire::WorkerInfo& info) { info.block_tokens = 1u << 31; }));
  EXPECT_TRUE(refused([](wire::WorkerInfo& info) { info.max_context = 0; }));
  EXPECT_TRUE(members_.all().empty());
}

TEST_F(MembershipTest, LosesAWorkerThatIsSilentTooLong) {
  const wire::WorkerInfo quiet = worker_info(wire::Role::kDecode, 0);
  const wire::WorkerInfo alive = worker_info(wire::Role::kDecode, 1);
  members_.add("a", quiet, now_);
  members_.add("b", alive, now_);
  members_.heard("b", beat(alive), now_ + 900ms);
  members_.sweep(now_ + 1000ms, 0ms);
  EXPECT_TRUE(lost_.empty());
  members_.sweep(now_ + 1001ms, 0ms);
  EXPECT_EQ(lost_, std::vector<std::string>{"d0: no heartbeat"});
  EXPECT_FALSE(members_.heard("a", beat(quiet), now_ + 1100ms));
  EXPECT_EQ(members_.all().size(), 1u);
}

TEST_F(MembershipTest, CountsSilenceAnewAfterItWasLateItself) {
  const wire::WorkerInfo info = worker_info(wire::Role::kDecode, 0);
  members_.add("a", info, now_);
  members_.sweep(now_ + 5s, 4s);
  EXPECT_TRUE(lost_.empty());
  members_.sweep(now_ + 5900ms, 0ms);
  EXPECT_TRUE(lost_.empty());
  members_.sweep(now_ + 6100ms, 0ms);
  EXPECT_EQ(lost_.size(), 1u);
}

TEST_F(MembershipTest, SendsNothingNewToADrainingWorker) {
  const wire::WorkerInfo info = worker_info(wire::Role::kDecode, 0);
  members_.add("a", info, now_);
  wire::Heartbeat heartbeat = beat(info);
  heartbeat.draining = true;
  members_.heard("a", heartbeat, now_);
  EXPECT_TRUE(names(wire::Role::kDecode).empty());
  EXPECT_EQ(members_.all().size(), 1u);
  heartbeat.draining = false;
  members_.heard("a", heartbeat, now_);
  EXPECT_EQ(names(wire::Role::kDecode).size(), 1u);
}

TEST_F(MembershipTest, LosesAWorkerThatSaysGoodbyeOnce) {
  const wire::WorkerInfo info = worker_info(wire::Role::kPrefill, 0);
  members_.add("a", info, now_);
  members_.leave(info.incarnation, "left");
  members_.leave(info.incarnation, "left");
  EXPECT_EQ(lost_, std::vector<std::string>{"p0: left"});
}

TEST_F(MembershipTest, LosesAWorkerWhoseProcessEndedWithoutWaitingForSilence) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  ASSERT_GT(child, 0);
  wire::WorkerInfo info = worker_info(wire::Role::kDecode, 0);
  const HostIdentity host = this_process();
  info.pid = static_cast<uint32_t>(child);
  info.boot_id = host.boot_id;
  info.pid_namespace = host.pid_namespace;
  members_.add("a", info, now_);
  ASSERT_EQ(members_.process_fds().size(), 1u);
  members_.sweep(now_, 0ms);
  EXPECT_TRUE(lost_.empty());
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  members_.sweep(now_, 0ms);  // a zombie counts as ended
  EXPECT_EQ(lost_, std::vector<std::string>{"d0: process ended"});
  EXPECT_TRUE(members_.process_fds().empty());
  waitpid(child, nullptr, 0);
}

// A pid of another namespace is that of a stranger here, and would be lost or kept with it.
TEST_F(MembershipTest, WatchesNoPidOfAnotherNamespace) {
  const HostIdentity host = this_process();
  wire::WorkerInfo info = worker_info(wire::Role::kDecode, 0);
  info.http_url = "http://127.0.0.1:1";
  info.pid = host.pid;
  info.boot_id = host.boot_id;
  info.pid_namespace = "pid:[1]";
  members_.add("a", info, now_);
  info = worker_info(wire::Role::kDecode, 1);
  info.pid = host.pid;
  info.pid_namespace = host.pid_namespace;
  info.boot_id = "elsewhere";
  members_.add("b", info, now_);
  info = worker_info(wire::Role::kDecode, 2);
  info.pid = host.pid;  // of a release that does not tell
  members_.add("c", info, now_);
  EXPECT_TRUE(members_.process_fds().empty());
}

TEST_F(MembershipTest, KnowsTheSmallestContext) {
  EXPECT_EQ(members_.max_context(), 0);
  wire::WorkerInfo small = worker_info(wire::Role::kDecode, 0);
  small.max_context = 100;
  members_.add("a", small, now_);
  members_.add("b", worker_info(wire::Role::kPrefill, 0), now_);
  EXPECT_EQ(members_.max_context(), 100);
}

TEST(PrefixViewTest, FollowsWhatTheWorkerSays) {
  PrefixView view;
  const std::vector<U128> chain = {{0, 1}, {0, 2}, {0, 3}};
  EXPECT_TRUE(view.empty());
  wire::Heartbeat heartbeat;
  heartbeat.cache_added = {chain[0], chain[2]};
  view.apply(heartbeat);
  EXPECT_EQ(view.leading(chain), 1);  // a gap ends the prefix
  heartbeat.cache_added = {chain[1]};
  view.apply(heartbeat);
  EXPECT_EQ(view.leading(chain), 3);
  heartbeat.cache_added.clear();
  heartbeat.cache_removed = {chain[1]};
  view.apply(heartbeat);
  EXPECT_EQ(view.leading(chain), 1);
  EXPECT_EQ(view.leading({}), 0);
}

TEST(PrefixViewTest, ExpectsWhatWasJustComputedForTwoHeartbeats) {
  PrefixView view;
  view.expect({{0, 1}, {0, 2}});
  EXPECT_FALSE(view.empty());
  EXPECT_EQ(view.leading({{0, 1}, {0, 2}, {0, 3}}), 2);
  view.apply({});
  EXPECT_EQ(view.leading({{0, 1}}), 1);  // it may have been sent before
  wire::Heartbeat heartbeat;
  heartbeat.cache_added = {{0, 1}};
  view.apply(heartbeat);
  EXPECT_EQ(view.leading({{0, 1}, {0, 2}}), 1);  // the other is not kept
}

TEST(PrefixViewTest, ForgetsEverythingWhenEventsWereLost) {
  PrefixView view;
  wire::Heartbeat heartbeat;
  heartbeat.cache_added = {{0, 1}};
  view.apply(heartbeat);
  heartbeat.cache_added = {{0, 2}};
  heartbeat.cache_overflow = true;
  view.apply(heartbeat);
  EXPECT_EQ(view.leading({{0, 1}}), 0);
  EXPECT_EQ(view.leading({{0, 2}}), 1);
}

}  // namespace
}  // namespace baton::router
