#include "deploy/baton/serve_bench/bench_session.h"

#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <set>

#include "deploy/baton/serve_bench/simulated_server.h"

namespace baton::serve_bench {
namespace {

using ::testing::HasSubstr;

class BenchSessionTest : public ::testing::Test {
 protected:
  Result<Report> run(std::vector<PlannedRequest> trace = {}) {
    ServerSetup setup;
    setup.api = "/v1";
    setup.dialect.model = "m";
    BenchSession session(options, setup, std::move(trace),
                         {.port = server,
                          .random = random,
                          .stopped = [this] { return stop_at && server.now() >= *stop_at; },
                          .show = [this](const std::string& line) { shown = line; },
                          .say = [this](const std::string& line) { said.push_back(line); },
                          .cpu_s = [] { return 1.0; }});
    return session.run();
  }

  ServeBenchOptions options;
  SimulatedServer server;
  SeededRandom random{9};
  std::optional<TimePoint> stop_at;
  std::string shown;
  std::vector<std::string> said;
};

TEST_F(BenchSessionTest, MeasuresARate) {
  options.rate = 5;
  options.duration_s = 20;
  options.input = 300;
  server.tokens_per_word = 1.25;
  server.overhead = 12;
  const Result<Report> report = run();
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  const Summary& s = report->measurement.summary;
  EXPECT_EQ(s.failed, 0u);
  EXPECT_NEAR(static_cast<double>(s.completed), 100, 35);
  EXPECT_EQ(s.sent, s.completed);
  EXPECT_NEAR(s.prompt_tokens_mean, 300, 1) << "calibrated";
  EXPECT_EQ(s.output_tokens_mean, 64);
  EXPECT_EQ(s.tpot_ms.p99, 5);
  EXPECT_EQ(s.attainment, 1);
  EXPECT_EQ(s.window_s, 20);
  EXPECT_EQ(report->measurement.offered_rps, 5);
  // Two questions and four requests to warm up.
  EXPECT_EQ(report->unmeasured.requests, 6u);
  EXPECT_EQ(report->unmeasured.completion_tokens, 2 + 1 + 4 * 64);
  EXPECT_THAT(shown, HasSubstr("done"));
  std::set<std::string> prompts;
  for (const std::string& body : server.bodies) {
    prompts.insert(body.substr(0, 60));
  }
  EXPECT_EQ(prompts.size(), server.bodies.size()) << "no prefix twice";
}

TEST_F(BenchSessionTest, FindsTheHighestRate) {
  // One prompt at a time, 100 ms each: 10 requests a second at the very most.
  server.prefill = 100ms;
  options.search = true;
  options.duration_s = 60;
  options.warmup = 0;
  options.slo_ttft_ms = 1000;
  const Result<Report> report = run();
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  ASSERT_TRUE(report->search && report->search->best);
  const double best = report->measurement.load;
  EXPECT_GT(best, 7);
  EXPECT_LT(best, 10.5);
  EXPECT_GE(report->measurement.summary.attainment, 0.9);
  EXPECT_TRUE(report->search->bounded);
  EXPECT_EQ(said.size(), report->search->probes.size());
  bool early = false;
  for (const Measurement& probe : report->search->probes) {
    early = early || probe.hopeless;
  }
  EXPECT_TRUE(early) << "probes far above are stopped";
}

TEST_F(BenchSessionTest, FindsTheHighestSpeedOfATrace) {
  server.prefill = 100ms;
  std::vector<PlannedRequest> trace;
  for (int i = 0; i < 3000; ++i) {
    trace.push_back({i * 500ms, 50, 10, {}});
  }
  options.trace = "t";
  options.search = true;
  options.duration_s = 30;
  const Result<Report> report = run(trace);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  ASSERT_TRUE(report->search && report->search->best);
  EXPECT_GT(report->measurement.load, 4.7) << "2 requests a second, evenly: 5 times that fits";
  EXPECT_LT(report->measurement.load, 5.7);
  EXPECT_NEAR(report->measurement.offered_rps, report->measurement.load * 2, 0.2);
}

TEST_F(BenchSessionTest, LeavesOutFieldsThatAServerRefuses) {
  server.refuse = [](size_t, const std::string& body) -> std::optional<AnswerEnd> {
    if (body.find("ignore_eos") == std::string::npos) {
      return std::nullopt;
    }
    return AnswerEnd{.outcome = Outcome::kHttpStatus, .http_status = 400, .message = "unknown"};
  };
  options.concurrency = 2;
  options.requests = 4;
  const Result<Report> report = run();
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_FALSE(report->setup.dialect.ignore_eos);
  EXPECT_TRUE(report->setup.dialect.include_usage);
  EXPECT_EQ(report->measurement.summary.completed, 4u);
}

TEST_F(BenchSessionTest, GoesOnWithoutCountsOfTheServer) {
  server.counts = false;
  options.concurrency = 1;
  options.requests = 3;
  const Result<Report> report = run();
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->setup.counts_prompts);
  EXPECT_FALSE(report->measurement.summary.counted_by_server);
  EXPECT_EQ(report->measurement.summary.output_tokens, 3 * 64) << "an event a token";
}

TEST_F(BenchSessionTest, SaysWhatToDoWhenTheServerRefuses) {
  int status = 401;
  server.refuse = [&](size_t, const std::string&) {
    return std::optional(AnswerEnd{
        .outcome = Outcome::kHttpStatus, .http_status = status, .message = "no such thing"});
  };
  options.rate = 1;
  EXPECT_EQ(run().status().message(),
            "/v1/completions: HTTP status 401: no such thing; give the server's key with "
            "--api-key-file FILE");
  status = 404;
  EXPECT_EQ(run().status().message(),
            "/v1/completions: HTTP status 404: no such thing; check --url and --model");
  server.refuse = [](size_t, const std::string&) {
    return std::optional(AnswerEnd{.outcome = Outcome::kConnection, .message = "refused"});
  };
  EXPECT_EQ(run().status().code(), StatusCode::kUnavailable);
}

TEST_F(BenchSessionTest, ReportsWhatWasMeasuredBeforeAStop) {
  options.rate = 5;
  options.warmup = 0;
  stop_at = server.now() + 10s;
  const Result<Report> report = run();
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_TRUE(report->measurement.interrupted);
  EXPECT_NEAR(static_cast<double>(report->measurement.summary.completed), 50, 25);

  options.search = true;
  stop_at = server.now() + 150s;
  const Result<Report> search = run();
  ASSERT_TRUE(search.ok()) << search.status().to_string();
  EXPECT_TRUE(search->measurement.interrupted);
  EXPECT_GE(search->search->probes.size(), 2u);

  server.hangs = true;
  stop_at = server.now() + 1s;
  EXPECT_EQ(run().status().code(), StatusCode::kCancelled) << "nothing to report";
}

TEST_F(BenchSessionTest, WritesTheFieldsThatScriptsRead) {
  options.rate = 5;
  options.duration_s = 5;
  options.search = true;
  server.prefill = 100ms;
  const Result<Report> report = run();
  ASSERT_TRUE(report.ok());
  const boost::json::value json = boost::json::parse(report_json(*report));
  for (const char* name : {"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"}) {
    for (const char* p : {"p50", "p90", "p99", "max"}) {
      EXPECT_TRUE(json.at(name).at(p).is_double()) << name << "." << p;
    }
  }
  EXPECT_EQ(json.at("failed").as_int64(), 0);
  EXPECT_GE(json.at("attainment").as_double(), 0.9);
  EXPECT_GT(json.at("goodput_rps").as_double(), 5);
  EXPECT_EQ(json.at("settings").at("arrivals").as_string(), "poisson");
  EXPECT_EQ(json.at("tokens_counted_by").as_string(), "usage");
  EXPECT_GT(json.at("search").at("best_rps").as_double(), 5);
  EXPECT_EQ(json.at("search").at("probes").as_array().size(), report->search->probes.size());
  const std::string text = report_text(*report);
  for (const char* part : {"TTFT", "attainment 0.9", "goodput", "highest"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(BenchSessionTest, RefusesATimeInWhichNothingArrives) {
  options.rate = 0.001;
  options.duration_s = 0.001;
  options.warmup = 0;
  EXPECT_EQ(run().status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::serve_bench
