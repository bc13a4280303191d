#include "router/placement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/prefix_hash/prefix_hash.h"
#include "router/router_fixture.h"

namespace baton::router {
namespace {

using config::LocalPrefill;

class PlacementTest : public testing::Test {
 protected:
  PlacementTest() {
    for (int number : {0, 1}) {
      prefills_.push_back(worker(wire::Role::kPrefill, number));
      decodes_.push_back(worker(wire::Role::kDecode, number));
    }
  }
  static WorkerState worker(wire::Role role, int number) {
    WorkerState state;
    state.info = worker_info(role, number);
    state.load.blocks_free = 64;
    state.load.prefill_tokens_per_s = 1000;
    state.load.transfer_bytes_per_s = 1e9;
    return state;
  }
  static std::vector<WorkerState*> pointers(std::vector<WorkerState>& workers) {
    std::vector<WorkerState*> out;
    for (WorkerState& worker : workers) {
      out.push_back(&worker);
    }
    return out;
  }

  PlacementRequest request(size_t tokens) {
    tokens_.resize(tokens);
    for (size_t i = 0; i < tokens; ++i) {
      tokens_[i] = static_cast<TokenId>(i % 300);
    }
    PlacementRequest out;
    out.tokens = tokens_;
    for (const int block : {32, 64}) {
      out.chains.push_back({block, prefix_hash::chain(root_, tokens_, block)});
    }
    return out;
  }
  // The worker says that it holds the first blocks of the request.
  void hold(WorkerState& worker, const PlacementRequest& request, size_t blocks) {
    wire::Heartbeat heartbeat;
    for (const PrefixChain& chain : request.chains) {
      if (chain.block_tokens == static_cast<int>(worker.info.block_tokens)) {
        heartbeat.cache_added.assign(chain.hashes.begin(),
                                     chain.hashes.begin() + static_cast<long>(blocks));
      }
    }
    worker.prefixes.apply(heartbeat);
  }
  // "p0>d0,d1 reason", or "d0 reason" when local.
  std::string place(LocalPrefill mode, const PlacementRequest& request) {
    const Result<Placement> got =
        PlacementPolicy(mode).place(request, pointers(prefills_), pointers(decodes_));
    if (!got.ok()) {
      return got.status().to_string();
    }
    std::string out = got->local ? "" : got->prefill->info.name + ">";
    for (size_t i = 0; i < got->decodes.size(); ++i) {
      out += (i == 0 ? "" : ",") + got->decodes[i]->info.name;
    }
    EXPECT_EQ(got->decision, got->local ? "local" : "remote");
    predicted_ms_ = got->predicted.ttft_ms();
    return out + " " + std::string(got->reason);
  }

  const U128 root_{5, 6};
  std::vector<TokenId> tokens_;
  std::vector<WorkerState> prefills_;
  std::vector<WorkerState> decodes_;
  double predicted_ms_ = 0;
};

TEST_F(PlacementTest, FollowsTheModeForLongAndShortPrompts) {
  decodes_[0].load.running = decodes_[1].load.running = 1;
  struct Row {
    LocalPrefill mode;
    size_t tokens;
    std::string want;
  };
  for (const Row& row : std::vector<Row>{
           {LocalPrefill::kNever, 1, "p0>d0,d1 never"},
           {LocalPrefill::kNever, 500, "p0>d0,d1 never"},
           {LocalPrefill::kAlways, 1, "d0 always"},
           {LocalPrefill::kAlways, 500, "d0 always"},
           {LocalPrefill::kAuto, 64, "d0 short_prompt"},
           {LocalPrefill::kAuto, 65, "p0>d0,d1 streams_running"},
           {LocalPrefill::kAuto, 500, "p0>d0,d1 streams_running"},
       }) {
    EXPECT_EQ(place(row.mode, request(row.tokens)), row.want) << row.tokens;
  }
}

TEST_F(PlacementTest, NamesWhatIsMissing) {
  prefills_.clear();
  EXPECT_EQ(place(LocalPrefill::kNever, request(10)), "unavailable: no prefill worker is ready");
  EXPECT_EQ(place(LocalPrefill::kAuto, request(500)), "d0 no_prefill_worker");
  EXPECT_EQ(place(LocalPrefill::kAlways, request(500)), "d0 always");
  decodes_.clear();
  for (const LocalPrefill mode :
       {LocalPrefill::kNever, LocalPrefill::kAuto, LocalPrefill::kAlways}) {
    EXPECT_EQ(place(mode, request(10)), "unavailable: no decode worker is ready");
  }
}

TEST_F(PlacementTest, PutsAMovedRequestWithChoicesOnADecodeWorkerInEveryMode) {
  PlacementRequest moved = request(500);
  moved.choices = 2;
  moved.needs_local = true;
  EXPECT_EQ(place(LocalPrefill::kNever, moved), "d0 moved");
}

TEST_F(PlacementTest, AvoidsAPrefillWorkerThatIsBusy) {
  prefills_[0].load.waiting_tokens = 8000;
  for (int i = 0; i < 20; ++i) {  // until the other has as much
    EXPECT_EQ(place(LocalPrefill::kNever, request(100)).substr(0, 2), "p1");
    prefills_[1].assigned_prompt_tokens += 100;
  }
  prefills_[1].assigned_prompt_tokens = 8001;
  EXPECT_EQ(place(LocalPrefill::kNever, request(100)).substr(0, 2), "p0");
}

TEST_F(PlacementTest, CountsNoPromptThatIsDoneAndThatTheLastHeartbeatStillCounts) {
  decodes_[0].load.waiting_tokens = 500;
  decodes_[1].load.waiting_tokens = 4000;
  hold(decodes_[0], request(500), 14);
  EXPECT_EQ(place(LocalPrefill::kAuto, request(500)), "p0>d0,d1 decode_queue");
  decodes_[0].prefilled_since_heard = 500;
  EXPECT_EQ(place(LocalPrefill::kAuto, request(500)), "d0 prefix_on_decode");
  decodes_[0].prefilled_since_heard = 900;  // some of it computed before the heartbeat
  EXPECT_EQ(place(LocalPrefill::kAuto, request(500)), "d0 prefix_on_decode");
  EXPECT_NEAR(predicted_ms_, 52, 1e-6);
}

TEST_F(PlacementTest, WeighsQueuesByEachWorkersRate) {
  prefills_[0].load.waiting_tokens = 3000;
  prefills_[0].load.prefill_tokens_per_s = 6000;  // 0.5 s
  prefills_[1].load.waiting_tokens = 800;         // 0.8 s
  EXPECT_EQ(place(LocalPrefill::kNever, request(100)).substr(0, 2), "p0");
  EXPECT_NEAR(predicted_ms_, 3100.0 / 6, 1e-6);
}

TEST_F(PlacementTest, SendsAPromptToItsPrefixUnlessTheQueueCostsMore) {
  const PlacementRequest long_prompt = request(640);
  hold(prefills_[1], long_prompt, 16);  // 512 tokens: 512 ms saved
  EXPECT_EQ(place(LocalPrefill::kNever, long_prompt).substr(0, 2), "p1");
  EXPECT_NEAR(predicted_ms_, 128, 1e-6);
  prefills_[1].load.waiting_tokens = 500;
  EXPECT_EQ(place(LocalPrefill::kNever, long_prompt).substr(0, 2), "p1");
  prefills_[1].load.waiting_tokens = 520;
  EXPECT_EQ(place(LocalPrefill::kNever, long_prompt).substr(0, 2), "p0");
}

TEST_F(PlacementTest, UnderstandsEachWorkersBlockSize) {
  prefills_[0].info.block_tokens = 64;
  const PlacementRequest long_prompt = request(640);
  hold(prefills_[0], long_prompt, 9);   // 576 tokens
  hold(prefills_[1], long_prompt, 16);  // 512 tokens
  EXPECT_EQ(place(LocalPrefill::kNever, long_prompt).substr(0, 2), "p0");
  EXPECT_NEAR(predicted_ms_, 64, 1e-6);
  prefills_[0].info.block_tokens = 16;  // no chain was made for it: no hit is assumed
  EXPECT_EQ(place(LocalPrefill::kNever, long_prompt).substr(0, 2), "p1");
}

TEST_F(PlacementTest, NeverCountsTheLastTokenAsCached) {
  const PlacementRequest exact = request(64);
  hold(prefills_[0], exact, 2);
  place(LocalPrefill::kNever, exact);
  EXPECT_NEAR(predicted_ms_, 1, 1e-6);
}

TEST_F(PlacementTest, KeepsAPromptWhosePrefixIsOnADecodeWorkerThere) {
  decodes_[0].load.running = decodes_[1].load.running = 1;
  const PlacementRequest long_prompt = request(500);
  hold(decodes_[1], long_prompt, 14);  // 448 of 500
  EXPECT_EQ(place(LocalPrefill::kAuto, long_prompt), "d1 prefix_on_decode");
  EXPECT_EQ(place(LocalPrefill::kNever, long_prompt), "p0>d1,d0 never");  // less to ship
}

TEST_F(PlacementTest, DoesNotQueueAShortPromptBehindALongLocalOne) {
  decodes_[0].load.waiting_tokens = decodes_[1].load.waiting_tokens = 4000;
  EXPECT_EQ(place(LocalPrefill::kAuto, request(20)), "p0>d0,d1 decode_queue");
  prefills_[0].load.waiting_tokens = prefills_[1].load.waiting_tokens = 4000;
  EXPECT_EQ(place(LocalPrefill::kAuto, request(20)), "d0 short_prompt");
}

TEST_F(PlacementTest, AvoidsAFullDecodePool) {
  decodes_[0].load.blocks_free = 2;
  EXPECT_EQ(place(LocalPrefill::kNever, request(100)), "p0>d1,d0 never");
  EXPECT_EQ(place(LocalPrefill::kAlways, request(100)), "d1 always");
  decodes_[1].load.blocks_free = 0;  // both are full: it waits where the names say
  EXPECT_EQ(place(LocalPrefill::kNever, request(100)), "p0>d0,d1 never");
}

TEST_F(PlacementTest, OfWindowsAPromptWantsAWindow) {
  for (WorkerState& decode : decodes_) {
    decode.info.window_tokens = 64;
    decode.load.window_blocks_free = 4;
  }
  EXPECT_EQ(place(LocalPrefill::kNever, request(1000)), "p0>d0,d1 never");
  decodes_[0].load.window_blocks_free = 3;  // 3 of the window, 1 for its choice
  EXPECT_EQ(place(LocalPrefill::kNever, request(1000)), "p0>d1,d0 never");
  EXPECT_EQ(place(LocalPrefill::kNever, request(40)), "p0>d0,d1 never");
  decodes_[1].info.blocks_total = decodes_[1].load.blocks_free = 0;
  EXPECT_EQ(place(LocalPrefill::kNever, request(1000)), "p0>d1,d0 never") << "windows alone";
}

TEST_F(PlacementTest, PredictsTheBytesOfTheWindowOnly) {
  for (WorkerState& decode : decodes_) {
    decode.info.kv_bytes_per_token = 0;
    decode.info.window_kv_bytes_per_token = 1'000'000;
    decode.info.window_tokens = 10;
    decode.load.window_blocks_free = 64;
  }
  decodes_[0].info.window_tokens = 200;
  EXPECT_EQ(place(LocalPrefill::kNever, request(1000)), "p0>d1,d0 never");
}

TEST_F(PlacementTest, SpreadsStreamsOverDecodeWorkers) {
  decodes_[0].assigned_choices = 3;
  EXPECT_EQ(place(LocalPrefill::kNever, request(100)), "p0>d1,d0 never");
  decodes_[1].load.running = 4;
  EXPECT_EQ(place(LocalPrefill::kNever, request(100)), "p0>d0,d1 never");
}

TEST_F(PlacementTest, PrefillsALongPromptOnAnIdleDecodeWorkerWhenThatIsFaster) {
  prefills_[0].load.waiting_tokens = prefills_[1].load.waiting_tokens = 1000;
  EXPECT_EQ(place(LocalPrefill::kAuto, request(300)), "d0 faster");
  decodes_[0].load.running = decodes_[1].load.running = 1;
  EXPECT_EQ(place(LocalPrefill::kAuto, request(300)), "p0>d0,d1 streams_running");
}

TEST_F(PlacementTest, PrefersAPrefillWorkerWhenBothAreIdle) {
  EXPECT_EQ(place(LocalPrefill::kAuto, request(300)), "p0>d0,d1 long_prompt");
}

TEST_F(PlacementTest, SurvivesNumbersThatMakeNoSense) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double value : {std::nan(""), inf, -inf, 0.0, -1.0, 5e-324, 1e308}) {
    for (WorkerState* worker : {&prefills_[0], &decodes_[0]}) {
      worker->load.prefill_tokens_per_s = value;
      worker->load.transfer_bytes_per_s = value;
      worker->load.decode_step_ms = value;
    }
    place(LocalPrefill::kAuto, request(300));
    EXPECT_TRUE(std::isfinite(predicted_ms_)) << value;
  }
}

TEST_F(PlacementTest, BoundsTheFallBacks) {
  for (int number = 2; number < 9; ++number) {
    decodes_.push_back(worker(wire::Role::kDecode, number));
  }
  EXPECT_EQ(place(LocalPrefill::kNever, request(10)), "p0>d0,d1,d2,d3 never");
}

TEST_F(PlacementTest, AssumesARateUntilOneIsMeasured) {
  prefills_[0].load.prefill_tokens_per_s = 0;
  prefills_[1].load.prefill_tokens_per_s = 0;
  EXPECT_EQ(place(LocalPrefill::kNever, request(250)).substr(0, 2), "p0");
  EXPECT_NEAR(predicted_ms_, 250, 1e-6);
}

}  // namespace
}  // namespace baton::router
