#include "deploy/baton/status_diagnosis.h"

#include <gmock/gmock.h>

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One prefill and one decode worker after a busy half minute.
ClusterStatus busy() {
  ClusterStatus status;
  status.workers.push_back(
      {.name = "p0", .role = "prefill", .blocks_total = 800, .blocks_free = 700});
  status.workers.push_back(
      {.name = "d0", .role = "decode", .blocks_total = 800, .blocks_free = 300});
  status.links.push_back({"p0", "d0", "ucx-tcp"});
  status.load = ClusterLoad{.window_s = 30,
                            .requests = 120,
                            .requests_per_s = 4,
                            .ttft_ms = {412, 800, 900},
                            .queue_ms = {100, 500, {}},
                            .prefill_ms = {100, 150, {}},
                            .transfer_visible_ms = {50, 60, {}},
                            .waiting = 3,
                            .running = 4,
                            .decided_remote = 100,
                            .decided_local = 20};
  return status;
}

std::string joined(const ClusterStatus& status) {
  std::string out;
  for (const std::string& line : diagnose(status)) {
    out += line + "\n";
  }
  return out;
}

TEST(DiagnosisTest, SaysNothingWithoutData) { EXPECT_THAT(diagnose({}), IsEmpty()); }

TEST(DiagnosisTest, SaysWhenThereIsTooLittleToSay) {
  ClusterStatus status;
  status.load = ClusterLoad{.window_s = 30};
  EXPECT_THAT(diagnose(status), ElementsAre("idle: no request in the last 30 s"));
  status.load->running = 1;
  status.load->ttft_ms = {400, 400, 400};
  EXPECT_THAT(diagnose(status), ElementsAre("last 30 s: 0 requests (0.0/s), 1 running, 0 waiting",
                                            "  -> too few requests to say more"));
  status.load->requests = kFewestRequests - 1;
  EXPECT_THAT(joined(status), HasSubstr("too few"));
  status.load->requests = kFewestRequests;
  EXPECT_THAT(joined(status), Not(HasSubstr("too few")));
}

TEST(DiagnosisTest, TellsWhatHappened) {
  ClusterStatus status = busy();
  status.load->moved = 2;
  status.load->failed = 1;
  EXPECT_EQ(diagnose(status)[0],
            "last 30 s: 120 requests (4.0/s), 4 running, 3 waiting; prompts: 100 on prefill "
            "workers, 20 on decode workers; 2 moved to another worker; 1 failed");
}

struct StartingCase {
  const char* name;
  double queue, prefill, transfer;
  void (*change)(ClusterStatus&);
  const char* conclusion;
};

class StartingTest : public ::testing::TestWithParam<StartingCase> {};

TEST_P(StartingTest, NamesTheLimit) {
  const StartingCase& c = GetParam();
  ClusterStatus status = busy();
  status.load->queue_ms.p50 = c.queue;
  status.load->prefill_ms.p50 = c.prefill;
  status.load->transfer_visible_ms.p50 = c.transfer;
  c.change(status);
  EXPECT_EQ(diagnose(status)[2], "  -> " + std::string(c.conclusion));
}

INSTANTIATE_TEST_SUITE_P(
    Table, StartingTest,
    ::testing::Values(
        StartingCase{"BusyPrefill", 300, 100, 12,
                     [](ClusterStatus& s) {
                       s.workers[0].waiting = 5;
                       s.workers[0].load.queued_tokens = 5120;
                       s.workers[0].load.prefill_roofline_share = 0.78;
                     },
                     "prefill workers are the limit: 5 requests (5120 tokens) wait for p0, "
                     "whose steps reach 78 % of its roofline; add a prefill worker, or CPUs to it"},
        StartingCase{"SlowPrefill", 300, 100, 12,
                     [](ClusterStatus& s) {
                       s.workers[0].waiting = 1;
                       s.workers[0].load.prefill_roofline_share = 0.1;
                     },
                     "prefill workers are the limit: 1 request waits for p0, whose steps reach 10 "
                     "% of its roofline; see whether others use its CPUs before adding a prefill "
                     "worker"},
        StartingCase{"FullDecodePool", 300, 100, 12,
                     [](ClusterStatus& s) {
                       s.workers[0].waiting = 1;
                       s.workers[1].waiting = 5;
                       s.workers[1].blocks_free = 3;
                     },
                     "5 requests wait for KV blocks of d0 (3 of 800 free): enlarge its kv_cache or "
                     "add a decode worker"},
        StartingCase{"OneForDecodePool", 300, 100, 12,
                     [](ClusterStatus& s) {
                       s.workers[1].waiting = 1;
                       s.workers[1].blocks_free = 3;
                     },
                     "1 request waits for KV blocks of d0 (3 of 800 free): enlarge its kv_cache or "
                     "add a decode worker"},
        StartingCase{"RouterQueue", 300, 100, 12, [](ClusterStatus&) {},
                     "3 requests wait in the router for a worker"},
        StartingCase{"OneInRouter", 300, 100, 12, [](ClusterStatus& s) { s.load->waiting = 1; },
                     "1 request waits in the router for a worker"},
        StartingCase{"Bursts", 300, 100, 12, [](ClusterStatus& s) { s.load->waiting = 0; },
                     "no worker has a queue at this moment: requests came in bursts"},
        StartingCase{"Compute", 10, 390, 12,
                     [](ClusterStatus& s) {
                       s.workers[0].load = {.prefill_tokens_per_s = 4100,
                                            .prefill_roofline_share = 0.78,
                                            .prefix_hit_ratio = 0.12};
                     },
                     "computing prompts is the limit: p0 computes 4100 tokens/s (78 % of its "
                     "roofline), prefix cache hits 12 %; only shorter prompts, common prefixes or "
                     "more CPUs make it faster"},
        StartingCase{"SlowCompute", 10, 390, 12,
                     [](ClusterStatus& s) {
                       s.workers[0].load = {.prefill_tokens_per_s = 400,
                                            .prefill_roofline_share = 0.08};
                       s.workers[1].load = {.prefill_tokens_per_s = 200};
                     },
                     "computing prompts is the limit: p0 computes 400 tokens/s (8 % of its "
                     "roofline) and d0 computes 200 tokens/s; far from the machine's limit: short "
                     "prompts, or CPUs that others use"},
        StartingCase{"ComputeUnknown", 10, 390, 12, [](ClusterStatus&) {},
                     "computing prompts is the limit"},
        StartingCase{"Transfer", 10, 100, 302, [](ClusterStatus&) {},
                     "the hand-over is the limit: it is not hidden behind the computation (p0 -> "
                     "d0 over ucx-tcp)"},
        StartingCase{"Balanced", 150, 150, 112, [](ClusterStatus&) {}, "no part dominates"},
        StartingCase{"Elsewhere", 10, 100, 12, [](ClusterStatus&) {},
                     "most of it is in none of these parts: the router, or retries"}),
    [](const auto& tested) { return tested.param.name; });

TEST(DiagnosisTest, ShowsThePartsOfTheStart) {
  ClusterStatus status = busy();
  status.load->queue_ms.p50 = 300;
  status.load->transfer_visible_ms.p50 = 12;
  EXPECT_EQ(diagnose(status)[1],
            "starting: first token after 412 ms p50, 900 ms p99; p50 of its parts: queue 300 ms "
            "(73 %) + prefill 100 ms (24 %) + transfer 12 ms (3 %)");
  status.load->queue_ms = status.load->prefill_ms = status.load->transfer_visible_ms = {};
  status.load->ttft_ms = {8.25, {}, {}};
  EXPECT_EQ(diagnose(status)[1], "starting: first token after 8.2 ms p50");
  EXPECT_EQ(diagnose(status).size(), 2u);
}

struct StreamingCase {
  const char* name;
  WorkerLoad load;
  const char* conclusion;
};

class StreamingTest : public ::testing::TestWithParam<StreamingCase> {};

TEST_P(StreamingTest, NamesTheLimit) {
  ClusterStatus status = busy();
  status.load->ttft_ms = {};
  status.load->tpot_ms = {11, 12, 15};
  status.load->second_token_gap_ms = {30, 50, {}};
  status.workers[0].load = {.prefill_tokens_per_s = 4100,
                            .prefill_roofline_share = 0.7,
                            .batch_mean = 1,
                            .step_ms_p50 = 2};
  status.workers[1].load = GetParam().load;
  EXPECT_THAT(
      diagnose(status),
      ElementsAre(::testing::_,
                  "streaming: 11 ms a token p50, 15 ms p99; the second token 30 ms after the first",
                  "  -> " + std::string(GetParam().conclusion)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, StreamingTest,
    ::testing::Values(
        StreamingCase{"NearTheLimit",
                      {.decode_tokens_per_s = 1450,
                       .decode_roofline_share = 0.71,
                       .batch_mean = 16,
                       .preemptions = 0,
                       .step_ms_p50 = 11},
                      "d0 runs 16.0 sequences a step of 11 ms, 1450 tokens/s at 71 % of its "
                      "roofline; steps are near the machine's limit: another decode worker with "
                      "CPUs and memory of its own shortens them"},
        StreamingCase{"Preemptions",
                      {.decode_tokens_per_s = 1450,
                       .decode_roofline_share = 0.71,
                       .batch_mean = 16,
                       .preemptions = 12,
                       .step_ms_p50 = 11},
                      "d0 runs 16.0 sequences a step of 11 ms, 1450 tokens/s at 71 % of its "
                      "roofline; 12 preemptions: its KV pool is too small for what runs (300 of "
                      "800 blocks free), enlarge kv_cache"},
        StreamingCase{"FarFromTheLimit",
                      {.decode_tokens_per_s = 90, .decode_roofline_share = 0.1, .batch_mean = 1},
                      "d0 runs 1.0 sequences a step, 90 tokens/s at 10 % of its roofline; far from "
                      "the machine's limit: few sequences, or CPUs that others use"},
        StreamingCase{"Between",
                      {.decode_roofline_share = 0.4, .batch_mean = 4},
                      "d0 runs 4.0 sequences a step at 40 % of its roofline"}),
    [](const auto& tested) { return tested.param.name; });

TEST(DiagnosisTest, NoticesSequencesThatSitOutStepsAndALateSecondToken) {
  ClusterStatus status = busy();
  status.load->tpot_ms = {25, {}, {}};
  status.load->second_token_gap_ms = {80, {}, {}};
  status.workers[0].load = {.batch_mean = 1, .step_ms_p50 = 95};
  status.workers[1].load = {.batch_mean = 4, .step_ms_p50 = 11};
  EXPECT_THAT(joined(status),
              HasSubstr("  -> tokens come slower than steps (25 ms against 11 ms): sequences sit "
                        "out steps\n"
                        "  -> the second token is late: "));
  status.load->tpot_ms = {16, {}, {}};
  status.load->second_token_gap_ms = {40, {}, {}};
  EXPECT_THAT(joined(status), Not(HasSubstr("sit out")));
  EXPECT_THAT(joined(status), Not(HasSubstr("late")));
}

}  // namespace
}  // namespace baton::cli
