"""`numerics: fast` through the endpoint: workers measure it at start, serve a prompt that crosses from
one to the other and one that does not, and refuse a worker of the other mode."""

import re
import unittest

from cluster import Cluster, run_briefly
from prompts import ROOT

QUESTION = "The capital of France is"


class FastNumerics(unittest.TestCase):
    def test_serves_what_it_has_measured(self):
        with Cluster("deploy/local.yaml", sets=["numerics=fast"]) as cluster:
            for text in (40 * "Every country has a capital. " + QUESTION, QUESTION):
                answer = cluster.client().completion(text, 8)
                self.assertTrue(answer.ok, answer.why())
                print(f"{answer.usage['prompt_tokens']} tokens of prompt: {answer.text!r}")
                self.assertTrue(answer.text.startswith(" Paris"), answer.text)
            log = cluster.log_text()
        self.assertRegex(log, r"numerics=\"?fast-1:split512:1")
        measured = re.findall(r"fast numerics measured against invariant divergence_nats=\"?([0-9.e+-]+)",
                              log)
        print(f"divergences at start: {measured}")
        self.assertLessEqual(len(measured), 2)
        for divergence in measured:
            self.assertLess(float(divergence), 5e-3)

    def test_the_force_needs_the_mode(self):
        done = run_briefly(["baton", "up", f"{ROOT}/deploy/local.yaml", "--set",
                            "numerics_force=true"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("means something with numerics: fast only", done.stderr + done.stdout)


if __name__ == "__main__":
    unittest.main()
