#include "deploy/baton/status_table.h"

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

TEST(StatusTableTest, PrintsWorkersAndLinks) {
  EXPECT_EQ(status_table(parse_status(kStatus).value()),
            "WORKER  ROLE     STATE     RUNNING  WAITING  FREE BLOCKS  TP  GENERATION\n"
            "p0      prefill  draining  0        3        50 of 50     1   78\n"
            "d0      decode   ready     2        0        98 of 100    2   77\n"
            "\n"
            "LINK      TRANSPORT\n"
            "p0 -> d0  ucx-posix\n");
  EXPECT_EQ(status_table({}), "no workers\n");
}

TEST(StatusTableTest, AddsWhatTheRouterTellsOfTheLastSeconds) {
  ClusterStatus status;
  status.workers.push_back({.name = "p0", .role = "prefill", .state = "ready"});
  status.workers[0].load = {.prefill_tokens_per_s = 4100.4,
                            .prefill_roofline_share = 0.78,
                            .prefix_hit_ratio = 0.125,
                            .queued_tokens = 5120};
  status.workers.push_back({.name = "d0", .role = "decode", .state = "ready"});
  status.workers[1].load = {.decode_tokens_per_s = 1450,
                            .decode_roofline_share = 0.71,
                            .batch_mean = 16,
                            .preemptions = 12,
                            .step_ms_p50 = 11.04};
  status.workers.push_back({.name = "d1", .role = "decode", .state = "ready"});
  status.load = ClusterLoad{.window_s = 30};
  const std::string table = status_table(status);
  EXPECT_EQ(table.substr(table.find("\n\n") + 2),
            "WORKER  PREFILL TOK/S  ROOFLINE  QUEUED TOK  PREFIX HITS  DECODE TOK/S  ROOFLINE  "
            "BATCH  STEP MS  PREEMPTIONS\n"
            "p0      4100           78 %      5120        12 %         -             -         "
            "-      -        -\n"
            "d0      -              -         -           -            1450          71 %      "
            "16.0   11.0     12\n"
            "\n"
            "idle: no request in the last 30 s\n");
}

}  // namespace
}  // namespace baton::cli
