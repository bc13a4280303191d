"""Greedy text through both workers and UCX equals that of one process."""

import unittest

import prompts
from client import in_parallel
from cluster import FULL, Cluster, generate

TOKENS = 48


class GreedyEquality(unittest.TestCase):
    def test_served_text_equals_generate(self):
        items = [item for item in prompts.reference_items() if len(item["prompt_ids"]) <= 600]
        if not FULL:
            items = items[1:16:3]  # 13 to 600 tokens, raw and chat
        wanted = [generate(item["prompt_ids"], TOKENS) for item in items]
        with Cluster(sets=["router.local_prefill=never"]) as cluster:
            served = in_parallel([
                lambda item=item, stream=stream: cluster.client().completion(
                    item["prompt_ids"], max_tokens=TOKENS, stream=stream)
                for item in items for stream in (True, False)])
            cluster.wait_blocks_free()
            computed = cluster.scrape(role="decode").sum("baton_prompt_tokens_computed_total")
        for index, (item, want) in enumerate(zip(items, wanted)):
            for answer in served[2 * index:2 * index + 2]:
                with self.subTest(text=item["text"][:40]):
                    self.assertTrue(answer.ok, answer.why())
                    self.assertEqual(answer.prompt_ids, item["prompt_ids"])
                    self.assertEqual(answer.ids, want["tokens"])
                    self.assertEqual(answer.text, want["text"])
                    self.assertEqual(answer.trace["prefill"], "p0")
                    self.assertEqual(answer.trace["transport"], "ucx-posix")
        self.assertEqual(computed, 0, "the decode worker computed prompt tokens")
        print(f"{len(items)} prompts, streamed and not: the same tokens and text")

    def test_text_prompts_are_tokenised_like_generate(self):
        texts = [item["text"] for item in prompts.reference_items()
                 if item["kind"] == "raw" and len(item["prompt_ids"]) <= 24]
        ids = [item["prompt_ids"] for item in prompts.reference_items()
               if item["kind"] == "raw" and len(item["prompt_ids"]) <= 24]
        with Cluster(sets=["router.local_prefill=never"]) as cluster:
            for text, want in zip(texts, ids):
                answer = cluster.client().completion(text, max_tokens=4)
                self.assertEqual(answer.prompt_ids, want)
            answer = cluster.client().chat([{"role": "user", "content": "Say hello."}],
                                           max_tokens=24)
            self.assertTrue(answer.ok, answer.why())
            self.assertEqual(answer.ids, generate(answer.prompt_ids, 24)["tokens"])
