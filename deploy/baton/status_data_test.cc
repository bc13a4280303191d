#include "deploy/baton/status_data.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

constexpr const char* kStatus =
    R"({"workers":[
      {"name":"d0","role":"decode","state":"ready","blocks_total":100,"blocks_free":98,"running":2,
       "waiting":0,"incarnation":"77","pid":12,"tensor_parallel":2,"metrics_url":"http://d0/metrics"},
      {"name":"p0","role":"prefill","state":"draining","blocks_total":50,"blocks_free":50,
       "running":0,"waiting":3,"incarnation":"78","pid":11,"tensor_parallel":1,
       "metrics_url":"http://p0/metrics"}],
      "links":[{"from":"p0","to":"d0","transport":"ucx-posix"}]})";

TEST(StatusDataTest, ReadsWorkersAndLinks) {
  const Result<ClusterStatus> status = parse_status(kStatus);
  ASSERT_TRUE(status.ok()) << status.status().to_string();
  ASSERT_EQ(status->workers.size(), 2u);
  EXPECT_EQ(status->workers[0].name, "p0");
  EXPECT_EQ(status->workers[1].pid, 12);
  EXPECT_EQ(status->workers[1].metrics_url, "http://d0/metrics");
  ASSERT_EQ(status->links.size(), 1u);
  EXPECT_EQ(status->links[0].transport, "ucx-posix");
}

TEST(StatusDataTest, RefusesWhatIsNoStatus) {
  EXPECT_FALSE(parse_status("<html>").ok());
  EXPECT_FALSE(parse_status("[]").ok());
  EXPECT_FALSE(parse_status(R"({"workers":[1]})").ok());
  EXPECT_FALSE(parse_status(R"({"links":["x"]})").ok());
}

constexpr const char* kLoad = R"({"workers":[
    {"name":"p0","role":"prefill","state":"ready","blocks_total":50,"blocks_free":50,"running":1,
     "waiting":2,"incarnation":"78","tensor_parallel":1,"prefill_tokens_per_s":4100.4,
     "prefill_roofline_share":0.78,"decode_tokens_per_s":null,"decode_roofline_share":null,
     "batch_mean":null,"preemptions":0,"prefix_hit_ratio":0.125,"step_ms_p50":92.5,
     "queued_tokens":5120}],"links":[],
    "load":{"window_s":30.0,"requests":120,"rps":4.0,
     "ttft_ms":{"p50":412,"p90":800.5,"p99":900},"tpot_ms":{"p50":11,"p90":12,"p99":15},
     "queue_ms":{"p50":300,"p90":500},"prefill_ms":{"p50":100,"p90":null},
     "second_token_gap_ms":null,"waiting":3,"running":4,"decisions":{"remote":100,"local":20},
     "moved":2,"failed":1,"something new":[1]}})";

TEST(StatusDataTest, ReadsTheLoad) {
  const Result<ClusterStatus> status = parse_status(kLoad);
  ASSERT_TRUE(status.ok()) << status.status().to_string();
  ASSERT_TRUE(status->load.has_value());
  const ClusterLoad& load = *status->load;
  EXPECT_EQ(load.window_s, 30);
  EXPECT_EQ(load.requests, 120);
  EXPECT_EQ(load.requests_per_s, 4);
  EXPECT_EQ(load.ttft_ms.p90, 800.5);
  EXPECT_EQ(load.tpot_ms.p99, 15);
  EXPECT_EQ(load.queue_ms.p99, std::nullopt);
  EXPECT_EQ(load.prefill_ms.p90, std::nullopt) << "null is absent";
  EXPECT_EQ(load.transfer_visible_ms.p50, std::nullopt);
  EXPECT_EQ(load.second_token_gap_ms.p50, std::nullopt);
  EXPECT_EQ(load.waiting, 3);
  EXPECT_EQ(load.running, 4);
  EXPECT_EQ(load.decided_remote, 100);
  EXPECT_EQ(load.decided_local, 20);
  EXPECT_EQ(load.moved, 2);
  EXPECT_EQ(load.failed, 1);
  const WorkerLoad& worker = status->workers[0].load;
  EXPECT_EQ(worker.prefill_roofline_share, 0.78);
  EXPECT_EQ(worker.decode_tokens_per_s, std::nullopt);
  EXPECT_EQ(worker.queued_tokens, 5120);
}

TEST(StatusDataTest, AnOlderRouterTellsNoLoad) {
  const Result<ClusterStatus> status = parse_status(kStatus);
  ASSERT_TRUE(status.ok());
  EXPECT_FALSE(status->load.has_value());
  EXPECT_EQ(status->workers[0].load.batch_mean, std::nullopt);
  const Result<ClusterStatus> odd = parse_status(R"({"load":{"ttft_ms":7,"decisions":[]}})");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->load->ttft_ms.p50, std::nullopt);
  EXPECT_EQ(odd->load->decided_local, 0);
}

}  // namespace
}  // namespace baton::cli
