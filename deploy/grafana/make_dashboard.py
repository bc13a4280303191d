#!/usr/bin/env python3
"""Writes baton.json, the Grafana dashboard (Grafana 10 or later), from the panels below.

make_dashboard.py          writes deploy/grafana/baton.json
make_dashboard.py --check  fails when that file is not what the panels say
"""

import json
import pathlib
import sys

OUT = pathlib.Path(__file__).resolve().parent / "baton.json"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE = "[$__rate_interval]"
# Series of the router; of workers, as chosen above the dashboard; of one pool.
ROUTER = 'model_name=~"$model_name"'
WORKERS = ROUTER + ',role=~"$role",worker=~"$worker"'
PREFILL = ROUTER + ',role="prefill",worker=~"$worker"'
DECODE = ROUTER + ',role="decode",worker=~"$worker"'

TTFT = "vllm:time_to_first_token_seconds"
TPOT = "vllm:request_time_per_output_token_seconds"
ITL = "vllm:inter_token_latency_seconds"
STEP = "baton_engine_step_seconds"
BOUNDS = {"slo_ttft": ("0.5", ["0.1", "0.25", "0.5", "0.75", "1", "2.5", "5", "10"]),
          "slo_tpot": ("0.05", ["0.01", "0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.5"])}


def rate(metric, selector, by=""):
    """Sum of rates; `by` names labels to keep."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{selector}}}{RATE}))"


def ratio(above, below):
    """Nothing where nothing happened, instead of NaN."""
    return f"{above} / ({below} > 0)"


def mean(metric, selector, by=""):
    return ratio(rate(metric + "_sum", selector, by), rate(metric + "_count", selector, by))


def quantile(q, metric, selector):
    return f"histogram_quantile({q}, {rate(metric + '_bucket', selector, 'le')})"


def quantiles(metric, selector=ROUTER):
    return [(quantile(q, metric, selector), name)
            for q, name in (("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"))]


def attainment(metric, variable):
    # Prometheus 3 writes the bound 1 as 1.0.
    within = rate(metric + "_bucket", f'{ROUTER},le=~"${variable}(\\\\.0)?"')
    return ratio(within, rate(metric + "_count", ROUTER))


def panel(title, targets, unit="short", text="", kind="timeseries", width=8, **options):
    return {"title": title, "targets": targets, "unit": unit, "text": text, "kind": kind,
            "width": width, **options}


def stat(title, expr, unit="short", text="", **options):
    return panel(title, [(expr, "")], unit, text, "stat", 3, **options)


ROWS = [
    ("Now", [
        stat("Requests/s", rate("vllm:request_success_total", ROUTER), "reqps",
             "Requests that ended, for whatever reason."),
        stat("Output tokens/s", rate("vllm:generation_tokens_total", ROUTER)),
        stat("First token in time", attainment(TTFT, "slo_ttft"), "percentunit",
             "Share of the requests whose first token came within slo_ttft seconds.", good=0.9),
        stat("Tokens in time", attainment(TPOT, "slo_tpot"), "percentunit",
             "Share of the requests with at most slo_tpot seconds a token.", good=0.9),
        stat("Waiting for the first token",
             f'sum (vllm:num_requests_waiting{{{ROUTER},role="router"}})'),
        stat("Streaming", f'sum (vllm:num_requests_running{{{ROUTER},role="router"}})'),
        stat("Prefill workers",
             f'sum (baton_workers{{{ROUTER},pool="prefill",state="ready"}})'),
        stat("Decode workers", f'sum (baton_workers{{{ROUTER},pool="decode",state="ready"}})'),
    ]),
    ("What clients see", [
        panel("Time to first token", quantiles(TTFT), "s", "From arrival at the router."),
        panel("Time per output token", quantiles(TPOT), "s",
              "Mean over each request's tokens after the first."),
        panel("Gap between tokens", quantiles(ITL), "s",
              "Every gap of every stream: the tail shows what long prompts do to running streams."),
        panel("Objectives", [(attainment(TTFT, "slo_ttft"), "first token within $slo_ttft s"),
                             (attainment(TPOT, "slo_tpot"), "at most $slo_tpot s a token")],
              "percentunit", "Share of the requests within the bounds chosen above."),
        panel("Latency of whole requests", quantiles("vllm:e2e_request_latency_seconds"), "s"),
        panel("Tokens/s", [(rate("vllm:prompt_tokens_total", ROUTER), "prompt"),
                           (rate("vllm:generation_tokens_total", ROUTER), "output")]),
    ]),
    ("Slow to start, or slow to stream?", [
        panel("To the first token: queue, compute", [
            (mean("vllm:request_queue_time_seconds", ROUTER), "queue"),
            (mean("vllm:request_prefill_time_seconds", ROUTER), "prefill")], "s",
            "Mean of a request. Queue is the larger part: more prefill workers. Prefill is: shorter "
            "prompts, a prefix cache that hits, or faster prefill workers.", stacked=True),
        panel("First to second token: the hand-over", [
            (mean("baton_second_token_gap_seconds", ROUTER), "first to second token"),
            (mean(ITL, ROUTER), "any two tokens"),
            (mean("baton_kv_transfer_seconds", PREFILL), "transfer")], "s",
            "The first gap is larger than the others by what the transfer did not hide and by "
            "waiting for room on the decode worker."),
        panel("Share of the time in steps", [
            (rate(STEP + "_sum", PREFILL, "worker"), "{{worker}}"),
            (rate(STEP + "_sum", DECODE, "worker"), "{{worker}}")], "percentunit",
            "Near 1 the worker is the limit. Prefill at 1 is slow to start, decode at 1 slow to "
            "stream.", max=1),
        panel("Decode step", [
            (mean(STEP, DECODE + ',kind="decode"', "worker"), "{{worker}} decode only"),
            (mean(STEP, DECODE + ',kind="mixed"', "worker"), "{{worker}} with prompt tokens")], "s",
            "A stream waits one step for each token. Steps with prompt tokens are longer: gaps."),
        panel("Sequences in a decode step", [
            (mean("baton_engine_batch_sequences", DECODE, "worker"), "{{worker}}")], "short",
            "A step takes longer the larger the batch; below the bend of the roofline hardly."),
        panel("Preemptions/s", [(rate("vllm:num_preemptions_total", DECODE, "worker"),
                                 "{{worker}}")], "short",
              "Sequences thrown out and computed again because blocks ran out: a larger kv_cache or "
              "fewer streams."),
    ]),
    ("Share of what the machine can do", [
        panel("Share of the roofline", [
            (ratio(rate("baton_engine_roofline_seconds_total", WORKERS, "worker, kind"),
                   rate(STEP + "_sum", WORKERS, "worker, kind")), "{{worker}} {{kind}}")],
            "percentunit",
            "Time that the steps would take at the machine's peaks, by the time that they took. A "
            "drop at the same load: others use the CPUs or the memory.", max=1),
        panel("Arithmetic", [
            (rate("baton_engine_flops_total", WORKERS, "role, worker"), "{{role}} {{worker}}"),
            (f"sum by (role) (baton_machine_peak_flops{{{WORKERS}}})", "peak of all {{role}}")],
            "flops", "What prefill is bound by."),
        panel("Reading", [
            (rate("baton_engine_bytes_total", WORKERS, "role, worker"), "{{role}} {{worker}}"),
            (f"sum by (role) (baton_machine_peak_bytes_per_second{{{WORKERS}}})",
             "peak of all {{role}}")], "Bps", "What decode is bound by."),
    ]),
    ("Prefill and decode side by side", [
        panel("Prefill: requests", [
            (f"sum by (worker) (vllm:num_requests_running{{{PREFILL}}})", "{{worker}} running"),
            (f"sum by (worker) (vllm:num_requests_waiting{{{PREFILL}}})", "{{worker}} waiting")],
            width=6),
        panel("Decode: requests", [
            (f"sum by (worker) (vllm:num_requests_running{{{DECODE}}})", "{{worker}} running"),
            (f"sum by (worker) (vllm:num_requests_waiting{{{DECODE}}})", "{{worker}} waiting")],
            width=6),
        panel("Prompt tokens computed/s", [
            (rate("baton_prompt_tokens_computed_total", WORKERS, "role, worker"),
             "{{role}} {{worker}}")], "short",
            "On prefill workers, and on decode workers for prompts that the router left there.",
            width=6),
        panel("Tokens in a step", [
            (mean("vllm:iteration_tokens_total", WORKERS, "role, worker"),
             "{{role}} {{worker}}")], width=6),
    ]),
    ("Hand-over of the KV cache", [
        panel("Bytes/s", [(rate("baton_kv_transfer_bytes_total", WORKERS,
                                "worker, direction, transport"),
                           "{{worker}} {{direction}} {{transport}}")], "Bps"),
        panel("Time of a transfer", quantiles("baton_kv_transfer_seconds", PREFILL), "s",
              "First byte to acknowledged commit; most of it runs behind the prefill."),
        panel("Hidden share", [(mean("baton_kv_transfer_hidden_ratio", PREFILL, "worker"),
                                "{{worker}}")], "percentunit",
              "Share of the transfer's time behind its own prefill.", max=1),
        panel("Lanes", [(f"count by (transport) (baton_link_transport_info{{{WORKERS}}})",
                         "{{transport}}")], "short",
              "Links in use by transport. ucx-tcp on one machine means that shared memory could not "
              "be used."),
        panel("Links", [(f"baton_link_transport_info{{{WORKERS}}}", "")], "short",
              "Who is connected to whom, over what.", kind="table"),
        panel("Failures and refused messages/s", [
            (rate("baton_kv_transfer_failures_total", WORKERS, "reason"), "failed: {{reason}}"),
            (rate("baton_kv_messages_dropped_total", WORKERS, "reason"), "dropped: {{reason}}"),
            (rate("baton_kv_lease_expired_total", DECODE), "lease expired"),
            (rate("baton_kv_transports_passed_over_total", PREFILL, "transport"),
             "passed over: {{transport}}")]),
    ]),
    ("KV cache", [
        panel("Blocks in use", [(f"vllm:kv_cache_usage_perc{{{WORKERS}}}", "{{role}} {{worker}}")],
              "percentunit", max=1),
        panel("Blocks by state", [
            (f"sum by (role, state) (baton_kv_blocks{{{WORKERS}}})", "{{role}} {{state}}")],
            text="Quarantined blocks wait until their writer is known to be quiet."),
        panel("Prefix cache hits", [
            (ratio(rate("vllm:prefix_cache_hits_total", WORKERS, "role"),
                   rate("vllm:prefix_cache_queries_total", WORKERS, "role")), "{{role}}")],
            "percentunit", "Share of the prompt tokens looked up that were there.", max=1),
    ]),
    ("Router", [
        panel("Where prompts are prefilled", [
            (rate("baton_router_decisions_total", ROUTER, "decision, reason"),
             "{{decision}}: {{reason}}")], "reqps",
            "docs/life_of_a_request.md lists the reasons."),
        panel("Predicted / measured time to first token",
              quantiles("baton_predicted_ttft_error_ratio"), "short",
              "1 is right; below 1 the router expected it sooner than it came."),
        panel("Length of requests", [
            (quantile("0.5", "vllm:request_prompt_tokens", ROUTER), "prompt p50"),
            (quantile("0.99", "vllm:request_prompt_tokens", ROUTER), "prompt p99"),
            (quantile("0.5", "vllm:request_generation_tokens", ROUTER), "output p50"),
            (quantile("0.99", "vllm:request_generation_tokens", ROUTER), "output p99")]),
    ]),
    ("Errors", [
        panel("How requests end", [
            (rate("vllm:request_success_total", ROUTER, "finished_reason"),
             "{{finished_reason}}")], "reqps"),
        panel("Errors by code", [(rate("baton_request_errors_total", ROUTER, "code"), "{{code}}")],
              "reqps", "docs/api.md lists the codes."),
        panel("Streams moved to another worker", [
            (rate("baton_streams_moved_total", ROUTER, "reason"), "{{reason}}")], "short",
            "A worker died or refused; the client's stream went on."),
    ]),
]


def fields(spec):
    """fieldConfig: unit, range, colours."""
    defaults = {"unit": spec["unit"], "min": 0}
    if "max" in spec:
        defaults["max"] = spec["max"]
    if spec["kind"] == "timeseries":
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 10 if spec.get("stacked") else 0,
                              "showPoints": "never"}
        if spec.get("stacked"):
            defaults["custom"]["stacking"] = {"mode": "normal", "group": "A"}
    if "good" in spec:
        defaults["thresholds"] = {"mode": "absolute", "steps": [
            {"color": "red", "value": None}, {"color": "green", "value": spec["good"]}]}
    return {"defaults": defaults, "overrides": []}


def options(spec):
    if spec["kind"] == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "colorMode": "value" if "good" in spec else "none", "graphMode": "area"}
    if spec["kind"] == "table":
        return {"showHeader": True}
    return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"}}


def grafana_panel(number, spec, x, y):
    height = 4 if spec["kind"] == "stat" else 8
    table = {"instant": True, "range": False, "format": "table"} if spec["kind"] == "table" else {}
    out = {
        "id": number, "type": spec["kind"], "title": spec["title"], "description": spec["text"],
        "datasource": DATASOURCE, "gridPos": {"x": x, "y": y, "w": spec["width"], "h": height},
        "fieldConfig": fields(spec), "options": options(spec),
        "targets": [{"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": expr,
                     "legendFormat": legend or "__auto", **table}
                    for i, (expr, legend) in enumerate(spec["targets"])],
    }
    if spec["kind"] == "table":
        out["transformations"] = [{"id": "organize", "options": {"excludeByName": {
            name: True for name in ("Time", "Value", "__name__", "instance", "job", "process")}}}]
    return out


def panels():
    out, y = [], 0
    for title, row in ROWS:
        out.append({"id": len(out) + 1, "type": "row", "title": title, "collapsed": False,
                    "panels": [], "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        x, y = 0, y + 1
        for spec in row:
            made = grafana_panel(len(out) + 1, spec, x, y)
            out.append(made)
            x += spec["width"]
            if x >= 24:
                x, y = 0, y + made["gridPos"]["h"]
        if x:
            y += made["gridPos"]["h"]
    return out


def query_variable(name, label, query):
    return {"type": "query", "name": name, "label": label, "datasource": DATASOURCE,
            "query": {"query": query, "refId": name}, "definition": query, "refresh": 2,
            "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]}}


def bound_variable(name, label):
    default, bounds = BOUNDS[name]
    return {"type": "custom", "name": name, "label": label, "query": ",".join(bounds),
            "current": {"text": default, "value": default},
            "options": [{"text": bound, "value": bound, "selected": bound == default}
                        for bound in bounds]}


def dashboard():
    return {
        "title": "Baton", "uid": "baton", "tags": ["baton", "llm"], "schemaVersion": 39,
        "description": "Prefill and decode workers, the hand-over between them, and what clients "
                       "see. docs/troubleshooting.md says what to do about it.",
        "editable": True, "graphTooltip": 1, "refresh": "10s", "timezone": "",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [
            {"type": "datasource", "name": "datasource", "label": "Data source",
             "query": "prometheus", "refresh": 1},
            query_variable("model_name", "Model",
                           "label_values(vllm:prompt_tokens_total, model_name)"),
            query_variable("role", "Role",
                           'label_values(vllm:kv_cache_usage_perc{model_name=~"$model_name"}, role)'),
            query_variable("worker", "Worker",
                           'label_values(vllm:kv_cache_usage_perc{model_name=~"$model_name",'
                           'role=~"$role"}, worker)'),
            bound_variable("slo_ttft", "First token within (s)"),
            bound_variable("slo_tpot", "A token within (s)"),
        ]},
        "panels": panels(),
    }


def main(arguments):
    text = json.dumps(dashboard(), indent=1) + "\n"
    if arguments == ["--check"]:
        if OUT.exists() and OUT.read_text(encoding="utf-8") == text:
            return 0
        print("deploy/grafana/baton.json is not what make_dashboard.py writes; run it")
        return 1
    OUT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
