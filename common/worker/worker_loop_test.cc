// The loop on its own thread with a real engine and a role of a few lines.

#include "common/worker/worker_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "common/worker/sequence.h"
#include "common/worker/testing/role_host.h"

namespace baton::worker {
namespace {

// Feeds one token a step to one sequence while asked to; keeps a book of what the loop called.
class BookRole final : public Role {
 public:
  explicit BookRole(kv_cache::BlockPools& blocks) : blocks_(blocks) {}

  void on_message(wire::Message, Incarnation) override { ++messages; }
  void on_router_lost(Incarnation) override { ++lost; }
  void on_wake() override { ++wakes; }
  void on_tick(TimePoint) override { ++timers; }
  std::unique_ptr<engine::BatchPlan> plan_step() override {
    if (steps_wanted == 0 || stepping_) {
      EXPECT_FALSE(stepping_) << "a plan while a step runs";
      return nullptr;
    }
    if (steps_wanted > 0) {
      --steps_wanted;
    }
    auto plan = std::make_unique<engine::BatchPlan>();
    sequence_ = std::make_unique<Sequence>(SequenceId{1}, std::vector<TokenId>{5});
    EXPECT_TRUE(sequence_->feed(1, blocks_, *plan).ok());
    stepping_ = true;
    return plan;
  }
  void on_step_done(engine::StepOutput output) override {
    EXPECT_EQ(output.sequences.size(), 1u);
    stepping_ = false;
    sequence_.reset();
    ++steps;
  }
  void begin_drain() override { draining = true; }
  bool idle() const override { return !busy; }
  void fail_all(const Status& why) override {
    EXPECT_EQ(why.code(), StatusCode::kUnavailable);
    ++failed_all;
    busy = busy && !lets_go;
    steps_wanted = 0;
  }
  void on_stuck(bool stuck) override { stuck_seen = stuck_seen || stuck; }
  TimePoint last_transfer_turn() const override { return TimePoint(transfer_turn.load()); }
  Duration prompts_waiting() const override { return 700ms; }
  void describe_load(wire::Heartbeat& heartbeat) override { heartbeat.waiting = 42; }

  std::atomic<int> messages{0}, lost{0}, wakes{0}, timers{0}, steps{0}, failed_all{0};
  std::atomic<int> steps_wanted{0};  // < 0: for ever
  std::atomic<Duration> transfer_turn{Duration(0)};
  std::atomic<bool> draining{false}, busy{false}, stuck_seen{false}, lets_go{true};

 private:
  kv_cache::BlockPools& blocks_;
  std::unique_ptr<Sequence> sequence_;
  bool stepping_ = false;
};

class WorkerLoopTest : public testing::Test {
 protected:
  WorkerLoopTest() : router_(context_), host_({}, context_, router_.address()) {
    host_.set_role(std::make_unique<BookRole>(host_.blocks()));  // names the worker
    EXPECT_EQ(pipe2(stop_pipe_.data(), O_NONBLOCK), 0);
  }
  ~WorkerLoopTest() override {
    if (thread_.joinable()) {
      role().busy = false;
      role().steps_wanted = 0;
      ask_to_stop();
      thread_.join();
    }
    close(stop_pipe_[0]);
    close(stop_pipe_[1]);
  }
  void start(Duration drain_limit = 10s, Duration drain_grace = 10s) {
    WorkerLoop::Options options;
    options.incarnation = Incarnation{22};
    options.heartbeat = 10ms;
    options.drain_limit = drain_limit;
    options.drain_grace = drain_grace;
    options.stop_fd = stop_pipe_[0];
    options.steps = &steps_;
    options.slot = 3;
    loop_ = std::make_unique<WorkerLoop>(options, clock_, host_.engine(), host_.blocks(),
                                         host_.links(), host_.env().registry, host_.env().waker);
    thread_ = std::jthread([this] {
      loop_->run(role());
      done_ = true;
    });
  }
  void ask_to_stop() const {
    const signalfd_siginfo info{};
    EXPECT_EQ(write(stop_pipe_[1], &info, sizeof(info)), static_cast<ssize_t>(sizeof(info)));
  }
  BookRole& role() { return static_cast<BookRole&>(host_.role()); }
  bool until(const std::function<bool()>& condition) {
    const TimePoint deadline = clock_.now() + 60s;
    while (clock_.now() < deadline) {
      router_.pump();
      if (condition()) {
        return true;
      }
      std::this_thread::yield();
    }
    return false;
  }
  bool registered() {
    return until([&] { return router_.heartbeats.contains("d0"); });
  }

  SteadyClock clock_;
  wire::Context context_;
  FakeRouter router_;
  RoleHost host_;
  device::StepTable steps_ = device::StepTable::create().value();
  std::array<int, 2> stop_pipe_{};
  std::unique_ptr<WorkerLoop> loop_;
  std::jthread thread_;
  std::atomic<bool> done_{false};
};

TEST_F(WorkerLoopTest, TellsOtherWorkersWhatWaits) {
  start();
  ASSERT_TRUE(registered());
  EXPECT_EQ(steps_.longest_waiting(0), 700ms);
  EXPECT_EQ(steps_.longest_waiting(3), 0ms) << "its own";
}

TEST_F(WorkerLoopTest, RegistersAndReportsItsLoad) {
  start();
  ASSERT_TRUE(registered());
  const wire::Heartbeat& beat = router_.heartbeats["d0"];
  EXPECT_EQ(beat.incarnation, Incarnation{22});
  EXPECT_EQ(beat.blocks_total, 64u);
  EXPECT_EQ(beat.blocks_free, 64u);
  EXPECT_EQ(beat.waiting, 42u);
  EXPECT_FALSE(beat.draining);
  EXPECT_FALSE(beat.step_running);
  const uint64_t ticks = beat.loop_ticks;
  EXPECT_TRUE(until([&] { return router_.heartbeats["d0"].loop_ticks > ticks; }));
  EXPECT_TRUE(loop_->health().registered);
  EXPECT_GT(loop_->health().last_turn_ns, 0);
  role().transfer_turn = 5s;
  EXPECT_TRUE(until([&] { return Duration(loop_->health().transfer_turn_ns.load()) == 5s; }));
}

TEST_F(WorkerLoopTest, ComputesStepsOneAfterTheOther) {
  start();
  role().steps_wanted = 5;
  host_.env().waker.wake();
  ASSERT_TRUE(until([&] { return role().steps == 5; }));
  EXPECT_TRUE(until([&] { return router_.heartbeats["d0"].compute_ticks > 0; }));
  EXPECT_FALSE(role().stuck_seen);
  metrics::Registry& registry = host_.env().registry;
  EXPECT_EQ(registry.histogram(metrics::MetricId::kEngineBatchSequences).count(), 5u);
  EXPECT_EQ(registry.histogram(metrics::MetricId::kEngineStepSeconds, {"decode"}).count(), 5u);
}

TEST_F(WorkerLoopTest, RestsWhenThereIsNothingToCompute) {
  steps_.begin(3);
  start();
  ASSERT_TRUE(registered());
  EXPECT_TRUE(steps_.running(3)) << "it has had no step";
  role().steps_wanted = 2;
  host_.env().waker.wake();
  ASSERT_TRUE(until([&] { return role().steps == 2 && !steps_.running(3); }));
  EXPECT_TRUE(steps_.idle(3, 1h, clock_.now()));
  const int wakes = role().wakes;
  ASSERT_TRUE(until([&] { return role().wakes > wakes + 2; }));
  EXPECT_LE(steps_.rests(3), 2u) << "once a time that it becomes idle";
}

TEST_F(WorkerLoopTest, HandsMessagesToTheRoleWhileStepsRun) {
  start();
  ASSERT_TRUE(registered());
  role().steps_wanted = -1;
  host_.env().waker.wake();
  for (int i = 1; i <= 20; ++i) {
    router_.send("d0", wire::Cancel{RequestId{U128{1, 2}}, 0, "client"});
    ASSERT_TRUE(until([&] { return role().messages == i; }));
  }
  EXPECT_TRUE(until([&] { return role().steps > 0; }));
}

TEST_F(WorkerLoopTest, LeavesAtOnceWhenIdle) {
  start();
  ASSERT_TRUE(registered());
  ask_to_stop();
  ASSERT_TRUE(until([&] { return done_.load(); }));
  EXPECT_TRUE(role().draining);
  EXPECT_EQ(role().failed_all, 0);
  EXPECT_TRUE(loop_->health().draining);
  EXPECT_TRUE(until([&] { return router_.goodbyes.size() == 1; }));
  EXPECT_EQ(router_.goodbyes[0].incarnation, Incarnation{22});
}

TEST_F(WorkerLoopTest, DrainsFirstAndTellsTheRouters) {
  role().busy = true;
  role().steps_wanted = -1;
  start();
  ASSERT_TRUE(registered());
  ask_to_stop();
  ASSERT_TRUE(until([&] { return router_.heartbeats["d0"].draining; }));
  EXPECT_FALSE(done_);
  role().steps_wanted = 0;
  role().busy = false;
  ASSERT_TRUE(until([&] { return done_.load(); }));
  EXPECT_EQ(role().failed_all, 0);
}

TEST_F(WorkerLoopTest, FailsWhatStillRunsAtTheDrainsLimitThoughStepsNeverPause) {
  role().busy = true;
  role().steps_wanted = -1;
  start(20ms);
  ASSERT_TRUE(registered());
  ask_to_stop();
  ASSERT_TRUE(until([&] { return done_.load(); }));
  EXPECT_EQ(role().failed_all, 1);
}

TEST_F(WorkerLoopTest, LeavesAfterTheGraceThoughBlocksAreStillHeld) {
  role().busy = true;
  role().lets_go = false;
  start(1ms, 20ms);
  ASSERT_TRUE(registered());
  ask_to_stop();
  ASSERT_TRUE(until([&] { return done_.load(); }));
  EXPECT_EQ(role().failed_all, 1);
}

TEST_F(WorkerLoopTest, ExportsTheStatesOfTheBlocks) {
  start();
  ASSERT_TRUE(registered());
  EXPECT_TRUE(until([&] {
    return host_.env().registry.gauge(metrics::MetricId::kKvBlocks, {"free"}).value() == 64;
  }));
}

}  // namespace
}  // namespace baton::worker
