#include "common/worker/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/http/client.h"

namespace baton::worker {
namespace {

using testing::HasSubstr;

class ProbesTest : public testing::Test {
 protected:
  ProbesTest() {
    health_.last_turn_ns = clock_.now().time_since_epoch().count();
    health_.transfer_turn_ns = clock_.now().time_since_epoch().count();
    health_.registered = true;
    Result<std::unique_ptr<http::Server>> server =
        serve_probes("127.0.0.1:0", health_, clock_, registry_, limits_);
    BATON_CHECK(server.ok(), server.status().to_string());
    server_ = std::move(server).value();
  }
  http::Response ask(const std::string& path, const std::string& method = "GET") {
    http::ClientRequest request;
    request.method = method;
    request.url = server_->url() + path;
    Result<http::Response> response = client_.request(request);
    EXPECT_TRUE(response.ok()) << response.status().to_string();
    return response.ok() ? std::move(response).value() : http::Response();
  }

  FakeClock clock_;
  LoopHealth health_;
  ProbeLimits limits_;
  metrics::Registry registry_{{.program = metrics::kByDecode, .model_name = "m", .worker = "d0"}};
  std::unique_ptr<http::Server> server_;
  http::Client client_;
};

TEST_F(ProbesTest, AHealthyWorkerIsLiveAndReady) {
  EXPECT_EQ(ask("/livez").status, 200);
  EXPECT_EQ(ask("/livez").body, "ok\n");
  EXPECT_EQ(ask("/readyz").status, 200);
}

TEST_F(ProbesTest, ALoopThatDoesNotTurnIsNotLive) {
  clock_.advance(2s);
  const http::Response answer = ask("/livez");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "the worker loop does not turn\n");
  EXPECT_EQ(ask("/readyz").status, 503);
}

TEST_F(ProbesTest, AStepWithoutProgressIsNotLive) {
  health_.compute_moved_ns = clock_.now().time_since_epoch().count();
  health_.step_running = true;
  EXPECT_EQ(ask("/livez").status, 200);
  clock_.advance(1500ms);
  health_.last_turn_ns = clock_.now().time_since_epoch().count();
  EXPECT_EQ(ask("/livez").body, "an engine step makes no progress\n");
  health_.step_running = false;
  EXPECT_EQ(ask("/livez").status, 200) << "an idle worker computes nothing and is well";
}

TEST_F(ProbesTest, ATransferThreadThatHangsIsNotLive) {
  clock_.advance(3s);
  health_.last_turn_ns = clock_.now().time_since_epoch().count();
  const http::Response answer = ask("/livez");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "the transfer thread does not turn\n");
}

TEST_F(ProbesTest, IsReadyOnlyWhileRegisteredAndNotDraining) {
  health_.registered = false;
  EXPECT_EQ(ask("/readyz").body, "not registered with a router\n");
  EXPECT_EQ(ask("/livez").status, 200);
  health_.registered = true;
  health_.draining = true;
  EXPECT_EQ(ask("/readyz").body, "draining\n");
}

TEST_F(ProbesTest, ServesMetrics) {
  registry_.counter(metrics::MetricId::kPreemptions).add(3);
  const http::Response answer = ask("/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr("vllm:num_preemptions_total"));
}

TEST_F(ProbesTest, RefusesOtherPathsAndMethods) {
  EXPECT_EQ(ask("/v1/models").status, 404);
  EXPECT_EQ(ask("/livez", "POST").status, 405);
}

TEST_F(ProbesTest, NamesAnAddressInUse) {
  const std::string taken = server_->url().substr(std::string("http://").size());
  const auto second = serve_probes(taken, health_, clock_, registry_, limits_);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("the worker's http key"));
}

}  // namespace
}  // namespace baton::worker
