"""NVIDIA's aiperf: a short profile of streams, whose counts must be the server's."""

import json
import pathlib

import tokenizer_folder
from scenario import MODEL, Scenario

REQUESTS, INPUT, OUTPUT = 8, 64, 8


class AiPerfTest(Scenario):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tokenizer = tokenizer_folder.write(pathlib.Path(cls.folder, "tokenizer"))

    def profile(self, kind, *arguments):
        """(summary, records) of a run."""
        out = pathlib.Path(self.folder, kind)
        self.run_program(
            "aiperf", "profile", "--model", MODEL, "--url", self.cluster.url, "--endpoint-type", kind,
            "--streaming", "--tokenizer", self.tokenizer, "--request-count", str(REQUESTS),
            "--concurrency", "2", "--prompt-input-tokens-mean", str(INPUT),
            "--prompt-input-tokens-stddev", "0", "--prompt-output-tokens-mean", str(OUTPUT),
            # An event without text would not count as one.
            *[part for field in (f"min_tokens:{OUTPUT}", "ignore_eos:true", "temperature:0",
                                 "skip_special_tokens:false") for part in ("--extra-inputs", field)],
            "--output-artifact-dir", out, "--ui-type", "none", "--no-gpu-telemetry",
            "--random-seed", "7", *arguments)
        summary = json.loads((out / "profile_export_aiperf.json").read_text())
        lines = (out / "profile_export.jsonl").read_text().splitlines()
        return summary, [json.loads(line)["metrics"] for line in lines]

    def check(self, kind, *arguments):
        before = self.requests()
        summary, records = self.profile(kind, *arguments)
        self.assertEqual(self.requests() - before, REQUESTS)
        self.assertEqual(summary["request_count"]["avg"], REQUESTS)
        self.assertEqual(summary["error_summary"], [])
        self.assertEqual(len(records), REQUESTS)
        for record in records:
            self.assertEqual(record["usage_prompt_tokens"]["value"], INPUT)
            self.assertEqual(record["usage_completion_tokens"]["value"], OUTPUT)
            # The first token comes with the first event, not before it.
            self.assertGreater(record["time_to_first_token"]["value"], 0)
            self.assertEqual(len(record["inter_chunk_latency"]["value"]), OUTPUT - 1)

    def test_chat(self):
        # aiperf makes its messages so much shorter that with the template they have INPUT tokens.
        self.check("chat", "--apply-chat-template")

    def test_completions(self):
        self.check("completions")
