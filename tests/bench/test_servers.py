"""servers.py, with programs that answer and print what the real ones do."""
import json
import os
import pathlib
import stat
import tempfile
import threading
import time
import unittest

import server_process
import servers
import streams
from client import Answer
from cluster import alive
from printed import printed
from runs import BenchError

# A server that streams a token every 2 ms and tells no ids, nor a text of an answer's first token;
# `baton up` on it has a ready file.
SERVER = """
import http.server, json, sys, time
flag = dict(zip(sys.argv, sys.argv[1:]))

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "m"}]}')

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["model"] == "m" and asked["ignore_eos"] and asked["stream"]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        tokens = asked["max_tokens"]
        try:
            for number in range(tokens):
                self.event({"choices": [{"text": "x" if number else "", "finish_reason":
                                         "length" if number == tokens - 1 else None}]})
                time.sleep(0.002)
            self.event({"choices": [], "usage": {
                "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 7}}})
            self.wfile.write(b"data: [DONE]\\n\\n")
        except OSError:
            pass  # the client has left

    def event(self, what):
        self.wfile.write(f"data: {json.dumps(what)}\\n\\n".encode())

def serve(port):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print("serving", flush=True)
    if "--ready-file" in flag:
        with open(flag["--ready-file"], "w") as file:
            json.dump({"url": f"http://127.0.0.1:{server.server_port}"}, file)
    server.serve_forever()
"""
# The rate that it finds is 600 / input for a server at a port above 1.
BATON = SERVER + """
if sys.argv[1] == "up":
    assert sys.argv[2].startswith("deploy/") and flag["--set"] == "model.path=m.gguf"
    serve(0)
elif sys.argv[1] == "--version":
    print("baton 9")
elif sys.argv[2] == "engine":
    probe = {"flops": 5e11, "read_bytes_per_s": 5e10}
    print(json.dumps({"probe": {"start": probe, "end": probe, "steady": True}}))
else:
    assert sys.argv[2] == "serve" and "--search" in sys.argv
    if flag.get("--input") == "13":
        sys.exit("cannot count")
    print(json.dumps({"client_late": False, "search": {
        "best_rps": 600 / int(flag["--input"]) if "--input" in flag else 1, "flags": sys.argv}}))
"""
PEER = SERVER + """
serve(int(flag["--port"]))
"""
BROKEN = """
import sys
print("one\\ncannot open the model", file=sys.stderr)
sys.exit(3)
"""
# Neither it nor its child hears SIGTERM.
DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
print("child", child.pid, flush=True)
""" + SERVER + """
serve(int(flag["--port"]))
"""


class BenchServers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for module, name, value in [(servers, "PAUSE_S", 0), (server_process, "IDLE_SAMPLE_S", 0.02),
                                    (server_process, "STOP_S", 1)]:
            self.addCleanup(setattr, module, name, getattr(module, name))
            setattr(module, name, value)

    def program(self, name, source):
        path = self.folder / name
        path.write_text("#!/usr/bin/env python3\n" + source)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def run_bench(self, *flags):
        command = ["--baton", self.program("baton", BATON), "--model", "m.gguf", "--own", "local",
                   "--threads", "2", "--rounds", "1", "--requests", "2", "--deadline", "20",
                   "--seconds", "0.2", "--json", str(self.folder / "json")]
        return printed(servers.main, [*command, *flags])

    def result(self):
        return json.loads((self.folder / "json").read_text())

    def test_all_that_is_measured_of_every_server(self):
        status, out, err = self.run_bench(
            "--measure", "stream,prefix,start,gaps,goodput", "--streams", "2",
            "--llama-server", self.program("llama-server", PEER))
        self.assertEqual(status, 0, err)
        result = self.result()
        self.assertEqual(list(result["servers"]), ["local", "llama-server, m.gguf"])
        for server in result["servers"].values():
            [found] = server["rounds"]
            self.assertEqual(len(found["stream"]["ttft_ms"]), 2)
            self.assertGreater(min(found["stream"]["tpot_ms"]), 0)
            self.assertEqual(found["prefix"]["cached_tokens"], [7, 7])
            self.assertGreater(found["start"]["first_token_s"], 0)
            self.assertGreater(found["gaps"]["alone"]["gaps"], 0)
            self.assertEqual(found["gaps"]["alone"]["long_ttft_ms"], [])
            self.assertGreater(len(found["gaps"]["loaded"]["long_ttft_ms"]), 0)
        self.assertIn("| Baton, local | 2.00 (2.00-2.00); 1.00 (1.00-1.00) × |", out)
        self.assertIn("baton 9; ", out)
        self.assertIn("probed before each round: 500 (500-500) GFLOP/s, 50.0 (50.0-50.0) GB/s", out)

    def test_the_first_of_a_round_turns(self):
        _, _, err = self.run_bench("--rounds", "2", "--measure", "start", "--peer",
                                   "other=" + self.program("peer", PEER) + " --port {port}")
        order = [line.split("  ")[1] for line in err.splitlines() if "exec to" in line]
        self.assertEqual(order, ["local", "other", "other", "local"])

    def test_goodput_at_every_workload_and_limit(self):
        status, out, err = self.run_bench("--measure", "goodput", "--workload", "300/64,600/9/0.5",
                                          "--limits", "1000/100,500/50", "--duration", "5")
        self.assertEqual(status, 0, err)
        found = self.result()["servers"]["local"]["rounds"][0]["goodput"]
        self.assertEqual({name: one["best_rps"] for name, one in found.items()}, {
            "300/64 within 1000/100 ms": 2, "600/9/0.5 within 1000/100 ms": 1,
            "300/64 within 500/50 ms": 2, "600/9/0.5 within 500/50 ms": 1})
        flags = found["600/9/0.5 within 500/50 ms"]["flags"]
        for flag, value in [("--output", "9"), ("--input-spread", "0.5"), ("--duration", "5.0"),
                            ("--slo-ttft-ms", "500.0"), ("--slo-tpot-ms", "50.0"), ("--rate", "1")]:
            self.assertEqual(flags[flags.index(flag) + 1], value)
        self.assertIn("| goodput | 300/64 within 1000/100 ms |", out)
        _, _, err = self.run_bench("--measure", "goodput", "--trace", "a/t.csv", "--first", "0.5")
        [flags] = [one["flags"] for one in
                   self.result()["servers"]["local"]["rounds"][0]["goodput"].values()]
        for flag, value in [("--trace", "a/t.csv"), ("--trace-scale", "0.5"), ("--max-input", "2000")]:
            self.assertEqual(flags[flags.index(flag) + 1], value)

    def test_a_search_that_fails_leaves_the_others(self):
        status, out, _ = self.run_bench("--measure", "goodput", "--workload", "13/1,600/1")
        self.assertEqual(status, 1)
        self.assertIn("| Baton, local | - | 1.00 (1.00-1.00) |", out)
        self.assertRegex(out, "local, round 1, 13/1 within 1000/100 ms: .*baton exited with 1: cannot")

    def test_a_server_that_fails_is_told_and_the_others_count(self):
        status, out, err = self.run_bench(
            "--measure", "stream", "--peer",
            "broken=" + self.program("broken", BROKEN) + " {port}")
        self.assertEqual(status, 1, err)
        self.assertIn("broken, round 1: ended with 3; its log ends: one / cannot open the model", out)
        self.assertIn("| broken | - | - |", out)
        self.assertIn("tpot_ms", self.result()["servers"]["local"]["rounds"][0]["stream"])

    def test_a_server_that_never_answers_has_a_deadline(self):
        status, out, _ = self.run_bench("--measure", "start", "--deadline", "0.5", "--own", "",
                                        "--peer", "mute=sleep 600 {port}0d")
        self.assertEqual(status, 1)
        self.assertIn("mute, round 1: no token within 0.5 s: ", out)

    def test_nothing_is_left_of_a_server(self):
        folder = self.folder / "one"
        folder.mkdir()
        program = server_process.Peer("deaf", [self.program("deaf", DEAF), "--port", "{port}"])
        with self.assertRaisesRegex(BenchError, "enough; its log ends: child [0-9]+ / serving"):
            with server_process.running(program, folder, 20, streams.Seeds()) as server:
                raise BenchError("enough")
        child = int((folder / "log").read_text().split()[1])
        self.assertFalse(alive(server.pid) or alive(child))

    def test_flags_that_mean_nothing_are_refused(self):
        for flags, words in [(["--measure", "speed"], "--measure speed: there are stream, prefix"),
                             (["--own", "remote"], "--own remote: there are local"),
                             (["--own", ""], "no server is given"),
                             (["--rounds", "0"], "are at least 1"),
                             (["--workload", "300"], "--workload is IN/OUT"),
                             (["--limits", "1000/x"], "--limits TTFT/TPOT"),
                             (["--peer", "vLLM=run 8000"], "NAME=COMMAND with {port} in it"),
                             (["--peer", "local=run {port}"], "two servers have one name"),
                             (["--llama-server", os.devnull], "/dev/null is no program")]:
            status, _, err = self.run_bench(*flags)
            self.assertEqual(status, 2, flags)
            self.assertIn(words, err)


class Tables(unittest.TestCase):
    def test_ratios_are_to_the_best_of_the_others_within_a_round(self):
        def server(own, *rates):
            return {"own": own, "rounds": [
                {"stream": {"tokens_per_s": [rate], "ttft_ms": [1000 / rate]}} if rate else
                {"error": "fell"} for rate in rates]}
        result = {"servers": {"local": server(True, 200, 300, 400), "a": server(False, 50, 60, 50),
                              "b": server(False, 100, None, 400), "c": server(False, None, None)}}
        self.assertEqual(servers.table("stream", result, []).splitlines(), [
            "| stream | tokens/s | TTFT of 500 tokens, ms |",
            "|---|---|---|",
            "| Baton, local | 300.0 (200.0-400.0); 1.50 (1.00-2.00) × | 3 (2-5); 0.75 (0.50-1.00) × |",
            "| a | 50.0 (50.0-60.0) | 20 (17-20) |",
            "| b | 250.0 (100.0-400.0) | 6 (2-10) |",
            "| c | - | - |",
            "| × of | b | b |",
            "| target | ≥ 1.0 × | ≤ 0.5 × |"])


class Stalled:
    """Two streams that stand still while a long prompt is computed, which takes 50 ms."""

    def __init__(self):
        self.free, self.waiting = threading.Event(), threading.Semaphore(0)
        self.free.set()

    def stream(self, _prompt, max_tokens, on_token=None):
        answer = Answer(sent=time.monotonic())
        if max_tokens == 1:
            self.free.clear()
            for _ in range(2):
                self.waiting.acquire(timeout=60)
            time.sleep(0.05)
        while len(answer.times) < max_tokens:
            if max_tokens > 1 and not self.free.is_set():
                self.waiting.release()
                self.free.wait()
            answer.times.append(time.monotonic())
            if on_token:
                on_token(answer)
            time.sleep(0.001)
        self.free.set()
        return answer


class Gaps(unittest.TestCase):
    def test_a_gap_that_outlasts_the_last_prompt_is_seen_whole(self):
        found = streams.beside(Stalled(), streams.Seeds(), 2, 0)
        self.assertEqual(len(found["long_ttft_ms"]), 1)
        self.assertGreaterEqual(found["gap_max_ms"], 50)

    def test_a_stream_that_ends_ends_the_measurement(self):
        found = streams.beside(Stalled(), streams.Seeds(), 2, 600, long_prompts=False)
        self.assertLess(found["seconds"], 60)
        self.assertGreater(found["gaps"], streams.STREAM)


if __name__ == "__main__":
    unittest.main()
