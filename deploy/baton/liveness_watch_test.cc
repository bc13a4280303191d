#include "deploy/baton/liveness_watch.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <memory>

#include "common/http/server.h"
#include "common/http/test_socket.h"

namespace baton::cli {
namespace {

class LivenessWatchTest : public ::testing::Test {
 protected:
  LivenessWatchTest() {
    server_ = *http::Server::start(
        "127.0.0.1:0", {},
        [this](http::Request request, std::shared_ptr<http::Responder> responder) {
          EXPECT_EQ(request.path, "/livez");
          ++asked_;
          http::Response response;
          response.status = live_ ? 200 : 503;
          response.body = live_ ? "ok\n" : "the worker loop does not turn\n";
          responder->send(std::move(response));
        });
  }
  RunningProgram program(pid_t pid) const {
    return {config::Role::kDecode, "d0", pid, server_->url() + "/metrics"};
  }
  static bool told(const LivenessWatch& watch, int ms) {
    pollfd fd = {watch.fd(), POLLIN, 0};
    return poll(&fd, 1, ms) == 1;
  }
  void wait_asked(int more) const {
    const int until = asked_ + more;
    while (asked_ < until) {
      std::this_thread::yield();
    }
  }

  SteadyClock clock_;
  std::atomic<bool> live_{true};
  std::atomic<int> asked_{0};
  std::unique_ptr<http::Server> server_;
  LivenessWatch::Options options_{.stuck_after = 60ms, .poll_interval = 5ms, .timeout = 20ms};
};

TEST_F(LivenessWatchTest, NamesWhatFailsForTooLongOnceAndWhy) {
  options_.timeout = 5s;
  LivenessWatch watch(options_, clock_);
  watch.set({program(77)});
  wait_asked(3);
  EXPECT_FALSE(told(watch, 0));
  live_ = false;
  ASSERT_TRUE(told(watch, 5000));
  const std::vector<StuckProgram> stuck = watch.take();
  ASSERT_EQ(stuck.size(), 1u);
  EXPECT_EQ(stuck[0].pid, 77);
  EXPECT_EQ(stuck[0].why, "the worker loop does not turn");
  EXPECT_GE(stuck[0].since, 60ms);
  watch.set({program(77)});
  wait_asked(20);
  EXPECT_FALSE(told(watch, 0)) << "told already";
  watch.set({program(78)});  // its next life hangs, too
  EXPECT_TRUE(told(watch, 5000));
  EXPECT_EQ(watch.take()[0].pid, 78);
}

TEST_F(LivenessWatchTest, OneGoodAnswerBeginsTheCountAnew) {
  options_.timeout = 5s;
  options_.stuck_after = 1h;
  LivenessWatch watch(options_, clock_);
  watch.set({program(77)});
  live_ = false;
  wait_asked(3);
  live_ = true;
  wait_asked(2);
  EXPECT_FALSE(told(watch, 0));
}

// A stopped process: the kernel takes the connection, and no answer comes.
TEST_F(LivenessWatchTest, ASilentProgramHangs) {
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(silent, 128), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
  LivenessWatch watch(options_, clock_);
  RunningProgram stopped = program(77);
  stopped.metrics_url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/metrics";
  watch.set({stopped});
  ASSERT_TRUE(told(watch, 5000));
  EXPECT_TRUE(watch.take()[0].why.starts_with("no answer: "));
  close(silent);
}

TEST_F(LivenessWatchTest, EndsWhileItAsks) {
  options_.timeout = 1h;
  LivenessWatch watch(options_, clock_);
  watch.set({program(77)});
  wait_asked(1);
}

}  // namespace
}  // namespace baton::cli
