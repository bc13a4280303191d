"""Output keeps its form across the hand-over, in every choice, and when its decode worker dies."""

import json
import os
import re
import signal
import threading
import time
import unittest

from client import in_parallel
from cluster import Cluster

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 40},
        "age": {"type": "integer", "minimum": 1, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 2,
                 "maxItems": 4},
    },
    "required": ["name", "age", "tags"],
}
ASK = [{"role": "user", "content": "Describe a person as JSON."}]


def as_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


class StructuredOutput(unittest.TestCase):
    def check(self, text):
        value = json.loads(text)
        self.assertEqual(list(value), ["name", "age", "tags"])
        self.assertTrue(1 <= value["age"] <= 120 and 1 <= len(value["name"]) <= 40)
        self.assertTrue(2 <= len(value["tags"]) <= 4)
        self.assertLessEqual(set(value["tags"]), {"red", "green", "blue"})

    def test_the_same_output_wherever_the_prompt_is_computed(self):
        texts = {}
        for place in ("never", "always"):
            with Cluster(sets=[f"router.local_prefill={place}"]) as cluster:
                answers = in_parallel([
                    lambda n=n: cluster.client().chat(
                        ASK, max_tokens=200, temperature=1.0, seed=n, stream=n % 2 == 0,
                        response_format=as_schema(SCHEMA)) for n in range(6)], limit=6)
                status, _, body = cluster.client().request("POST", "/v1/chat/completions", {
                    "messages": ASK, "max_tokens": 200, "temperature": 1.3, "seed": 9, "n": 3,
                    "response_format": as_schema(SCHEMA)})
                expression = cluster.client().completion(
                    "The date is", max_tokens=30, guided_regex=r" \d{4}-(0[1-9]|1[0-2])-[0-3]\d")
                cluster.wait_blocks_free()
            for answer in answers:
                self.assertTrue(answer.ok, answer.why())
                self.check(answer.text)
            self.assertEqual(status, 200, body)
            for choice in json.loads(body)["choices"]:
                self.assertEqual(choice["finish_reason"], "stop")
                self.check(choice["message"]["content"])
            self.assertRegex(expression.text, r"^ \d{4}-\d\d-\d\d$")
            texts[place] = [answer.text for answer in answers]
        self.assertEqual(texts["never"], texts["always"])

    def test_goes_on_when_the_decode_worker_dies(self):
        schema = {"type": "array", "items": {"type": "integer", "minimum": 100, "maximum": 999},
                  "minItems": 60, "maxItems": 60}
        with Cluster(file="deploy/local-2p2d.yaml") as cluster:
            def ask():
                return cluster.client().chat(ASK, max_tokens=400, temperature=1.0, seed=3,
                                             stream=True, response_format=as_schema(schema))
            want = ask()
            self.assertTrue(want.ok, want.why())
            answers = []
            thread = threading.Thread(target=lambda: answers.append(ask()))
            thread.start()
            time.sleep(0.3)
            for name in ("d0", "d1"):
                if cluster.scrape(name=name).sum("vllm:num_requests_running") > 0:
                    os.kill(cluster.process(name)["pid"], signal.SIGKILL)
                    break
            thread.join(60)
            moved = cluster.scrape(role="router").sum("baton_streams_moved_total")
        self.assertTrue(answers[0].ok, answers[0].why())
        self.assertEqual(answers[0].text, want.text)
        numbers = json.loads(want.text)
        self.assertEqual(len(numbers), 60)
        self.assertTrue(all(100 <= number <= 999 for number in numbers))
        self.assertTrue(re.fullmatch(r"\[[\d,\s]*\]", want.text))
        print(f"streams moved: {moved:.0f}")
