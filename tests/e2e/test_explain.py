"""What the router tells of its requests: explain, request_log, load; and the shares of the roofline.

One cluster, a few requests of every kind: handed over, local, moved, failed.
"""

import json
import os
import signal
import tempfile
import time
import unittest

import prompts
from cluster import Cluster, run_briefly, wait_until

STEPS = ("prefill", "decode", "mixed")


class Explain(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self.log = os.path.join(self.folder.name, "requests.jsonl")

    def tearDown(self):
        self.folder.cleanup()

    def explain(self, request_id):
        status, _, body = self.cluster.client().request("GET", f"/baton/requests/{request_id}")
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def send(self, length, max_tokens, seed, on_token=None):
        body = {"prompt": prompts.ids(length, seed=seed), "max_tokens": max_tokens,
                "temperature": 0, "stream": True, "return_token_ids": True, "ignore_eos": True,
                "baton_trace": True}
        answer = self.cluster.client().send("/v1/completions", body, on_token)
        answer.request_id = answer.headers["x-request-id"]
        return answer

    def test_every_kind_of_request(self):
        sets = ["router.local_prefill=auto", f"router.request_log={self.log}",
                "prefill.*.kv_cache=100blocks", "decode.*.kv_cache=100blocks"]
        with Cluster("deploy/local-2p2d.yaml", sets=sets, pool=False) as self.cluster:
            answers = [self.check_remote(), self.check_local(), self.check_moved()]
            failed = self.check_failed()
            self.check_unknown()
            self.check_log(answers, failed)
            self.check_load(answers)
            self.check_roofline()

    def check_remote(self):
        answer = self.send(300, 8, seed=1)
        self.assertTrue(answer.ok, answer.why())
        told = self.explain(answer.request_id)
        self.assertEqual(told["state"], "finished")
        self.assertEqual(told["completion_tokens"], 8)
        attempt = told["attempts"][0]
        self.assertEqual(attempt["decision"], "remote")
        self.assertEqual(attempt["prefill"], answer.trace["prefill"])
        measured = attempt["measured"]
        self.assertEqual(measured["transport"], "ucx-posix")
        self.assertEqual(measured["prompt_tokens_computed"], 300)
        self.assertGreater(measured["transfer_bytes"], 0)
        self.assertGreaterEqual(measured["prefill_chunks"], 1)
        self.assertGreater(attempt["predicted"]["ttft_ms"], 0)
        self.assertEqual(len(attempt["considered"]), 4)
        phases = {phase["name"]: phase for phase in told["phases"]}
        self.assertLess(phases["queue"]["end_ms"], phases["prefill"]["end_ms"])
        self.assertLessEqual(phases["decode"]["end_ms"], told["total_ms"])
        events = [event["event"] for event in told["timeline"]]
        for event in ("arrived", "tokenised", "placed", "prefill begins", "first token",
                      "transfer: first byte", "transfer: committed", "second token", "end"):
            self.assertIn(event, events)
        # The stopwatch of the client includes the way to it.
        self.assertLessEqual(told["ttft_ms"], answer.ttft * 1e3)

        text = run_briefly(["baton", "explain", answer.request_id, "--url", self.cluster.url])
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn(f"DECISION  remote ({attempt['reason']})", text.stdout)
        self.assertLessEqual(max(map(len, text.stdout.splitlines())), 100)
        again = run_briefly(["baton", "explain", told["id"], "--json", "--url", self.cluster.url])
        self.assertEqual(json.loads(again.stdout), told)
        print(text.stdout)
        return answer

    def check_local(self):
        answer = self.send(20, 4, seed=2)
        self.assertTrue(answer.ok, answer.why())
        attempt = self.explain(answer.request_id)["attempts"][0]
        self.assertEqual((attempt["decision"], attempt["reason"]), ("local", "short_prompt"))
        self.assertEqual(attempt["prefill"], "")
        self.assertEqual(attempt["measured"]["transport"], "")
        return answer

    def check_moved(self):
        """The decode worker dies in mid-stream."""
        running = {}

        def kill(answer):
            if len(answer.ids) != 6:
                return
            told = self.explain(answer.headers["x-request-id"])
            running.update(told)
            os.kill(self.cluster.process(told["attempts"][0]["decode"])["pid"], signal.SIGKILL)

        answer = self.send(300, 150, seed=3, on_token=kill)
        self.assertTrue(answer.ok, answer.why())
        self.assertEqual(len(answer.ids), 150)
        self.assertEqual(running["state"], "running")
        self.assertGreaterEqual(running["completion_tokens"], 6)
        told = self.explain(answer.request_id)
        self.assertEqual(told["moves"], 1)
        first, second = told["attempts"]
        self.assertNotEqual(first["decode"], second["decode"])
        self.assertIn(f"decode worker {first['decode']} is gone", second["moved_because"])
        self.assertIn("moved", [event["event"] for event in told["timeline"]])
        # The latencies are those of the first token, which was sent before.
        self.assertLess(told["ttft_ms"], second["placed_ms"])
        router = self.cluster.scrape(role="router")
        self.assertEqual(router.sum("baton_streams_moved_total", reason="worker_lost"), 1)
        return answer

    def check_failed(self):
        """A prompt that no pool holds: the worker refuses it."""
        answer = self.cluster.client().completion(prompts.ids(3500, seed=4), 4)
        self.assertEqual(answer.status, 400, answer.why())
        told = self.explain(answer.headers["x-request-id"])
        self.assertEqual((told["state"], told["error"]), ("failed", "invalid_argument"))
        self.assertIn("does not fit the KV pool", told["error_message"])
        self.assertIsNone(told["attempts"][0]["measured"])
        return answer

    def check_unknown(self):
        status, _, body = self.cluster.client().request("GET", "/baton/requests/nobody")
        self.assertEqual(status, 404)
        self.assertIn("remembers the last 4", json.loads(body)["error"]["message"])
        text = run_briefly(["baton", "explain", "nobody", "--url", self.cluster.url])
        self.assertEqual(text.returncode, 1)
        self.assertIn("knows no request of that id", text.stderr)

    def check_log(self, answers, failed):
        def lines():
            with open(self.log) as file:
                return file.read().splitlines()
        wait_until(lambda: len(lines()) == 4, "a line for each request", 5)
        log = [json.loads(line) for line in lines()]
        by_id = {line["request_id"]: line for line in log}
        for answer in answers:
            line = by_id[answer.request_id]
            self.assertEqual(line["prompt_tokens"], answer.usage["prompt_tokens"])
            self.assertEqual(line["completion_tokens"], answer.usage["completion_tokens"])
            self.assertEqual(line["finish_reason"], "length")
            # Its parts are the whole, but for the way between the processes.
            parts = line["placed_ms"] + line["queue_ms"] + line["prefill_ms"]
            self.assertAlmostEqual(parts, line["ttft_ms"], delta=30 + 0.2 * line["ttft_ms"])
            self.assertAlmostEqual(line["ttft_ms"] + line["decode_ms"], line["total_ms"],
                                   delta=30 + 0.1 * line["total_ms"])
            self.assertGreater(line["predicted_ttft_ms"], 0)
        self.assertEqual([line["moves"] for line in log], [0, 0, 1, 0])
        self.assertEqual(by_id[failed.headers["x-request-id"]]["error"], "invalid_argument")
        router = self.cluster.scrape(role="router")
        self.assertEqual(sum(line["completion_tokens"] for line in log),
                         router.sum("vllm:generation_tokens_total"))
        self.assertEqual(sum(line["prompt_tokens"] for line in log),
                         router.sum("vllm:prompt_tokens_total"))
        self.assertEqual(router.sum("baton_request_log_dropped_total"), 0)

    def check_load(self, answers):
        status = json.loads(self.cluster.client().request("GET", "/baton/status")[2])
        load = status["load"]
        self.assertEqual(load["failed"], 1)
        if time.monotonic() - answers[0].ended < 25:  # all of them are inside the window
            self.assertEqual(load["requests"], 4)
            self.assertEqual(load["moved"], 1)
            self.assertGreaterEqual(load["decisions"]["local"], 1)
        slowest = max(answer.ttft for answer in answers) * 1e3
        self.assertLessEqual(load["ttft_ms"]["p99"], slowest)
        self.assertGreater(load["tpot_ms"]["p50"], 0)
        self.assertGreaterEqual(load["transfer_visible_ms"]["p50"], 0)
        used = next(worker for worker in status["workers"]
                    if worker["name"] == answers[0].trace["prefill"])
        self.assertGreater(used["prefill_tokens_per_s"], 0)
        self.assertIsNone(used["decode_tokens_per_s"])
        self.assertGreater(used["step_ms_p50"], 0)
        self.assertEqual(used["queued_tokens"], 0)

    def check_roofline(self):
        for role, kind in (("prefill", "prefill"), ("decode", "decode")):
            scrape = self.cluster.scrape(role=role)
            self.assertGreater(scrape.sum("baton_machine_peak_flops"), 1e9)
            self.assertGreater(scrape.sum("baton_machine_peak_bytes_per_second"), 1e8)
            for name in ("flops", "bytes", "roofline_seconds"):
                for step in STEPS:
                    self.assertIn(step, [labels["kind"] for n, labels, _ in scrape.samples
                                         if n == f"baton_engine_{name}_total"])
            share = (scrape.sum("baton_engine_roofline_seconds_total", kind=kind)
                     / scrape.sum("baton_engine_step_seconds_sum", kind=kind))
            print(f"{role}: {share:.0%} of the roofline")
            # On shared CPUs a step may be much slower than its machine; never faster.
            self.assertGreater(share, 0.005)
            self.assertLessEqual(share, 1.0001)
        prefill = self.cluster.scrape(role="prefill")
        self.assertEqual(prefill.sum("baton_engine_step_seconds_count", kind="decode"), 0)
