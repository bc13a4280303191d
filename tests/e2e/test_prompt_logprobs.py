"""Log-probabilities of prompts: the same wherever the prompt is computed, alone or in company, and
those of the arithmetic that `baton bench quality` measures."""

import json
import os
import subprocess
import tempfile
import unittest

from client import in_parallel
from cluster import BIN, MODEL, Cluster
from prompts import ROOT

TEXT = ("The lighthouse keeper climbed the stairs, caf\u00e9 in hand, and counted the ships: "
        "one, two, three. \u65e5\u672c\u306e\u8239 came last. ") * 6


class PromptLogprobs(unittest.TestCase):
    def ask(self, cluster, prompt=TEXT, **fields):
        status, _, body = cluster.client().request("POST", "/v1/completions", {
            "prompt": prompt, "max_tokens": 2, "temperature": 0, "echo": True, "logprobs": 1,
            **fields})
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def test_the_same_values_everywhere(self):
        choices = {}
        for place in ("never", "always"):
            with Cluster(sets=[f"router.local_prefill={place}"]) as cluster:
                alone = self.ask(cluster)
                again = self.ask(cluster)
                together = in_parallel(
                    [lambda n=n: self.ask(cluster, n=1 + n % 2) for n in range(4)], limit=4)
                silent = self.ask(cluster, max_tokens=0)
                many = self.ask(cluster, prompt=[TEXT, "Once upon a time"])
                cluster.wait_blocks_free()
            choices[place] = alone["choices"][0]
            self.assertEqual(again["choices"], alone["choices"], "a warm cache changes nothing")
            self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            for answer in together:
                for choice in answer["choices"]:
                    self.assertEqual(choice["logprobs"], alone["choices"][0]["logprobs"])
            self.assertEqual(many["choices"][0], alone["choices"][0])
            self.assertTrue(many["choices"][1]["text"].startswith("Once upon a time"))
            self.check_lists(alone, silent)
        self.assertEqual(choices["never"], choices["always"])

    def test_they_are_the_engines_own(self):
        """`baton bench quality` compares them with the logits of an engine without a cluster."""
        with Cluster(sets=["router.local_prefill=never"]) as cluster:
            choice = self.ask(cluster, prompt_logprobs=20, return_token_ids=True)["choices"][0]
            cluster.wait_blocks_free()
        ids, rows = choice["prompt_token_ids"], choice["prompt_logprobs"]
        self.assertEqual(len(ids), len(rows))
        begin = 1
        rows = rows[begin:]
        item = {"prompt_ids": ids[:begin], "greedy_ids": ids[begin:], "margin": [0] * len(rows),
                "top_ids": [[int(token) for token in row] for row in rows],
                "top_logprobs": [[entry["logprob"] for entry in row.values()] for row in rows]}
        for token, row in zip(ids[begin:], rows):
            ranks = sorted(entry["rank"] for entry in row.values())
            self.assertEqual(ranks[:20], list(range(1, 21)))
            self.assertIn(str(token), row)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"items": [item]}, file)
            file.flush()
            done = subprocess.run(
                [os.path.join(BIN, "baton"), "bench", "quality", "--model", MODEL, "--reference",
                 file.name, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=120,
                check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(abs(json.loads(done.stdout)["kl_top64_mean"]), 1e-6, done.stdout)

    def check_lists(self, answer, silent):
        choice = answer["choices"][0]
        count = answer["usage"]["prompt_tokens"]
        lists = choice["logprobs"]
        self.assertTrue(choice["text"].startswith(TEXT))
        self.assertEqual(len(lists["tokens"]), count + 2)
        self.assertIsNone(lists["token_logprobs"][0])
        self.assertTrue(all(value <= 0 for value in lists["token_logprobs"][1:]))
        # The offset of the first token after the prompt counts characters, not bytes.
        self.assertEqual(lists["text_offset"][count], len(TEXT))
        self.assertEqual(silent["choices"][0]["text"], TEXT)
        self.assertEqual(silent["usage"]["completion_tokens"], 0)
        self.assertEqual(silent["choices"][0]["finish_reason"], "length")
        for name, values in silent["choices"][0]["logprobs"].items():
            self.assertEqual(values, lists[name][:count], name)


if __name__ == "__main__":
    unittest.main()
