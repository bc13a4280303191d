#pragma once

// The router loop on a thread of its own, with fake workers over real sockets.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "router/fake_worker.h"
#include "router/router_fixture.h"
#include "router/router_loop.h"

namespace baton::router {

class RouterLoopTest : public testing::Test {
 protected:
  RouterLoopTest() {
    EXPECT_EQ(pipe2(stop_pipe_, O_NONBLOCK | O_CLOEXEC), 0);
    config_.router.worker_timeout = 30s;
    config_.router.worker_wait = 0s;
    config_.router.drain = 10ms;  // at the end of a test nothing is waited for
    config_.router.local_prefill = config::LocalPrefill::kNever;
  }
  ~RouterLoopTest() override {
    stop();
    close(stop_pipe_[0]);
    close(stop_pipe_[1]);
  }

  void start() {
    Result<wire::Listener> listener = wire::Listener::bind(context_, "tcp://127.0.0.1:*");
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    address_ = listener->address();
    loop_ = std::make_unique<RouterLoop>(
        RouterLoop::Options{.config = &config_,
                            .incarnation = Incarnation{55},
                            .stop_fd = stop_pipe_[0],
                            .on_drain = [this] { drains_.fetch_add(1); }},
        clock_, random_, tokenizer_, std::move(*listener), registry_);
    thread_ = std::thread([this] { loop_->run(); });
  }
  void ask_to_stop() {
    const signalfd_siginfo info{};
    EXPECT_EQ(write(stop_pipe_[1], &info, sizeof(info)), static_cast<ssize_t>(sizeof(info)));
  }
  void stop() {
    if (thread_.joinable()) {
      ask_to_stop();
      thread_.join();
    }
    loop_.reset();
  }

  std::unique_ptr<FakeWorker> worker(wire::Role role, int number) {
    auto made = std::make_unique<FakeWorker>(context_, address_, worker_info(role, number));
    EXPECT_EQ(made->join(), "");
    return made;
  }

  // Fields of a request whose prompt are the tokens 1 to `count`.
  static std::string prompt_of(int count) {
    std::string ids = "1";
    for (int i = 2; i <= count; ++i) {
      ids += "," + std::to_string(i);
    }
    return ",\"prompt\":[" + ids + "]";
  }
  // A request as the endpoint posts it.
  std::shared_ptr<FakeResponder> post(const std::string& fields = "", uint64_t* id = nullptr) {
    auto responder = std::make_shared<FakeResponder>();
    Exchange::Options options;
    options.id = loop_->next_exchange_id();
    options.request = completion(R"({"prompt":[5,6,7],"max_tokens":8)" + fields + "}", tokenizer_);
    options.responder = responder;
    options.public_id = "cmpl-x";
    options.arrived = clock_.now();
    if (id != nullptr) {
      *id = options.id;
    }
    EXPECT_TRUE(loop_->post(NewExchange{std::move(options)}));
    return responder;
  }
  // What the loop answers to an operator.
  template <typename Make>
  boost::json::value ask(const Make& command) {
    auto responder = std::make_shared<FakeResponder>();
    EXPECT_TRUE(loop_->post(command(responder)));
    EXPECT_TRUE(responder->wait_done());
    return json(responder->body());
  }
  boost::json::value explain(const std::string& id) {
    return ask([&id](auto responder) { return ExplainAsked{id, {}, responder}; });
  }
  static std::string text(const FakeResponder& responder) {
    return std::string(json(responder.body()).at("choices").at(0).at("text").as_string());
  }
  std::string decoded(const std::vector<TokenId>& ids) const { return tokenizer_.decode(ids); }
  double ended(std::string_view reason) {
    return registry_.counter(metrics::MetricId::kRequestSuccess, {reason}).value();
  }
  bool eventually(const std::function<bool()>& holds) {
    const TimePoint deadline = clock_.now() + 10s;
    while (!holds()) {
      if (clock_.now() > deadline) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

  config::Config config_ = config::default_config();
  const SteadyClock clock_;
  SeededRandom random_{1};
  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
  metrics::Registry registry_{{.program = metrics::kByRouter, .model_name = "tiny", .worker = ""}};
  wire::Context context_;
  std::string address_;
  int stop_pipe_[2] = {-1, -1};
  std::atomic<int> drains_{0};
  std::unique_ptr<RouterLoop> loop_;
  std::thread thread_;
};

}  // namespace baton::router
