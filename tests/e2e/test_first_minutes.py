"""What goes wrong in somebody's first minutes gives a clear error, and the rest goes on serving."""

import os
import socket
import tempfile
import unittest

import prompts
from client import in_parallel
from cluster import MODEL, Cluster, run_briefly

CONTEXT = 8192


def start_fails(test, args, *words):
    """`baton up` ends with status 1 and says all of `words` in one line."""
    done = run_briefly(["baton", "up", *args, "--set", "decode.*.kv_cache=64blocks",
                        "--set", "prefill.*.kv_cache=64blocks"])
    test.assertEqual(done.returncode, 1, done.stderr)
    lines = done.stderr.splitlines()
    test.assertTrue(any(all(word in line for word in words) for line in lines),
                    f"no line with {words} in:\n{done.stderr}")


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(sets=[
            "router.local_prefill=never", "decode.*.kv_cache=40blocks"]))
        cls.client = cls.cluster.client(timeout=60)

    def tearDown(self):
        answer = self.client.completion(prompts.ids(20, seed=1), max_tokens=4)
        self.assertTrue(answer.ok, "what served goes on serving: " + answer.why())

    def check_error(self, answer, status, code, *words):
        self.assertEqual(answer.status, status, answer.why())
        self.assertEqual(set(answer.error), {"message", "type", "param", "code"})
        self.assertEqual(answer.error["code"], code)
        for word in words:
            self.assertIn(word, answer.error["message"])

    def test_prompt_longer_than_the_context(self):
        for stream in (True, False):
            answer = self.client.completion(prompts.ids(CONTEXT + 1, seed=2), max_tokens=1,
                                            stream=stream)
            self.check_error(answer, 400, "context_length_exceeded",
                             f"maximum context length is {CONTEXT} tokens", str(CONTEXT + 1))

    def test_prompt_and_output_longer_than_the_context(self):
        answer = self.client.completion(prompts.ids(100, seed=3), max_tokens=CONTEXT)
        self.check_error(answer, 400, "context_length_exceeded", str(CONTEXT))

    def test_body_that_is_no_json(self):
        for body in ("this is no JSON", "{\"prompt\": ", "[1, 2]", ""):
            status, headers, data = self.client.request(
                "POST", "/v1/completions", body, {"Content-Type": "application/json"})
            self.assertEqual(status, 400, data)
            self.assertIn(b"JSON", data)
            self.assertIn("application/json", headers.get("Content-Type", ""))

    def test_unknown_model(self):
        answer = self.client.completion("hello", model="gpt-17")
        self.check_error(answer, 404, "model_not_found", "gpt-17")

    def test_unknown_path_and_wrong_method(self):
        self.assertEqual(self.client.request("POST", "/v1/nothing", {})[0], 404)
        status, headers, _ = self.client.request("GET", "/v1/completions")
        self.assertEqual(status, 405)
        self.assertIn("POST", headers.get("Allow", ""))

    def test_prompt_that_never_fits_the_decode_pool(self):
        # 40 blocks of 32 tokens on the decode worker, 800 on the prefill worker.
        answer = self.client.completion(prompts.ids(2000, seed=4), max_tokens=4)
        self.assertIn(answer.status, (400, 429, 503), answer.why())
        self.assertIn("never fits a pool of 1280", answer.error["message"])

    def test_full_decode_pool(self):
        # Each needs 8 of the 40 blocks: most wait, and none is refused or lost.
        answers = in_parallel([
            lambda seed=seed: self.client.completion(prompts.ids(200, seed=100 + seed),
                                                     max_tokens=24, ignore_eos=True)
            for seed in range(12)])
        for answer in answers:
            self.assertTrue(answer.ok, answer.why())
            self.assertEqual(len(answer.ids), 24)
        self.cluster.wait_blocks_free()


class CannotStart(unittest.TestCase):
    def test_missing_model_file(self):
        start_fails(self, ["deploy/local.yaml", "--port", "0", "--model", "no/such.gguf"],
                    "no/such.gguf")

    def test_broken_model_file(self):
        with tempfile.TemporaryDirectory(prefix="baton-e2e-") as folder:
            cut = os.path.join(folder, "cut.gguf")
            with open(MODEL, "rb") as whole, open(cut, "wb") as part:
                part.write(whole.read(20_000_000))
            start_fails(self, ["deploy/local.yaml", "--port", "0", "--model", cut], cut)
            text = os.path.join(folder, "text.gguf")
            with open(text, "w") as file:
                file.write("version https://git-lfs.github.com/spec/v1\n" * 10)
            start_fails(self, ["deploy/local.yaml", "--port", "0", "--model", text], text)

    def test_occupied_port(self):
        with socket.socket() as occupied:
            occupied.bind(("127.0.0.1", 0))
            occupied.listen()
            port = str(occupied.getsockname()[1])
            start_fails(self, ["deploy/local.yaml", "--port", port], port)

    def test_unknown_key(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", prefix="baton-e2e-") as file:
            file.write("router:\n  listen: 127.0.0.1:0\n  local_prefil: never\n")
            file.flush()
            start_fails(self, [file.name], file.name + ":3", "local_prefil", "local_prefill")
        start_fails(self, ["deploy/local.yaml", "--set", "router.drian=3s"],
                    "router.drian", "router.drain")

    def test_missing_file(self):
        start_fails(self, ["no/such.yaml"], "no/such.yaml")
