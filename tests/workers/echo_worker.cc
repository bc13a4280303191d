// A worker without a model: a process that registers with a router as a decode worker and answers
// every request that it is to compute alone, with as many tokens as it asks for, at once. What a
// client sees is then the router's work and the wire's.
//
//   echo_worker ROUTER [STEP_US]
//
// ROUTER is the router's control address. As a real worker it makes one token of every request in a
// step, and one message of each; steps follow each other at once, or every STEP_US.

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/host_identity.h"
#include "common/base/random.h"
#include "common/base/stop_signal.h"
#include "common/wire/sockets.h"

namespace baton {
namespace {

constexpr Duration kHeartbeat = 200ms;
constexpr Duration kFullQueuePause = 100us;
// Words of the middle of a vocabulary, rather than bytes and special tokens.
constexpr TokenId kFirstWord = 1000;
constexpr uint32_t kWords = 1000;

class EchoWorker {
 public:
  EchoWorker(wire::Connection connection, Incarnation incarnation, Duration step)
      : connection_(std::move(connection)), incarnation_(incarnation), step_(step) {}

  void run(int stop_fd) {
    register_here();
    while (!take_stop_signal(stop_fd)) {
      receive();
      const TimePoint now = clock_.now();
      if (now >= next_heartbeat_) {
        heartbeat(now);
      }
      if (!runs_.empty() && now >= next_step_) {
        next_step_ = std::max(next_step_ + step_, now);
        step();
      }
      if (!receive()) {  // edge triggered: look again after every send
        wait(stop_fd);
      }
    }
    (void)connection_.send(wire::Goodbye{incarnation_}).ok();
  }

 private:
  struct EchoRun {
    RunKey key;
    uint32_t wanted = 0;  // of each choice
    uint32_t choices = 0;
    uint32_t sent = 0;  // of each choice
    uint32_t next_choice = 0;
  };

  void register_here() {
    const HostIdentity host = this_process();
    wire::WorkerInfo info;
    info.role = wire::Role::kDecode;
    info.name = "echo";
    info.incarnation = incarnation_;
    info.model_name = "echo";
    info.model_hash = {1, 1};
    info.numerics = "echo";
    info.block_tokens = 32;
    info.blocks_total = 1 << 20;
    info.max_context = 1 << 20;
    info.vocab_size = 1 << 20;
    info.pid = static_cast<uint32_t>(getpid());
    info.boot_id = host.boot_id;
    info.pid_namespace = host.pid_namespace;
    (void)connection_.send(wire::Register{std::move(info)}).ok();
  }

  // Whether there was anything.
  bool receive() {
    bool any = false;
    while (std::optional<wire::Received> received = connection_.receive()) {
      any = true;
      if (!received->message.ok()) {
        continue;
      }
      if (const auto* run = std::get_if<wire::Run>(&*received->message)) {
        begin(run->body);
      } else if (const auto* cancel = std::get_if<wire::Cancel>(&*received->message)) {
        for (EchoRun& run_here : runs_) {
          run_here.wanted = run_here.key.request == cancel->request ? 0 : run_here.wanted;
        }
      } else if (const auto* welcome = std::get_if<wire::Welcome>(&*received->message)) {
        if (!welcome->accepted) {
          register_here();
        }
      }
    }
    return any;
  }

  void begin(const wire::RunBody& body) {
    EchoRun run;
    run.key = body.key;
    run.wanted = static_cast<uint32_t>(std::max(1, body.sampling.max_tokens));
    run.choices = static_cast<uint32_t>(body.choices.size());
    runs_.push_back(run);
  }

  // A token of every request; where the queue is full the next call goes on.
  void step() {
    for (; next_run_ < runs_.size(); ++next_run_) {
      if (runs_[next_run_].sent < runs_[next_run_].wanted) {
        one_token(runs_[next_run_]);
      }
      if (full_) {
        return;
      }
    }
    next_run_ = 0;
    std::erase_if(runs_, [](const EchoRun& run) { return run.sent >= run.wanted; });
  }

  void one_token(EchoRun& run) {
    for (; run.next_choice < run.choices && !full_; ++run.next_choice) {
      wire::Tokens tokens;
      tokens.key = run.key;
      tokens.from = incarnation_;
      tokens.choice = run.next_choice;
      tokens.first_index = run.sent;
      tokens.ids = {kFirstWord + static_cast<TokenId>(run.sent % kWords)};
      tokens.finish =
          run.sent + 1 == run.wanted ? wire::FinishReason::kLength : wire::FinishReason::kNone;
      if (run.sent == 0) {
        tokens.timings.emplace();
      }
      full_ = !connection_.send(tokens).ok();
      if (full_) {
        return;
      }
    }
    run.next_choice = 0;
    ++run.sent;
  }

  void heartbeat(TimePoint now) {
    next_heartbeat_ = now + kHeartbeat;
    wire::Heartbeat message;
    message.incarnation = incarnation_;
    message.loop_ticks = ++ticks_;
    message.running = static_cast<uint32_t>(runs_.size());
    message.blocks_total = message.blocks_free = 1 << 20;
    message.prefill_tokens_per_s = 1e6;
    message.decode_step_ms = 1;
    (void)connection_.send(message).ok();
  }

  void wait(int stop_fd) {
    const TimePoint now = clock_.now();
    TimePoint until = next_heartbeat_;
    if (!runs_.empty()) {
      until = std::min(until, full_ ? now + kFullQueuePause : next_step_);
    }
    full_ = false;
    if (until > now) {
      const int fds[] = {connection_.poll_fd(), stop_fd};
      wire::wait_readable(fds, until);
    }
  }

  const SteadyClock clock_;
  wire::Connection connection_;
  const Incarnation incarnation_;
  const Duration step_;
  std::vector<EchoRun> runs_;
  size_t next_run_ = 0;
  bool full_ = false;  // the send queue was, in this step
  uint64_t ticks_ = 0;
  TimePoint next_step_{};
  TimePoint next_heartbeat_{};
};

int main_of(int argc, char** argv) {
  uint32_t step_us = 0;
  const std::string_view step = argc == 3 ? argv[2] : "0";
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), step_us);
  if (argc < 2 || argc > 3 || error != std::errc() || end != step.data() + step.size()) {
    std::cerr << "usage: echo_worker ROUTER [STEP_US]\n";
    return 2;
  }
  const int stop_fd = block_stop_signals();
  SystemRandom random;
  wire::Context context;
  Result<wire::Connection> connection = wire::Connection::connect(context, argv[1]);
  if (!connection.ok()) {
    std::cerr << connection.status().message() << '\n';
    return 1;
  }
  EchoWorker worker(std::move(*connection), Incarnation{random.next_nonzero()},
                    std::chrono::microseconds(step_us));
  worker.run(stop_fd);
  close(stop_fd);
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::main_of(argc, argv); }
