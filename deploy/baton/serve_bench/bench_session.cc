#include "deploy/baton/serve_bench/bench_session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "deploy/baton/serve_bench/progress.h"
#include "deploy/baton/serve_bench/rate_search.h"

namespace baton::serve_bench {
namespace {

// Fewer requests say nothing about a share of 90 %: probes of low rates last longer for it.
constexpr double kLeastRequests = 20;
constexpr int kWarmupClients = 4;

Duration milliseconds(double ms) { return from_seconds(ms / 1000); }

}  // namespace

BenchSession::BenchSession(const ServeBenchOptions& options, ServerSetup setup,
                           std::vector<PlannedRequest> trace, SessionSurroundings around)
    : options_(options),
      trace_(std::move(trace)),
      around_(std::move(around)),
      probe_(around_.port, from_seconds(options.request_timeout_s), around_.stopped) {
  report_.options = options;
  report_.setup = std::move(setup);
}

Result<Report> BenchSession::run() {
  const PromptMaker prompts(around_.random.next());
  BATON_ASSIGN_OR_RETURN(report_.setup, probe_.prepare(report_.setup, options_.input, prompts));
  BATON_RETURN_IF_ERROR(warm_up());
  if (options_.search) {
    BATON_RETURN_IF_ERROR(search());
  } else {
    BATON_ASSIGN_OR_RETURN(report_.measurement, measure(start_load()));
  }
  report_.unmeasured.requests += probe_.unmeasured().requests;
  report_.unmeasured.prompt_tokens += probe_.unmeasured().prompt_tokens;
  report_.unmeasured.completion_tokens += probe_.unmeasured().completion_tokens;
  return report_;
}

double BenchSession::start_load() const {
  if (options_.concurrency > 0) {
    return options_.concurrency;
  }
  if (!options_.trace.empty()) {
    return options_.trace_scale;
  }
  return options_.rate > 0 ? options_.rate : 1;
}

Status BenchSession::warm_up() {
  if (options_.warmup == 0) {
    return Status();
  }
  Measurement ignored;
  LoadSpec spec = spec_for(start_load(), ignored);
  spec.arrivals.clear();
  spec.concurrency = std::min(options_.warmup, kWarmupClients);
  spec.next = closed_loop_source({options_.input, options_.input_spread},
                                 {options_.output, options_.output_spread},
                                 static_cast<size_t>(options_.warmup), around_.random.next());
  spec.window = Duration::zero();
  spec.on_tick = [this](const RunProgress& progress) {
    around_.show(progress_line(progress, {{}, static_cast<size_t>(options_.warmup), "warm-up"}));
    return !around_.stopped();
  };
  const RunOutcome outcome = LoadRun(around_.port, std::move(spec)).run();
  for (const RequestRecord& record : outcome.records) {
    ++report_.unmeasured.requests;
    report_.unmeasured.prompt_tokens += std::max<int64_t>(0, record.prompt_tokens);
    report_.unmeasured.completion_tokens += record.tokens;
  }
  return outcome.interrupted ? cancelled("stopped in the warm-up") : Status();
}

// Everything but the arrivals.
LoadSpec BenchSession::spec_for(double load, Measurement& m) const {
  LoadSpec spec;
  spec.slo = {milliseconds(options_.slo_ttft_ms), milliseconds(options_.slo_tpot_ms)};
  spec.request_timeout = from_seconds(options_.request_timeout_s);
  const PromptMaker prompts(around_.random.next());
  spec.make_call = [this, prompts](const PlannedRequest& planned, uint64_t number) {
    const std::string text = prompts.text(planned, number, report_.setup.scale);
    return CompletionCall{
        report_.setup.path, report_.setup.dialect.body(text, planned.output_tokens), {}};
  };
  const double duration = options_.duration_s > 0 ? options_.duration_s
                                                  : (options_.requests > 0 ? 0 : kDefaultDurationS);
  spec.window = from_seconds(duration);
  m.load = load;
  return spec;
}

void BenchSession::plan_arrivals(double load, LoadSpec& spec, Measurement& m) const {
  const auto requests = static_cast<size_t>(options_.requests);
  const Lengths input{options_.input, options_.input_spread};
  const Lengths output{options_.output, options_.output_spread};
  if (options_.concurrency > 0) {
    spec.concurrency = options_.concurrency;
    spec.next = closed_loop_source(input, output, requests, options_.seed);
    return;
  }
  if (options_.trace.empty()) {
    if (options_.search && spec.window > Duration::zero()) {
      spec.window = std::max(spec.window, from_seconds(kLeastRequests / load));
    }
    spec.arrivals = plan_poisson({load, spec.window, requests, input, output, options_.seed});
    m.offered_rps = load;
  } else {
    CutTrace cut =
        cut_trace(trace_, {load, spec.window, requests, options_.max_input, options_.max_output});
    spec.arrivals = std::move(cut.requests);
    m.shortened = cut.shortened;
  }
  // The time that the arrivals take: the window, unless they end before it.
  const size_t count = spec.arrivals.size();
  const bool all = (requests > 0 && count == requests) || count == trace_.size();
  if (count > 0 && (all || spec.window == Duration::zero())) {
    const double last_s = to_seconds(spec.arrivals.back().offset);
    const auto n = static_cast<double>(count);
    spec.window = from_seconds(count > 1 ? last_s * n / (n - 1) : last_s);
  }
  if (!options_.trace.empty() && spec.window > Duration::zero()) {
    m.offered_rps = static_cast<double>(count) / to_seconds(spec.window);
  }
  spec.most_misses =
      options_.search
          ? static_cast<size_t>(
                (1 - kWantedAttainment) * static_cast<double>(spec.arrivals.size()) + 1e-9)
          : SIZE_MAX;
}

Result<Measurement> BenchSession::measure(double load) {
  Measurement m;
  LoadSpec spec = spec_for(load, m);
  plan_arrivals(load, spec, m);
  if (spec.concurrency == 0 && spec.arrivals.empty()) {
    return invalid_argument("no request arrives in the time given; raise --duration or the rate");
  }
  const ProgressGoal goal{spec.window,
                          spec.concurrency > 0 ? static_cast<size_t>(options_.requests) : 0,
                          options_.search ? load_text(options_, load) : ""};
  spec.on_tick = [this, goal](const RunProgress& progress) {
    around_.show(progress_line(progress, goal));
    return !around_.stopped();
  };
  const Slo slo = spec.slo;
  const Duration window = spec.concurrency > 0 ? Duration::zero() : spec.window;
  const double cpu_before = around_.cpu_s();
  const RunOutcome outcome = LoadRun(around_.port, std::move(spec)).run();
  m.client_cpu_s = around_.cpu_s() - cpu_before;
  m.summary = summarize(outcome, slo, window);
  m.interrupted = outcome.interrupted;
  m.hopeless = outcome.hopeless;
  return m;
}

Status BenchSession::search() {
  report_.search.emplace();
  SearchReport& found = *report_.search;
  const auto probe = [&](double load) -> Result<ProbeResult> {
    if (!found.probes.empty()) {
      const PromptMaker prompts(around_.random.next());
      BATON_RETURN_IF_ERROR(probe_.settle(report_.setup, prompts));
    }
    BATON_ASSIGN_OR_RETURN(const Measurement m, measure(load));
    found.probes.push_back(m);
    around_.say(probe_line(report_, m));
    if (m.interrupted) {
      return cancelled("stopped");
    }
    const bool passed = !m.hopeless && m.summary.attainment >= kWantedAttainment;
    if (passed && (!found.best || load > found.probes[*found.best].load)) {
      found.best = found.probes.size() - 1;
    }
    return ProbeResult{load, m.summary.attainment, passed};
  };
  const Result<SearchResult> result = search_rate({.first = start_load()}, probe);
  if (!result.ok() && (result.status().code() != StatusCode::kCancelled || found.probes.empty())) {
    return result.status();
  }
  found.bounded = result.ok() && result->bounded;
  report_.measurement = found.best ? found.probes[*found.best] : found.probes.back();
  report_.measurement.interrupted = !result.ok();
  return Status();
}

}  // namespace baton::serve_bench
