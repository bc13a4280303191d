#include "deploy/baton/serve_bench/report.h"

#include <cmath>
#include <cstdio>

#include "deploy/baton/serve_bench/json_text.h"
#include "deploy/baton/serve_bench/rate_search.h"

namespace baton::serve_bench {
namespace {

template <typename... Values>
void append(std::string& out, const char* format, Values... values) {
  char text[512];
  std::snprintf(text, sizeof(text), format, values...);
  out += text;
}

std::string percentiles_json(const Percentiles& p) {
  JsonText out;
  if (p.count == 0) {
    return out.null("p50").null("p90").null("p99").null("mean").null("max").str();
  }
  return out.number("p50", p.p50)
      .number("p90", p.p90)
      .number("p99", p.p99)
      .number("mean", p.mean)
      .number("max", p.max)
      .str();
}

double cpu_us_per_event(const Measurement& m) {
  const double events = static_cast<double>(m.summary.itl_ms.count + m.summary.completed);
  return events > 0 ? m.client_cpu_s * 1e6 / events : 0;
}

double cpu_share(const Measurement& m) {
  return m.summary.elapsed_s > 0 ? m.client_cpu_s / m.summary.elapsed_s : 0;
}

std::string failures_json(const Summary& summary) {
  std::string out = "[";
  for (const auto& [label, failures] : summary.failures) {
    out += out.size() > 1 ? "," : "";
    out += JsonText()
               .text("kind", label)
               .count("count", failures.count)
               .text("first_message", failures.first_message)
               .str();
  }
  return out + "]";
}

std::string settings_json(const Report& report) {
  const ServeBenchOptions& o = report.options;
  JsonText out;
  out.text("url", o.url).text("endpoint", o.endpoint).text("model", report.setup.dialect.model);
  if (o.concurrency > 0) {
    out.text("arrivals", "closed").count("concurrency", o.concurrency);
  } else if (!o.trace.empty()) {
    out.text("arrivals", "trace").text("trace", o.trace).number("scale", report.measurement.load);
  } else {
    out.text("arrivals", "poisson").number("rate", report.measurement.load, 4);
  }
  if (o.trace.empty()) {
    out.count("input", o.input).count("output", o.output);
    out.number("input_spread", o.input_spread).number("output_spread", o.output_spread);
  } else {
    out.count("max_input", o.max_input).count("max_output", o.max_output);
  }
  out.number("slo_ttft_ms", o.slo_ttft_ms, 1).number("slo_tpot_ms", o.slo_tpot_ms, 1);
  out.number("duration_s", o.duration_s).count("requests", o.requests).count("warmup", o.warmup);
  out.number("request_timeout_s", o.request_timeout_s).count("max_connections", o.max_connections);
  out.count("seed", o.seed).boolean("ignore_eos", report.setup.dialect.ignore_eos);
  return out.str();
}

std::string probe_json(const Measurement& m) {
  return JsonText()
      .number("load", m.load, 4)
      .number("offered_rps", m.offered_rps, 4)
      .number("attainment", m.summary.attainment, 4)
      .number("goodput_rps", m.summary.goodput_rps, 4)
      .boolean("passed", !m.hopeless && !m.interrupted && m.summary.attainment >= kWantedAttainment)
      .boolean("stopped_early", m.hopeless)
      .count("sent", m.summary.sent)
      .count("failed", m.summary.failed)
      .raw("ttft_ms", percentiles_json(m.summary.ttft_ms))
      .raw("tpot_ms", percentiles_json(m.summary.tpot_ms))
      .str();
}

std::string search_json(const SearchReport& search) {
  std::string probes = "[";
  for (const Measurement& probe : search.probes) {
    probes += (probes.size() > 1 ? "," : "") + probe_json(probe);
  }
  JsonText out;
  out.number("wanted_attainment", kWantedAttainment, 2);
  if (search.best) {
    out.number("best_load", search.probes[*search.best].load, 4)
        .number("best_rps", search.probes[*search.best].offered_rps, 4);
  } else {
    out.null("best_load").number("best_rps", 0, 4);
  }
  return out.boolean("bounded", search.bounded).raw("probes", probes + "]").str();
}

void row(std::string& out, const char* name, const Percentiles& p) {
  if (p.count == 0) {
    append(out, "%-10s %10s %10s %10s %10s %10s\n", name, "-", "-", "-", "-", "-");
  } else {
    append(out, "%-10s %10.1f %10.1f %10.1f %10.1f %10.1f\n", name, p.p50, p.p90, p.p99, p.mean,
           p.max);
  }
}

void append_notes(std::string& out, const Report& report) {
  const Measurement& m = report.measurement;
  const Summary& s = m.summary;
  if (s.failed > 0) {
    out += "failures   " + failures_text(s) + "\n";
  }
  if (s.short_answers > 0) {
    append(out, "note       %zu answers are shorter than asked for%s\n", s.short_answers,
           report.setup.dialect.ignore_eos ? "" : "; the server does not know ignore_eos");
  }
  if (!report.setup.counts_prompts) {
    out +=
        "note       the server counts no tokens: prompts have a word a token, answers an event "
        "a token\n";
  }
  if (m.shortened > 0) {
    append(out, "note       %zu requests of the trace were shortened\n", m.shortened);
  }
  if (s.client_late) {
    append(out,
           "warning    this client sent late (p99 %.1f ms): it lacks CPU, and the latencies are "
           "its own as well\n",
           s.client_lag_ms.p99);
  }
}

}  // namespace

std::string load_text(const ServeBenchOptions& options, double load) {
  std::string out;
  if (options.concurrency > 0) {
    append(out, "%d clients", options.concurrency);
  } else if (!options.trace.empty()) {
    append(out, "%.3g x the trace", load);
  } else {
    append(out, "%.3g requests/s", load);
  }
  return out;
}

std::string report_json(const Report& report) {
  const Measurement& m = report.measurement;
  const Summary& s = m.summary;
  JsonText out;
  out.raw("ttft_ms", percentiles_json(s.ttft_ms))
      .raw("tpot_ms", percentiles_json(s.tpot_ms))
      .raw("itl_ms", percentiles_json(s.itl_ms))
      .raw("e2e_ms", percentiles_json(s.e2e_ms))
      .number("attainment", s.attainment, 4)
      .number("goodput_rps", s.goodput_rps, 4)
      .count("sent", s.sent)
      .count("completed", s.completed)
      .count("failed", s.failed)
      .count("unfinished", s.unfinished)
      .count("attained", s.attained)
      .raw("failures", failures_json(s))
      .boolean("interrupted", m.interrupted)
      .number("offered_rps", m.offered_rps, 4)
      .number("completed_rps", s.completed_rps, 4)
      .number("output_tokens_per_s", s.output_tokens_per_s)
      .count("prompt_tokens", s.prompt_tokens)
      .count("output_tokens", s.output_tokens)
      .number("prompt_tokens_mean", s.prompt_tokens > 0 ? s.prompt_tokens_mean : std::nan(""))
      .number("output_tokens_mean", s.output_tokens_mean)
      .text("tokens_counted_by", s.counted_by_server ? "usage" : "events")
      .number("tokens_per_event", s.tokens_per_event)
      .count("short_answers", s.short_answers)
      .count("shortened_requests", m.shortened)
      .number("window_s", s.window_s)
      .number("elapsed_s", s.elapsed_s)
      .raw("client_lag_ms", percentiles_json(s.client_lag_ms))
      .boolean("client_late", s.client_late)
      .number("client_cpu_s", m.client_cpu_s)
      .number("client_cpu_share", cpu_share(m), 4)
      .number("client_cpu_us_per_event", cpu_us_per_event(m), 2)
      .raw("unmeasured", JsonText()
                             .count("requests", report.unmeasured.requests)
                             .count("prompt_tokens", report.unmeasured.prompt_tokens)
                             .count("completion_tokens", report.unmeasured.completion_tokens)
                             .str())
      .raw("settings", settings_json(report));
  if (report.search) {
    out.raw("search", search_json(*report.search));
  }
  return out.str();
}

std::string report_text(const Report& report) {
  const Measurement& m = report.measurement;
  const Summary& s = m.summary;
  std::string out = report.options.url + "  " + report.setup.dialect.model + "  " +
                    report.options.endpoint + "  " + load_text(report.options, m.load);
  if (m.offered_rps > 0 && !report.options.trace.empty()) {
    append(out, " (%.3g requests/s)", m.offered_rps);
  }
  append(out, "\nrequests   %zu sent, %zu complete, %zu failed", s.sent, s.completed, s.failed);
  append(out, s.unfinished > 0 ? ", %zu stopped\n" : "\n", s.unfinished);
  append(out, s.prompt_tokens > 0 ? "tokens     %.1f in" : "tokens     ? in", s.prompt_tokens_mean);
  append(out, ", %.1f out a request; %.1f out a second in %.1f s\n", s.output_tokens_mean,
         s.output_tokens_per_s, s.elapsed_s);
  append(out, "%-10s %10s %10s %10s %10s %10s\n", "ms", "p50", "p90", "p99", "mean", "max");
  row(out, "TTFT", s.ttft_ms);
  row(out, "TPOT", s.tpot_ms);
  row(out, "ITL", s.itl_ms);
  row(out, "E2E", s.e2e_ms);
  append(out, "attainment %.3f (TTFT <= %g ms and TPOT <= %g ms)\n", s.attainment,
         report.options.slo_ttft_ms, report.options.slo_tpot_ms);
  append(out, "goodput    %.3g requests/s\n", s.goodput_rps);
  append(out, "client     lag p99 %.2f ms; %.2f s of CPU, %.1f %% of one, %.1f us an event\n",
         s.client_lag_ms.p99, m.client_cpu_s, cpu_share(m) * 100, cpu_us_per_event(m));
  append_notes(out, report);
  if (report.search && report.search->best) {
    append(out, "highest    %s%s\n",
           load_text(report.options, report.search->probes[*report.search->best].load).c_str(),
           report.search->bounded ? "" : " or more: no probe failed");
  } else if (report.search) {
    append(out, "highest    none: no load that was tried reached an attainment of %.1f\n",
           kWantedAttainment);
  }
  return out;
}

std::string probe_line(const Report& report, const Measurement& probe) {
  const Summary& s = probe.summary;
  std::string out;
  append(out,
         "%-18s attainment %.3f%s  goodput %.3g requests/s  TTFT p90 %.0f ms  TPOT p90 %.1f ms",
         (load_text(report.options, probe.load) + ":").c_str(), s.attainment,
         probe.hopeless ? " (stopped early)" : "", s.goodput_rps, s.ttft_ms.p90, s.tpot_ms.p90);
  return out;
}

}  // namespace baton::serve_bench
