#!/usr/bin/env python3
"""The router's own work, beside nginx on the same CPU, in turn.

  ./dev bench router
  ./dev bench router --runs 3 --seconds 2 --json

A router with one I/O thread and a worker that answers at once (tests/workers/echo_worker.cc). The
router's threads, or nginx with one process and a static reply, have one CPU; the load generator and
the worker have the other. Every row is measured --runs times, router and nginx right after one
another; the table has medians and, in brackets, the least and greatest. CPU times are the router
process's own, of all its threads. Needs: apt-get install wrk nghttp2-client nginx-light
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from runs import BenchError, percentile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from ports import free_port  # noqa: E402

BODY = json.dumps({"prompt": "The quick brown fox jumps over the lazy dog", "max_tokens": 1})
STREAMED = 200  # tokens of a streamed answer
CONNECTIONS = 16
STREAMS = 64
PACED_STREAMS = 500
PACED_STEP_US = 25_000
RATE = 5000  # requests/s of the latency row
IDLE = 10_000
WAIT_S = 20

# wrk's own output rounds; this is one line of JSON.
LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [[%s]]
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\nJSON {"requests": %%d, "seconds": %%f, "p50_us": %%f, "p99_us": %%f, "errors": %%d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/body;
  server {{
    listen 127.0.0.1:{port};
    location / {{ default_type application/json; return 200 '{answer}'; }}
  }}
}}
"""


def pinned(cpu, command):
    return ["taskset", "-c", str(cpu), *map(str, command)]


def wait_for(what, condition, process):
    """Its first true value."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise BenchError(f"{what} ended with {process.returncode}")
        with contextlib.suppress(OSError):
            if value := condition():
                return value
        time.sleep(0.02)
    raise BenchError(f"{what} is not there after {WAIT_S} s")


def get(url):
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        return answer.read()


@contextlib.contextmanager
def running(command, **options):
    process = subprocess.Popen([str(word) for word in command], **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def router(args, folder, step_us):
    """A router and its worker; yields its pid and address."""
    log = folder / "router.log"
    control = f"ipc://{folder}/control"
    command = [args.bin / "baton-router", "--set", f"model.path={args.model}",
               "--set", "router.listen=127.0.0.1:0", "--set", f"router.control={control}",
               "--set", "router.io_threads=1", "--set", f"router.max_connections={IDLE + 100}"]
    worker = [args.bin / "echo_worker", control, step_us]
    with log.open("w") as errors, \
            running(pinned(args.server_cpu, command), stderr=errors) as server, \
            running(pinned(args.load_cpu, worker)) as echo:
        found = wait_for("the router", lambda: re.search(r" url=(\S+)", log.read_text()), server)
        url = found[1]
        wait_for("the echo worker", lambda: get(url + "/health"), echo)
        try:
            yield server.pid, url
        except BenchError as error:
            raise BenchError(f"{error}; the router's log ends: {log.read_text()[-500:]}") from error


@contextlib.contextmanager
def nginx(args, folder, answer):
    """An nginx that answers `answer` to everything; yields its pid and address."""
    port = free_port()
    conf = folder / "nginx.conf"
    conf.write_text(NGINX.format(folder=folder, port=port, answer=answer))
    command = ["nginx", "-c", conf, "-e", folder / "nginx.log"]
    with running(pinned(args.server_cpu, command)) as server:
        url = f"http://127.0.0.1:{port}"
        wait_for("nginx", lambda: get(url), server)
        yield server.pid, url


def cpu_s(pid):
    """Of all threads that are there."""
    total = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def resident_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines() or [""]
        raise BenchError(f"{command[3]} exited with {done.returncode}: {words[-1]}")
    return done.stdout


def wrk(args, folder, server, path, body, connections):
    """A closed loop of so many connections."""
    pid, url = server
    script = folder / "wrk.lua"
    script.write_text(LUA % body)
    before = cpu_s(pid)
    out = run(pinned(args.load_cpu, ["wrk", "-t1", f"-c{connections}", f"-d{args.seconds}s",
                                     "--timeout", "10s", "-s", script, url + path]))
    used = cpu_s(pid) - before
    result = json.loads(re.search(r"^JSON (.*)$", out, re.MULTILINE)[1])
    if result["errors"]:
        raise BenchError(f"wrk at {url}: {result['errors']} errors")
    result["cpu_s"] = used
    return result


def at_rate(args, folder, server):
    """Requests at RATE, of CONNECTIONS connections; latencies from h2load's log, in ms."""
    body, log = folder / "body.json", folder / "h2load.log"
    body.write_text(BODY)
    log.unlink(missing_ok=True)
    run(pinned(args.load_cpu, ["h2load", "--h1", "-t1", "-c", CONNECTIONS, "-D", args.seconds,
                               "--rps", RATE / CONNECTIONS, "-d", body, f"--log-file={log}",
                               "-H", "content-type: application/json",
                               server[1] + "/v1/completions"]))
    lines = [line.split() for line in log.read_text().splitlines()]
    bad = sum(line[1] != "200" for line in lines)
    if bad or not lines:
        raise BenchError(f"h2load at {server[1]}: {bad} bad answers of {len(lines)}")
    times = [int(line[2]) / 1e3 for line in lines]
    return {"rate": len(lines) / args.seconds, "p50_ms": percentile(times, 0.5),
            "p99_ms": percentile(times, 0.99)}


def streamed_body():
    return json.dumps({"messages": [{"role": "user", "content": "The quick brown fox"}],
                       "max_tokens": STREAMED, "stream": True})


def generated(url):
    """Tokens that this router has streamed or answered."""
    text = get(url + "/metrics").decode()
    return sum(float(value) for value in
               re.findall(r"^vllm:generation_tokens_total\{.*\} (\S+)$", text, re.MULTILINE))


def streaming(args, folder, server, connections):
    before = generated(server[1])
    result = wrk(args, folder, server, "/v1/chat/completions", streamed_body(), connections)
    tokens = generated(server[1]) - before
    if tokens == 0:
        raise BenchError("the router streamed nothing")
    return {"tokens_per_s": tokens / result["seconds"],
            "cpu_us_per_token": result["cpu_s"] / tokens * 1e6}


def idle(server):
    """Memory of IDLE connections that have each had an answer, in MB."""
    pid, url = server
    host, port = url.removeprefix("http://").split(":")
    request = (f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(BODY)}"
               f"\r\n\r\n{BODY}").encode()
    before = resident_mb(pid)
    with contextlib.ExitStack() as stack:
        for number in range(IDLE):
            try:
                connection = socket.create_connection((host, int(port)), WAIT_S)
                stack.enter_context(connection)
                connection.sendall(request)
                answer = connection.recv(4096)
            except OSError as error:
                raise BenchError(f"connection {number}: {error}") from error
            if not answer.startswith(b"HTTP/1.1 200"):
                raise BenchError(f"connection {number}: {answer[:200]!r}")
        return resident_mb(pid) - before


def one_answer(url):
    request = urllib.request.Request(url + "/v1/completions", BODY.encode(),
                                     {"Content-Type": "application/json"})
    return get(request).decode()


def measure(args, folder):
    """Samples by name."""
    samples = {}

    def add(name, values):
        for key, value in values.items():
            samples.setdefault(f"{name}.{key}", []).append(value)

    with router(args, folder, 0) as ours:
        with nginx(args, folder, one_answer(ours[1])) as other:
            servers = [("router", ours), ("nginx", other)]
            for turn in range(args.runs):
                for name, server in servers[::1 if turn % 2 == 0 else -1]:
                    result = wrk(args, folder, server, "/v1/completions", BODY, CONNECTIONS)
                    add(name, {"requests_per_s": result["requests"] / result["seconds"],
                               "cpu_us_per_request": result["cpu_s"] / result["requests"] * 1e6})
                    add(name, at_rate(args, folder, server))
                add("added", {key: samples[f"router.{key}"][-1] - samples[f"nginx.{key}"][-1]
                              for key in ("p50_ms", "p99_ms")})
        for _ in range(args.runs):
            add("stream", streaming(args, folder, ours, STREAMS))
        add("idle", {"mb": idle(ours)})
    with router(args, folder, PACED_STEP_US) as ours:
        for _ in range(args.runs):
            add("paced", streaming(args, folder, ours, PACED_STREAMS))
    return samples


ROWS = [  # title, sample, its peer's, the target
    ("requests/s, 16 connections", "router.requests_per_s", "nginx.requests_per_s", "≥ 5,000"),
    ("CPU a request, µs", "router.cpu_us_per_request", "nginx.cpu_us_per_request", ""),
    (f"latency at {RATE} requests/s, p50, ms", "router.p50_ms", "nginx.p50_ms", ""),
    (f"latency at {RATE} requests/s, p99, ms", "router.p99_ms", "nginx.p99_ms", ""),
    ("added by the router, p99, ms", "added.p99_ms", "", "≤ 1"),
    (f"streamed tokens/s, {STREAMS} streams at once", "stream.tokens_per_s", "", "≥ 100,000"),
    ("CPU a streamed token there, µs", "stream.cpu_us_per_token", "", "≤ 15"),
    (f"CPU a streamed token, {PACED_STREAMS} streams of 40 tokens/s, µs",
     "paced.cpu_us_per_token", "", "≤ 15"),
    (f"{IDLE} idle connections, MB", "idle.mb", "", "≤ 100"),
]


def cell(values):
    if not values:
        return "-"
    shown = [f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
             for value in (statistics.median(values), min(values), max(values))]
    return shown[0] if len(values) == 1 else f"{shown[0]} ({shown[1]}-{shown[2]})"


def table(samples):
    lines = ["| one I/O thread, one CPU | router | nginx, static reply | target |", "|---|---|---|---|"]
    for title, name, peer, target in ROWS:
        lines.append(f"| {title} | {cell(samples.get(name))} | {cell(samples.get(peer))} | {target} |")
    return "\n".join(lines)


def check(args):
    missing = [name for name in ("wrk", "h2load", "nginx", "taskset") if not shutil.which(name)]
    if missing:
        raise BenchError(f"missing: {', '.join(missing)}; apt-get install wrk "
                         "nghttp2-client nginx-light")
    for program in ("baton-router", "echo_worker"):
        if not (args.bin / program).exists():
            raise BenchError(f"{args.bin / program} is missing; build it first")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < IDLE + 500:
        raise BenchError(f"ulimit -Hn is {hard}; {IDLE} connections need {IDLE + 500}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (IDLE + 500, hard))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin",
                        help="folder of the programs")
    parser.add_argument("--model", default=ROOT / "models/smollm2-135m-instruct-q4_1.gguf",
                        help="whose tokenizer the router uses")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of a run of a row")
    parser.add_argument("--server-cpu", type=int, default=0, help="of the router, and of nginx")
    parser.add_argument("--load-cpu", type=int, default=1, help="of wrk or h2load, and the worker")
    parser.add_argument("--json", action="store_true", help="every sample, in place of the table")
    args = parser.parse_args()
    try:
        check(args)
        with tempfile.TemporaryDirectory(prefix="baton-router-bench-") as folder:
            samples = measure(args, pathlib.Path(folder))
    except BenchError as error:
        print(f"router.py: {error}", file=sys.stderr)
        return 1
    print(json.dumps(samples) if args.json else table(samples))
    return 0


if __name__ == "__main__":
    sys.exit(main())
