// Deaths of real processes in the middle of a push. The killed child is not waited for until the
// end, so that it is a zombie while the other side finds out.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "kv_transfer/peer_shape.h"

extern char** environ;  // NOLINT: posix_spawn wants it

namespace baton::kv_transfer {
namespace {

class Child {
 public:
  // The first line that it prints is its answer when `wait_for_line`.
  explicit Child(std::vector<std::string> arguments, bool wait_for_line) {
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    arguments.insert(arguments.begin(), BATON_BINARY_DIR "/bin/kv_transfer_peer");
    std::vector<char*> argv;
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    char c = 0;
    while (wait_for_line && ::read(out[0], &c, 1) == 1 && c != '\n') {
      line_ += c;
    }
    ::close(out[0]);
  }
  ~Child() {
    kill(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill(int signal) const { ::kill(pid_, signal); }
  const std::string& line() const { return line_; }

 private:
  pid_t pid_ = -1;
  std::string line_;
};

struct Case {
  const char* transport;
  int signal;
};

class PeerDeathTest : public testing::TestWithParam<Case> {
 protected:
  // Waits until some of the data has moved.
  static bool moving(const metrics::Counter& bytes) {
    const TimePoint deadline = std::chrono::steady_clock::now() + 20s;
    while (bytes.value() < 4e6) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }
  Duration limit() const { return GetParam().signal == SIGSTOP ? 2500ms : 2000ms; }

  const PeerPools pools_{GetParam().transport};
  EventLog events_;
  SteadyClock clock_;
  SeededRandom random_{1};
};

TEST_P(PeerDeathTest, TheSenderLearnsOfTheReceiversDeath) {
  const Child child({"decode", GetParam().transport}, true);
  ASSERT_NE(child.line(), "");
  metrics::Registry registry({metrics::kByPrefill, "m", "p0", 1000});
  auto agent =
      TransferAgent::create(peer_options(pools_.pools, wire::Role::kPrefill, GetParam().transport),
                            clock_, random_, registry, events_.sink());
  ASSERT_TRUE(agent.ok()) << agent.status().to_string();
  const TransferId id = (*agent)->open(peer_transfer(pools_, child.line()));
  (*agent)->commit(id, {{}}, {});
  ASSERT_TRUE(moving(
      registry.counter(metrics::MetricId::kKvTransferBytes, {"sent", GetParam().transport})));
  const TimePoint killed = clock_.now();
  child.kill(GetParam().signal);
  const auto failed = events_.take<TransferFailed>({}, 10s);
  const Duration took = clock_.now() - killed;
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kWorkerLost) << failed->status.to_string();
  EXPECT_LT(to_ms(took), to_ms(limit()));
  RecordProperty("detection_ms", std::to_string(to_ms(took)));
  std::printf("detected after %.1f ms: %s\n", to_ms(took), failed->status.message().c_str());
  EXPECT_TRUE(events_.take<PeerLost>());
}

TEST_P(PeerDeathTest, TheReceiverReleasesTheBlocksOfADeadSender) {
  metrics::Registry registry({metrics::kByDecode, "m", "d0", 1000});
  auto agent =
      TransferAgent::create(peer_options(pools_.pools, wire::Role::kDecode, GetParam().transport),
                            clock_, random_, registry, events_.sink());
  ASSERT_TRUE(agent.ok()) << agent.status().to_string();
  const Child child({"prefill", GetParam().transport, (*agent)->listen_address()}, false);
  const auto reserve = events_.take<ReserveArrived>({}, 20s);
  ASSERT_TRUE(reserve);
  (*agent)->grant(reserve->reservation, pools_.table(), 0);
  ASSERT_TRUE(moving(
      registry.counter(metrics::MetricId::kKvTransferBytes, {"received", GetParam().transport})));
  const TimePoint killed = clock_.now();
  child.kill(GetParam().signal);
  const auto aborted = events_.take<TicketAborted>({}, 10s);
  const Duration took = clock_.now() - killed;
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->status.code(), StatusCode::kWorkerLost) << aborted->status.to_string();
  EXPECT_LT(to_ms(took), to_ms(limit()));
  ASSERT_TRUE(events_.take<TicketReleased>({}, 10s)) << "the blocks are leaked";
  const Duration released = clock_.now() - killed;
  EXPECT_LT(to_ms(released), to_ms(limit()));
  std::printf("detected after %.1f ms, released after %.1f ms: %s\n", to_ms(took), to_ms(released),
              aborted->status.message().c_str());
  EXPECT_FALSE(events_.take<TransferCommitted>({}, 0s));
}

// A sender that writes into our pools by itself cannot be fenced while it is stopped: its blocks
// stay out of use until it has come back to its senses or is dead.
class StoppedWriterTest : public PeerDeathTest {
 protected:
  // Stops a child in the middle of a push; its reservation.
  void stop(const Child& child, metrics::Registry& registry, TransferAgent& agent) {
    const auto reserve = events_.take<ReserveArrived>({}, 20s);
    ASSERT_TRUE(reserve);
    agent.grant(reserve->reservation, pools_.table(), 0);
    ASSERT_TRUE(
        moving(registry.counter(metrics::MetricId::kKvTransferBytes, {"received", "pool"})));
    child.kill(SIGSTOP);
    ASSERT_TRUE(events_.take<TicketAborted>({}, 10s));
    EXPECT_FALSE(events_.take<TicketReleased>({}, 500ms)) << "it may still write";
  }
  std::unique_ptr<TransferAgent> start(metrics::Registry& registry) {
    return std::move(TransferAgent::create(peer_options(pools_.pools, wire::Role::kDecode, "pool"),
                                           clock_, random_, registry, events_.sink())
                         .value());
  }
  metrics::Registry registry_{{metrics::kByDecode, "m", "d0", 1000}};
};

TEST_P(StoppedWriterTest, ItsBlocksAreFreeOnceItHasLetGo) {
  const auto agent = start(registry_);
  const Child child({"half", "pool", agent->listen_address()}, false);
  stop(child, registry_, *agent);
  child.kill(SIGCONT);
  ASSERT_TRUE(events_.take<TicketReleased>({}, 10s));
  // It connects anew and pushes again.
  const auto reserve = events_.take<ReserveArrived>({}, 10s);
  ASSERT_TRUE(reserve);
  agent->grant(reserve->reservation, pools_.table(), 0);
  EXPECT_TRUE(events_.take<TransferCommitted>({}, 20s));
}

TEST_P(StoppedWriterTest, ItsBlocksAreFreeOnceItIsDead) {
  const auto agent = start(registry_);
  const Child child({"half", "pool", agent->listen_address()}, false);
  stop(child, registry_, *agent);
  child.kill(SIGKILL);  // and not waited for: a zombie
  ASSERT_TRUE(events_.take<TicketReleased>({}, 2s));
}

INSTANTIATE_TEST_SUITE_P(Pool, StoppedWriterTest, testing::Values(Case{"pool", SIGSTOP}),
                         [](const auto&) { return std::string("pool"); });

INSTANTIATE_TEST_SUITE_P(Deaths, PeerDeathTest,
                         testing::Values(Case{"pool", SIGKILL}, Case{"ucx-posix", SIGKILL},
                                         Case{"ucx-tcp", SIGKILL}, Case{"ucx-posix", SIGSTOP},
                                         Case{"ucx-tcp", SIGSTOP}),
                         [](const testing::TestParamInfo<Case>& param) {
                           std::string name = param.param.transport;
                           std::erase(name, '-');
                           return name + (param.param.signal == SIGKILL ? "Kill" : "Stop");
                         });

}  // namespace
}  // namespace baton::kv_transfer
